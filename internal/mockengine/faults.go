// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Operation is what a fault strikes.
type Operation string

// Operations of a worker.
const (
	OnStart    Operation = "start"
	OnLive     Operation = "live"
	OnHealth   Operation = "health"
	OnMetrics  Operation = "metrics"
	OnLoad     Operation = "load"
	OnUnload   Operation = "unload"
	OnList     Operation = "list"
	OnGenerate Operation = "generate"
	OnPublish  Operation = "publish"
)

// FaultKind is what happens.
type FaultKind string

// Kinds of faults.
const (
	// FaultLatency delays the operation by Delay. On start it is a slow start. A load goes on when nobody waits for it any more,
	// as that of a worker does.
	FaultLatency FaultKind = "latency"
	// FaultHang never answers; it ends with the client or the worker.
	FaultHang FaultKind = "hang"
	// FaultStatus answers with the code Status.
	FaultStatus FaultKind = "status"
	// FaultError answers as a worker does that failed: 200, and an error in the body.
	FaultError FaultKind = "error"
	// FaultFull answers that there is no room: with an error in the body, or with the code Status if that is set.
	FaultFull FaultKind = "full"
	// FaultGarbage answers 200 with a body that is nothing.
	FaultGarbage FaultKind = "garbage"
	// FaultHuge answers 200 with a body of Bytes, 64 MiB if that is zero.
	FaultHuge FaultKind = "huge"
	// FaultRedirect sends the client to Location, to the same address if that is empty.
	FaultRedirect FaultKind = "redirect"
	// FaultReset ends the connection without an answer.
	FaultReset FaultKind = "reset"
	// FaultCrash ends the process with the code Status, 1 if that is zero.
	FaultCrash FaultKind = "crash"
	// FaultLost, on publish, leaves an adapter out of, or in, what the worker publishes.
	FaultLost FaultKind = "lost"
)

// Fault is one thing that goes wrong. What is zero does not restrict it.
type Fault struct {
	On   Operation `json:"on"`
	Kind FaultKind `json:"kind"`
	// Adapter is the only one that is struck.
	Adapter string `json:"adapter,omitempty"`
	// Skip lets so many operations pass first; Count ends the fault after so many strikes.
	Skip  int `json:"skip,omitempty"`
	Count int `json:"count,omitempty"`
	// Probability is that of a strike; zero means always.
	Probability float64 `json:"probability,omitempty"`
	// Late strikes after the operation has had its effect: only the answer is lost.
	Late bool `json:"late,omitempty"`

	Status   int             `json:"status,omitempty"`
	Message  string          `json:"message,omitempty"`
	Delay    metav1.Duration `json:"delay,omitzero"`
	Location string          `json:"location,omitempty"`
	Bytes    int64           `json:"bytes,omitempty"`

	// Struck counts the strikes so far. It is reported, not set.
	Struck int `json:"struck,omitempty"`
}

// Validate says what is wrong with a fault.
func (f Fault) Validate() error {
	operations := []Operation{OnStart, OnLive, OnHealth, OnMetrics, OnLoad, OnUnload, OnList, OnGenerate, OnPublish}
	kinds := []FaultKind{
		FaultLatency, FaultHang, FaultStatus, FaultError, FaultFull, FaultGarbage, FaultHuge, FaultRedirect, FaultReset,
		FaultCrash, FaultLost,
	}
	switch {
	case !slices.Contains(operations, f.On):
		return fmt.Errorf("on: %q is none of %v", f.On, operations)
	case !slices.Contains(kinds, f.Kind):
		return fmt.Errorf("kind: %q is none of %v", f.Kind, kinds)
	case (f.Kind == FaultLost) != (f.On == OnPublish):
		return fmt.Errorf("kind: %q does not happen on %q; %q and %q belong together", f.Kind, f.On, FaultLost, OnPublish)
	case f.On == OnStart && f.Kind != FaultLatency && f.Kind != FaultCrash && f.Kind != FaultHang:
		return fmt.Errorf("kind: a start knows %q, %q and %q, not %q", FaultLatency, FaultHang, FaultCrash, f.Kind)
	}
	return f.validateNumbers()
}

func (f Fault) validateNumbers() error {
	switch {
	case f.Kind == FaultStatus && (f.Status < 200 || f.Status > 599):
		return fmt.Errorf("status: %d is no status code of an answer", f.Status)
	case f.Probability < 0 || f.Probability > 1:
		return fmt.Errorf("probability: %v is not between 0 and 1", f.Probability)
	case f.Skip < 0 || f.Count < 0 || f.Bytes < 0 || f.Delay.Duration < 0:
		return errors.New("skip, count, bytes and delay cannot be negative")
	}
	return nil
}

