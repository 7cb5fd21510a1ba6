// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
)

func TestUsersReadAboutWhatDoesNotPassByItself(t *testing.T) {
	t.Parallel()
	kind := schema.GroupResource{Group: "apps", Resource: "deployments"}
	for name, tc := range map[string]struct {
		err      error
		reported bool
	}{
		"conflict":          {apierrors.NewConflict(kind, "x", errors.New("changed")), false},
		"overload":          {apierrors.NewTooManyRequests("slow down", 1), false},
		"server fault":      {apierrors.NewInternalError(errors.New("etcd")), false},
		"no answer":         {&url.Error{Op: "Patch", URL: "https://x", Err: errors.New("connection refused")}, false},
		"webhook is down":   {apierrors.NewInternalError(errors.New(`failed calling webhook "a.b.c"`)), true},
		"forbidden":         {apierrors.NewForbidden(kind, "x", errors.New("no")), true},
		"invalid":           {apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "x", nil), true},
		"no such kind":      {&meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "VirtualService"}}, true},
		"the name is taken": {&NameTakenError{Holder: "Deployment other"}, true},
	} {
		failed := Result{Failures: []Failure{{Key: recent.Key{NamespacedName: types.NamespacedName{Name: "x"}}, Err: fmt.Errorf("apply: %w", tc.err)}}}
		if got := len(failed.Reported()) > 0; got != tc.reported {
			t.Errorf("%s: reported %v, want %v", name, got, tc.reported)
		}
		failed.failingFor = patience
		if len(failed.Reported()) == 0 {
			t.Errorf("%s: not reported after %s", name, patience)
		}
		if failed.passing() == tc.reported {
			t.Errorf("%s: passing is %v", name, failed.passing())
		}
	}
}

func TestFailuresAreReportedInTheServersWords(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("apply Deployment x: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "x", errors.New("quota is used up")))
	if got := explain(err); !strings.Contains(got, "quota is used up") || strings.Contains(got, "apply Deployment") {
		t.Errorf("explained as %q", got)
	}
}

func TestTheTimeOfFailingStartsWithTheFirstFailure(t *testing.T) {
	t.Parallel()
	m, now := newMemory(), time.Now()
	for i, step := range []struct {
		failed bool
		after  time.Duration
		want   time.Duration
	}{
		{false, 0, 0}, {true, time.Second, 0}, {true, 11 * time.Second, 10 * time.Second},
		{false, 12 * time.Second, 0}, {true, 20 * time.Second, 0},
	} {
		if got := m.failing("owner", step.failed, now.Add(step.after)); got != step.want {
			t.Errorf("step %d: failing for %s, want %s", i, got, step.want)
		}
	}
	m.dropOwner("owner")
	if len(m.since) != 0 {
		t.Error("an owner that is gone is remembered")
	}
}
