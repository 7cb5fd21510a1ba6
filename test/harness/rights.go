// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dynamo-operator/dynamo-operator/config/rbac"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
)

// auditDirectory is the variable that names the directory for what operators asked of their API servers. tools/rbaccheck
// compares it with the role they are shipped with.
const auditDirectory = "DYNAMO_AUDIT_DIR"

// Asked is a kind of request of an operator, as tools/rbaccheck reads it.
type Asked struct {
	Verb        string `json:"verb"`
	Group       string `json:"group"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	// Name is kept where the role restricts names.
	Name string `json:"name,omitempty"`
	// Namespaced tells that the request was for one namespace, Selected that it named a label, a field or an object.
	Namespaced bool `json:"namespaced"`
	Selected   bool `json:"selected"`
	Denied     bool `json:"denied,omitempty"`
	// Mode is that of the operator, one of the constants below.
	Mode string `json:"mode"`
	// Example is one such request.
	Example string `json:"example"`
}

// The modes of an operator, each of which has a role of its own.
const (
	modeClusterWide = "cluster-wide"
	modeRestricted  = "restricted"
)

// shipped are the users that have a shipped role and nothing else, with their mode.
var shipped sync.Map

// note remembers that a user has the role of operators that work in a namespace, or in all.
func note(t testing.TB, namespace, user string) {
	t.Helper()
	mode := modeRestricted
	if namespace == ClusterWide {
		mode = modeClusterWide
	}
	if before, _ := shipped.LoadOrStore(user, mode); before != mode {
		t.Fatalf("user %s is a %s operator and cannot be a %s one, too: nobody could tell which role its requests need", user, before, mode)
	}
}

// losing are operators whose rights go away while they run, or are not known to the API server yet.
var losing sync.Map

// LosesRights says that the operator of a namespace is denied what it may do for a while, as happens when its Role goes with the
// namespace, or while an API server that was just started has not read the Roles. Such denials say nothing about the role.
func LosesRights(t testing.TB, namespace string) {
	t.Helper()
	losing.Store("operator-"+namespace, true)
}

// AccountLosesRights says the same of an operator that runs under the account of a pod, whose roles are taken away before it ends.
func AccountLosesRights(t testing.TB, user string) {
	t.Helper()
	losing.Store(user, true)
}

// writeAsked folds the audit log of this test package into a file, if somebody wants one.
func writeAsked(p *controlPlane) error {
	directory := os.Getenv(auditDirectory)
	if directory == "" {
		return nil
	}
	records, _, err := localcluster.ReadAudit(p.cluster.AuditLogPath(), 0)
	if err != nil {
		return err
	}
	role, err := rbac.ManagerRole()
	if err != nil {
		return err
	}
	named := map[string]bool{}
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			named[resource] = named[resource] || len(rule.ResourceNames) > 0
		}
	}
	modes := func(user string) (string, bool) {
		mode, ours := shipped.Load(user)
		text, _ := mode.(string)
		return text, ours
	}
	text, err := json.MarshalIndent(fold(records, named, modes), "", "  ")
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(directory, "asked-*.json")
	if err != nil {
		return fmt.Errorf("store what operators asked: %w", err)
	}
	_, err = file.Write(text)
	return cmp.Or(err, file.Close())
}

// fold leaves one of each kind of request that an operator made. modes tells the mode of a user that is one.
func fold(records []localcluster.AuditRecord, named map[string]bool, modes func(user string) (string, bool)) []Asked {
	seen := map[Asked]string{}
	for _, r := range records {
		mode, ours := modes(r.User)
		if _, excused := losing.Load(r.User); !ours || r.Resource == "" || r.Denied && excused {
			continue
		}
		a := Asked{
			Mode: mode,
			Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespaced: r.Namespace != "",
			Selected: r.Name != "" || strings.Contains(r.URI, "Selector="), Denied: r.Denied,
		}
		if named[r.Resource] {
			a.Name = r.Name
		}
		example := r.User + " " + r.URI
		seen[a] = cmp.Or(seen[a], example)
		if r.Verb == "patch" && r.Code == http.StatusCreated {
			// An apply that makes an object needs both rights, and is recorded under one.
			a.Verb = "create"
			seen[a] = cmp.Or(seen[a], example)
		}
	}
	all := make([]Asked, 0, len(seen))
	for a, example := range seen {
		a.Example = example
		all = append(all, a)
	}
	slices.SortFunc(all, func(x, y Asked) int {
		return cmp.Compare(fmt.Sprint(x), fmt.Sprint(y))
	})
	return all
}

// wantsAudit tells whether somebody wants to know what operators ask.
func wantsAudit() bool {
	return os.Getenv(auditDirectory) != "" && filepath.IsAbs(os.Getenv(auditDirectory))
}