// ParseFault reads a fault from JSON, or from the short form "on=load,kind=status,status=503,count=2".
func ParseFault(text string) (Fault, error) {
	var f Fault
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		strict := json.NewDecoder(strings.NewReader(text))
		strict.DisallowUnknownFields() // a fault that is spelt wrong would never strike
		if err := strict.Decode(&f); err != nil {
			return f, fmt.Errorf("fault %q: %w", text, err)
		}
	} else if err := f.parseShort(text); err != nil {
		return f, fmt.Errorf("fault %q: %w", text, err)
	}
	if err := f.Validate(); err != nil {
		return f, fmt.Errorf("fault %q: %w", text, err)
	}
	return f, nil
}

func (f *Fault) parseShort(text string) error {
	for pair := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		var err error
		switch key {
		case "on":
			f.On = Operation(value)
		case "kind":
			f.Kind = FaultKind(value)
		case "adapter":
			f.Adapter = value
		case "message":
			f.Message = value
		case "location":
			f.Location = value
		case "late":
			f.Late = value == "" || value == "true"
		case "probability":
			f.Probability, err = strconv.ParseFloat(value, 64)
		case "delay":
			f.Delay.Duration, err = time.ParseDuration(value)
		case "bytes":
			f.Bytes, err = strconv.ParseInt(value, 10, 64)
		case "status", "skip", "count":
			target := map[string]*int{"status": &f.Status, "skip": &f.Skip, "count": &f.Count}[key]
			*target, err = strconv.Atoi(value)
		default:
			return fmt.Errorf("%q is no part of a fault", key)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// Faults are those of one worker. The zero value has none and is ready to use.
type Faults struct {
	mu   sync.Mutex
	list []Fault
	seed uint64
	dice *rand.Rand
}

// Seed makes the dice of faults with a probability fall the same way every time.
func (s *Faults) Seed(seed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seed, s.dice = seed, nil
}

// Set replaces all faults.
func (s *Faults) Set(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.Clone(faults)
}

// Add adds faults to those that are.
func (s *Faults) Add(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, faults...)
}

// List returns the faults with the number of their strikes.
func (s *Faults) List() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// strike returns the faults that happen to an operation now: all delays, and the first of what ends it.
func (s *Faults) strike(on Operation, adapter string, late bool) []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	var struck []Fault
	for i := range s.list {
		f := &s.list[i]
		if f.On != on || f.Late != late || f.Adapter != "" && f.Adapter != adapter || !s.due(f) {
			continue
		}
		f.Struck++
		struck = append(struck, *f)
		if f.Kind != FaultLatency {
			break
		}
	}
	return struck
}

// due counts an operation against a fault and tells whether it is struck.
func (s *Faults) due(f *Fault) bool {
	if f.Count > 0 && f.Struck >= f.Count {
		return false
	}
	if f.Skip > 0 {
		f.Skip--
		return false
	}
	if f.Probability == 0 {
		return true
	}
	if s.dice == nil {
		s.dice = rand.New(rand.NewPCG(s.seed, 0))
	}
	return s.dice.Float64() < f.Probability
}

// ServeHTTP lets faults be read (GET), replaced (PUT), added (POST) and removed (DELETE) while the worker runs.
func (s *Faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
	case http.MethodDelete:
		s.Set()
	case http.MethodPut, http.MethodPost:
		faults, err := decodeFaults(r)
		if err != nil {
			writeJSON(w, http.StatusBadRequest, loraAnswer{Status: statusError, Message: err.Error()})
			return
		}
		if r.Method == http.MethodPut {
			s.Set(faults...)
		} else {
			s.Add(faults...)
		}
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	writeJSON(w, http.StatusOK, append([]Fault{}, s.List()...))
}

// decodeFaults reads one fault or a list of them.
func decodeFaults(r *http.Request) ([]Fault, error) {
	var raw json.RawMessage
	if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxBody)).Decode(&raw); err != nil {
		return nil, fmt.Errorf("read faults: %w", err)
	}
	return ParseFaults(string(raw))
}

// ParseFaults reads a JSON list of faults, or one as ParseFault does.
func ParseFaults(text string) ([]Fault, error) {
	if !strings.HasPrefix(strings.TrimSpace(text), "[") {
		one, err := ParseFault(text)
		return []Fault{one}, err
	}
	var raw []json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, fmt.Errorf("read faults: %w", err)
	}
	faults := make([]Fault, 0, len(raw))
	for _, one := range raw {
		f, err := ParseFault(string(one))
		if err != nil {
			return nil, err
		}
		faults = append(faults, f)
	}
	return faults, nil
}
