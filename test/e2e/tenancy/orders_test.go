// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy_test

import (
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dynamo-operator/dynamo-operator/internal/operator/config"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// Tests in this package do not run at once: each has a cluster-wide operator of its own.

func TestOperatorsThatComeAndGoNeverWorkAtOnce(t *testing.T) {
	s := newStory(t)

	cluster := s.clusterWide()
	s.takesOver(cluster, time.Now(), slack)

	first := s.restricted(patient) // beside one that works
	s.begins(first)
	if said := strings.ReplaceAll(first.Log(), " ", ""); !strings.Contains(said, `"acknowledged":true`) {
		t.Errorf("it did not hear that the namespace was let go:\n%s", first.LastWords(10))
	}

	cluster.Kill() // while it keeps out
	cluster = s.clusterWide()
	stopped := time.Now()
	first.Stop()
	s.takesOver(cluster, stopped, duration+slack)

	second := s.restricted(restartedInItsPod)
	s.begins(second)
	killed := time.Now()
	second.Kill()
	s.takesOver(cluster, killed, duration+slack)

	third := s.restricted(restartedInItsPod) // which need not wait for the end of the claim that is left
	harness.Eventually(t, time.Minute, "the third claim", func() (bool, string) {
		l := s.lease()
		return l != nil && l.Spec.LeaseTransitions != nil && *l.Spec.LeaseTransitions == 1, ""
	})
	killed = time.Now()
	third.Kill() // as soon as it has the claim, before or after it begins
	s.takesOver(cluster, killed, duration+slack)

	cluster.Stop()
	fourth := s.restricted(restartedInItsPod) // nobody answers it
	s.begins(fourth)
	cluster = s.clusterWide()
	killed = time.Now()
	fourth.Kill()
	s.takesOver(cluster, killed, duration+slack)
	cluster.Kill()

	var fifth *harness.Process
	var both sync.WaitGroup
	both.Go(func() { cluster = s.clusterWide() })
	both.Go(func() { fifth = s.restricted(restartedInItsPod) })
	both.Wait()
	s.begins(fifth)
	stopped = time.Now()
	fifth.Stop()
	s.takesOver(cluster, stopped, duration+slack)

	s.judge()
}

func TestAnOperatorThatWasFrozenDoesNotWorkAfterItsTime(t *testing.T) {
	s := newStory(t)
	cluster := s.clusterWide()
	restricted := s.restricted(restartedInItsPod)
	s.begins(restricted)

	frozen := time.Now()
	restricted.Signal(syscall.SIGSTOP)
	s.takesOver(cluster, frozen, duration+slack)
	s.resumed = time.Now()
	restricted.Signal(syscall.SIGCONT)
	restricted.AwaitEnd(30 * time.Second)
	if said := restricted.Log(); !strings.Contains(said, "was not renewed within") {
		t.Errorf("it does not say why it ended:\n%s", restricted.LastWords(10))
	}

	frozen = time.Now()
	cluster.Signal(syscall.SIGSTOP)
	second := s.restricted(restartedInItsPod) // nobody answers it
	s.begins(second)
	harness.Eventually(t, time.Minute, "the time of the frozen one being over", func() (bool, string) {
		return time.Since(frozen) > 6*time.Second, ""
	})
	cluster.Signal(syscall.SIGCONT)
	stopped := time.Now()
	second.Stop()
	s.takesOver(cluster, stopped, duration+slack)
	s.judge()
}

func TestReplicasOfARestrictedOperatorHandOver(t *testing.T) {
	s := newStory(t)
	const leader = 3 * time.Second
	file := configuration(t, "leaderElection: {leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 300ms}\n")
	elected := func(o *harness.ProcessOptions) {
		o.Flags = append(o.Flags, "--leader-elect", "--leader-election-id=dynamo.nvidia.com", "--leader-election-namespace="+s.namespace, "--config="+file)
	}
	cluster := s.clusterWide()
	first := s.restricted(elected)
	s.begins(first)
	second := s.restricted(elected)
	stopped := time.Now()
	first.Stop()
	s.takesOver(second, stopped, duration+slack)
	third := s.restricted(elected)
	killed := time.Now()
	second.Kill()
	s.takesOver(third, killed, leader+duration+slack)
	killed = time.Now()
	third.Kill()
	s.takesOver(cluster, killed, leader+duration+slack)
	s.judge()
}

// TestTheTimesThatUsersWait is the same with what is configured by default: how long it takes there is what users see.
func TestTheTimesThatUsersWait(t *testing.T) {
	s := newStory(t)
	s.lasts = config.Defaults().NamespaceScope.LeaseDuration.Duration
	cluster := s.clusterWide()
	s.takesOver(cluster, time.Now(), slack)

	first := s.restricted(asShipped, restartedInItsPod)
	claim := s.await(first, isClaim, time.Time{})
	s.takesOver(first, claim.Answered, 10*time.Second+slack) // the longest wait for an answer
	stopped := time.Now()
	first.Stop()
	s.takesOver(cluster, stopped, 5*time.Second+slack) // not the whole Lease, which is given up

	second := s.restricted(asShipped, restartedInItsPod)
	s.begins(second)
	killed := time.Now()
	second.Kill()
	s.takesOver(cluster, killed, s.lasts+slack)
	s.judge()
}
