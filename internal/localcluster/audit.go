// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// auditPolicy records who did what and how it ended, but no bodies: they cost time and nobody counts them.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// auditArgs make the API server write a record before it answers, so that a test that has its answer can count.
func (c *Cluster) auditArgs() []string {
	return []string{
		"--audit-policy-file=" + c.path("audit-policy.yaml"),
		"--audit-log-path=" + c.AuditLogPath(),
		"--audit-log-mode=blocking",
		// Rotation would pull the file away under a reader that remembers an offset.
		"--audit-log-maxsize=102400",
	}
}

// AuditLogPath returns the file that requests are recorded in when Options.Audit is set.
func (c *Cluster) AuditLogPath() string {
	return c.path(logDirectory, "audit.log")
}

// AuditRecord is one answered request.
type AuditRecord struct {
	ID          string
	User        string
	UserAgent   string
	Verb        string
	Group       string
	Version     string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	// URI is the request as sent; requests for no resource, such as /readyz, have nothing else.
	URI  string
	Code int
	// Denied tells that the user had no right to it. Quotas, webhooks and namespaces that are going away refuse with the
	// same code what the user was allowed to ask for.
	Denied bool
	// Received and Answered bound the request; a watch is answered when it ends.
	Received time.Time
	Answered time.Time
}

// auditEvent is the part of an audit.k8s.io/v1 Event that is of interest.
type auditEvent struct {
	AuditID    string `json:"auditID"`
	Stage      string `json:"stage"`
	RequestURI string `json:"requestURI"`
	Verb       string `json:"verb"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	UserAgent string `json:"userAgent"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		APIGroup    string `json:"apiGroup"`
		APIVersion  string `json:"apiVersion"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Annotations struct {
		Decision string `json:"authorization.k8s.io/decision"`
	} `json:"annotations"`
	RequestReceivedTimestamp time.Time `json:"requestReceivedTimestamp"`
	StageTimestamp           time.Time `json:"stageTimestamp"`
}

// ReadAudit returns the requests that were answered in full (stage ResponseComplete) and recorded after offset, and the
// offset at which to go on reading. A line that is still being written is left for the next call.
func ReadAudit(path string, offset int64) ([]AuditRecord, int64, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, offset, nil // nothing was asked yet
	}
	if err != nil {
		return nil, offset, fmt.Errorf("open audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil, offset, fmt.Errorf("read audit log from %d: %w", offset, err)
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return nil, offset, fmt.Errorf("read audit log: %w", err)
	}
	var records []AuditRecord
	for {
		line, rest, whole := bytes.Cut(content, []byte("\n"))
		if !whole {
			return records, offset, nil
		}
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return records, offset, fmt.Errorf("audit log at byte %d: %w", offset, err)
		}
		if event.Stage == "ResponseComplete" {
			records = append(records, event.record())
		}
		offset += int64(len(line)) + 1
		content = rest
	}
}

func (e auditEvent) record() AuditRecord {
	return AuditRecord{
		ID: e.AuditID, User: e.User.Username, UserAgent: e.UserAgent, Verb: e.Verb,
		Group: e.ObjectRef.APIGroup, Version: e.ObjectRef.APIVersion,
		Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
		Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name,
		URI: e.RequestURI, Code: e.ResponseStatus.Code, Denied: e.Annotations.Decision == "forbid",
		Received: e.RequestReceivedTimestamp, Answered: e.StageTimestamp,
	}
}
