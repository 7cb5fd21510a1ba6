// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Phase is where a cluster is in its life.
type Phase string

// Phases of a cluster.
const (
	PhaseStarting Phase = "starting"
	PhaseReady    Phase = "ready"
	PhaseFailed   Phase = "failed"
	PhaseStopped  Phase = "stopped"
)

// Record is what a cluster tells other processes about itself, in the file cluster.json of its state directory.
type Record struct {
	Name          string            `json:"name"`
	Phase         Phase             `json:"phase"`
	SupervisorPID int               `json:"supervisorPID"`
	StartedAt     time.Time         `json:"startedAt"`
	Options       Options           `json:"options"`
	Server        string            `json:"server"`
	Kubeconfig    string            `json:"kubeconfig"`
	AuditLog      string            `json:"auditLog,omitempty"`
	Versions      map[string]string `json:"versions"`
	Ports         map[string]int    `json:"ports"`
	Users         []User            `json:"users"`
	Components    []ComponentRecord `json:"components"`
}

// ComponentRecord is what a cluster says about one of its processes.
type ComponentRecord struct {
	Name string `json:"name"`
	PID  int    `json:"pid,omitempty"`
	// Exit says how the process ended; it is empty while the process runs.
	Exit string `json:"exit,omitempty"`
	// Crashed is set when the process ended without having been told to.
	Crashed bool   `json:"crashed,omitempty"`
	Log     string `json:"log"`
	Address string `json:"address,omitempty"`
	Probe   Probe  `json:"probe"`
}

// readRecord returns what the last run in stateDir said about itself, or an empty record when there was none.
func readRecord(stateDir string) (*Record, error) {
	content, err := os.ReadFile(filepath.Join(stateDir, recordFile))
	if errors.Is(err, os.ErrNotExist) {
		return &Record{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read cluster record: %w", err)
	}
	var record Record
	if err := json.Unmarshal(content, &record); err != nil {
		return nil, fmt.Errorf("cluster record in %s is damaged (remove the directory to start afresh): %w", stateDir, err)
	}
	return &record, nil
}

func (r *Record) save(stateDir string) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode cluster record: %w", err)
	}
	return writeFileAtomically(filepath.Join(stateDir, recordFile), append(content, '\n'), 0o600)
}

// component returns the entry of that name, adding one if there is none.
func (r *Record) component(name string) *ComponentRecord {
	for i := range r.Components {
		if r.Components[i].Name == name {
			return &r.Components[i]
		}
	}
	r.Components = append(r.Components, ComponentRecord{Name: name})
	return &r.Components[len(r.Components)-1]
}

// writeFileAtomically never lets a reader see half a file.
func writeFileAtomically(path string, content []byte, mode os.FileMode) error {
	scratch, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = scratch.Write(content)
	err = errors.Join(err, scratch.Chmod(mode), scratch.Close())
	if err == nil {
		err = os.Rename(scratch.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(scratch.Name()))
	}
	return nil
}
