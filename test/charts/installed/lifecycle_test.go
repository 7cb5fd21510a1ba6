// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package installed_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dynamo-operator/dynamo-operator/test/charts/story"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
	"github.com/dynamo-operator/dynamo-operator/test/kubelet"
)

// TestARelease is one story: a release from its installation to its return, with graphs that must not notice. Charts and operator
// of the last release are those of its own commit.
func TestARelease(t *testing.T) {
	story.CleanUp(t)
	// Both are built before anything is timed.
	k, last, next := kubelet.New(t, story.System, story.Deployment), lastOperator(t), harness.OperatorBinary(t)
	k.Programs = map[string]string{released(t): last}
	values, begin := story.Briskly(t, preset(t, "production")), story.Audit(t)
	// Release 0.1.0 tells pods of an etcd that is turned off. They stay where they are told of it still, as the guide has it.
	told := runtime.DeepCopyJSON(values)
	if err := unstructured.SetNestedField(told, "dynamo-platform-etcd.dynamo-system.svc.cluster.local:2379", "dynamo-operator", "etcdAddr"); err != nil {
		t.Fatal(err)
	}
	story.Upgrade(t, archive(t, "dynamo-crds"), story.Definitions())
	story.Upgrade(t, archive(t, "dynamo-platform"), story.Platform(values))
	t.Logf("install: ready after %s", k.Roll())
	runs(t, k, last)
	ns := runExamples(t)
	before := stateOf(t, ns)
	t.Logf("%d objects in the namespace of the graphs, %d of them Deployments", len(before.UIDs), len(before.Templates))
	// What is tried out in between is elsewhere: nobody collects garbage here.
	elsewhere := harness.Namespace(t)
	harness.SimulateDeployments(t, elsewhere)
	story.Works(t, elsewhere, released(t))

	t.Run("upgrade", func(t *testing.T) {
		l := startLoad(t, elsewhere)
		story.Upgrade(t, story.Charts+"/crds", story.Definitions())
		story.Upgrade(t, story.Charts+"/platform", story.Platform(told))
		took := k.Roll()
		runs(t, k, next)
		story.Works(t, elsewhere, "0.0.0-dev")
		l.More(rate)
		l.Stop("upgrade, two replicas replaced in " + took.String())
		unchanged(t, ns, before)
	})
	t.Run("rollback", func(t *testing.T) {
		l := startLoad(t, elsewhere)
		if err := story.Helm(t).Rollback(story.Platform(nil), 1); err != nil {
			t.Fatal(err)
		}
		took := k.Roll()
		runs(t, k, last)
		story.Works(t, elsewhere, released(t))
		l.More(rate)
		l.Stop("rollback, two replicas replaced in " + took.String())
		unchanged(t, ns, before)
	})
	story.Allowed(t, story.Account, begin)
	t.Run("uninstall", func(t *testing.T) {
		goes(t, k, elsewhere)
		unchanged(t, ns, before)
	})
	t.Run("reinstall", func(t *testing.T) {
		begin := time.Now()
		story.Upgrade(t, story.Charts+"/crds", story.Definitions())
		story.Upgrade(t, story.Charts+"/platform", story.Platform(told))
		t.Logf("reinstall: ready after %s", k.Roll())
		story.Works(t, elsewhere, "0.0.0-dev")
		t.Logf("reinstall: graphs are taken and worked on after %s", time.Since(begin))
		l := startLoad(t, elsewhere)
		l.More(rate)
		l.Stop("reinstall")
		unchanged(t, ns, before)
	})
	k.Stop()
}

// goes uninstalls both releases. Graphs can be created all the while: webhooks go first, definitions stay.
func goes(t *testing.T, k *kubelet.Kubelet, ns string) {
	t.Helper()
	harness.AccountLosesRights(t, story.Account)
	l := startLoad(t, ns)
	if err := story.Helm(t).Uninstall(story.Platform(nil)); err != nil {
		t.Fatal(err)
	}
	t.Logf("uninstall: pods ended after %s", k.Roll())
	if err := story.Helm(t).Uninstall(story.Definitions()); err != nil {
		t.Fatal(err)
	}
	l.More(rate)
	l.Stop("uninstall")
}
