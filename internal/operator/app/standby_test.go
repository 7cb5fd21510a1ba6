// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// leaseOf is a cluster that has nothing but a Lease, held by whom it is named after.
type leaseOf string

func (l leaseOf) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok {
		return errors.New("it has nothing but a Lease")
	}
	lease.Spec.HolderIdentity = new(string(l))
	return nil
}

func (leaseOf) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("nothing to list")
}

func TestAStandbySaysOnceForWhomItWaits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		elected bool
		want    int
	}{"another leads": {false, 1}, "it leads itself": {true, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lines []string
			synctest.Test(t, func(t *testing.T) { // where a minute passes at once
				elected := make(chan struct{})
				if tc.elected {
					close(elected)
				}
				s := &standby{
					elected: elected, reader: leaseOf("operator-7d9-abc_1"), clock: clock.RealClock{}, patience: time.Minute,
					lease: client.ObjectKey{Namespace: "kube-system", Name: "dynamo.nvidia.com"},
					log:   funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}),
				}
				if err := s.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
			if len(lines) != tc.want {
				t.Fatalf("it said %q", lines)
			}
			if tc.want > 0 && (!strings.Contains(lines[0], "Standing by") || !strings.Contains(lines[0], "operator-7d9-abc_1") || !strings.Contains(lines[0], `"level"=0`)) {
				t.Errorf("it said %s", lines[0])
			}
		})
	}
}
