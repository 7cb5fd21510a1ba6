// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package installed_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/test/charts/story"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// TestTheOperatorGoesWithoutNATSAndEtcd takes the operator out of its release, puts it in again, and takes the release away. No pod
// runs: it is about which objects there are.
func TestTheOperatorGoesWithoutNATSAndEtcd(t *testing.T) {
	story.CleanUp(t)
	harness.AccountLosesRights(t, story.Account)
	story.Upgrade(t, story.Charts+"/crds", story.Definitions())
	story.Upgrade(t, story.Charts+"/platform", story.Platform(story.Set(t, `{}`)))
	services := []string{"dynamo-platform-etcd", "dynamo-platform-nats"}
	before := statefulSets(t)
	if diff := cmp.Diff(services, slices.Sorted(maps.Keys(before))); diff != "" {
		t.Fatalf("StatefulSets of the release (-want +got):\n%s", diff)
	}
	story.Upgrade(t, story.Charts+"/platform", story.Platform(story.Set(t, `dynamo-operator: {enabled: false}`)))
	if diff := cmp.Diff(before, statefulSets(t)); diff != "" {
		t.Errorf("they went or were made anew with the operator (-before +after):\n%s", diff)
	}
	if left := operators(t); len(left) > 0 {
		t.Errorf("the operator is there: %v", left)
	}
	story.Upgrade(t, story.Charts+"/platform", story.Platform(story.Set(t, `dynamo-operator: {enabled: true}`)))
	if back := operators(t); len(back) != 1 {
		t.Errorf("the operator did not come back: %v", back)
	}
	if err := story.Helm(t).Uninstall(story.Platform(nil)); err != nil {
		t.Fatal(err)
	}
	if left := statefulSets(t); len(left) > 0 {
		t.Errorf("docs/guides/uninstall.md says that NATS and etcd go with the release, and there are %v", left)
	}
}

// statefulSets are those of the namespace of the release, with their identities.
func statefulSets(t *testing.T) map[string]string {
	t.Helper()
	all := &appsv1.StatefulSetList{}
	if err := harness.Client(t).List(t.Context(), all, client.InNamespace(story.System)); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, s := range all.Items {
		found[s.Name] = string(s.UID)
	}
	return found
}

// operators are the Deployments of the namespace of the release.
func operators(t *testing.T) []string {
	t.Helper()
	all := &appsv1.DeploymentList{}
	if err := harness.Client(t).List(t.Context(), all, client.InNamespace(story.System)); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, d := range all.Items {
		found = append(found, d.Name)
	}
	return found
}
