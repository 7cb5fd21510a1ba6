// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/dynamo-operator/dynamo-operator/internal/operator/config"
)

// standby says once for whom a replica waits that does not lead. Mostly that is another replica of the same Deployment, and all is well.
// It may be an operator of another release, the reference among them, and nobody else tells a user why a second installation does
// nothing. The replica cannot tell the two apart, since names of pods prove nothing, so it names the holder and judges nothing.
type standby struct {
	elected <-chan struct{}
	reader  client.Reader
	lease   client.ObjectKey
	clock   clock.Clock
	// patience is how long a Lease may stay that nobody renews.
	patience time.Duration
	log      logr.Logger
}

func addStandby(mgr manager.Manager, c *config.Config) error {
	if !c.LeaderElection.Enabled {
		return nil
	}
	return mgr.Add(&standby{
		elected: mgr.Elected(), reader: mgr.GetAPIReader(), clock: clock.RealClock{}, patience: c.LeaderElection.LeaseDuration.Duration, log: mgr.GetLogger(),
		lease: client.ObjectKey{Namespace: c.ElectionNamespace(Environment), Name: c.LeaderElection.ID},
	})
}

// Start waits until this replica leads, or a Lease that was left behind would have ended.
func (s *standby) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.elected:
		return nil
	case <-s.clock.After(s.patience):
	}
	lease := &coordinationv1.Lease{}
	if err := s.reader.Get(ctx, s.lease, lease); err != nil {
		return nil //nolint:nilerr // who it is helps, but whoever elects reports on the Lease
	}
	s.log.Info("Standing by: the holder of the Lease works, and this replica takes over when it ends",
		"lease", s.lease.String(), "holder", ptr.Deref(lease.Spec.HolderIdentity, ""))
	return nil
}

// NeedLeaderElection is false: it is about those that do not lead.
func (s *standby) NeedLeaderElection() bool { return false }
