// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package installed_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/storage/driver"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/charts"
	"github.com/dynamo-operator/dynamo-operator/test/charts/story"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
	"github.com/dynamo-operator/dynamo-operator/test/kubelet"
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

// tenancy is the release of TestWhatRunsKeepsItsAccountsAndRights, which has a graph of its operator's beside it: components that find
// each other through etcd run under the account of the release.
const (
	tenancy         = "tenancy"
	tenancyOperator = tenancy + "-dynamo-operator"
)

// TestWhatRunsKeepsItsAccountsAndRights takes the operator away from a graph whose pods have accounts of all kinds, in both ways that
// there are, and puts it back in both.
func TestWhatRunsKeepsItsAccountsAndRights(t *testing.T) {
	story.CleanUp(t)
	story.Upgrade(t, story.Charts+"/crds", story.Definitions())
	pools, err := localcluster.ModuleCRDs(t.Context(), "sigs.k8s.io/gateway-api-inference-extension@v1.3.0", "config/crd/bases/inference.networking.k8s.io_*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	harness.InstallCRDs(t, pools...)
	for _, row := range []struct {
		mode, values string
		want         []string
	}{
		{"all namespaces", `{}`, []string{
			"ClusterRole " + tenancyOperator + "-epp", "ClusterRole " + tenancyOperator + "-planner",
			"ServiceAccount epp-serviceaccount", "ServiceAccount planner-serviceaccount", "ServiceAccount " + tenancyOperator + "-component",
		}},
		{"one namespace", `namespaceRestriction: {enabled: true}`, []string{
			"Role epp-role", "Role planner-role",
			"ServiceAccount epp-serviceaccount", "ServiceAccount planner-serviceaccount", "ServiceAccount " + tenancyOperator + "-component",
		}},
	} {
		t.Run(row.mode, func(t *testing.T) { keepsItsAccountsAndRights(t, row.values, row.want) })
	}
}

func keepsItsAccountsAndRights(t *testing.T, values string, want []string) {
	ns := harness.Namespace(t)
	harness.AccountLosesRights(t, "system:serviceaccount:"+ns+":"+tenancyOperator+"-controller-manager")
	release := func(enabled bool) charts.Release {
		operator := story.Set(t, values)
		operator["enabled"], operator["discoveryBackend"] = enabled, "etcd"
		return charts.Release{Name: tenancy, Namespace: ns, Values: story.Briskly(t, map[string]any{"dynamo-operator": operator})}
	}
	endsWithTheTest(t, release(true))
	k := kubelet.New(t, ns, tenancyOperator+"-controller-manager")
	k.Hasty = true
	story.Upgrade(t, story.Charts+"/platform", release(true))
	k.Roll()
	g := builders.Graph(ns, "planned").Service("Frontend", v1alpha1.ComponentTypeFrontend).Service("Planner", v1alpha1.ComponentTypePlanner).
		Service("Epp", v1alpha1.ComponentTypeEPP).Obj()
	g.Spec.Services["Epp"].EPPConfig = &v1alpha1.EPPConfig{Config: &apiextensionsv1.JSON{Raw: []byte(`{"plugins":[],"schedulingProfiles":[]}`)}}
	if err := harness.Client(t).Create(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	var before map[string]string
	harness.Eventually(t, time.Minute, "pods of the graph, with accounts and rights", func() (bool, string) {
		before = relied(t, ns)
		got := slices.Sorted(maps.Keys(before))
		return slices.Equal(got, want), fmt.Sprint(got)
	})
	for _, step := range []struct {
		name string
		take func() error
	}{
		{"the operator went", func() error { return story.Helm(t).Upgrade(t.Context(), story.Charts+"/platform", release(false)) }},
		{"it came back", func() error { return story.Helm(t).Upgrade(t.Context(), story.Charts+"/platform", release(true)) }},
		{"the release went", func() error { return story.Helm(t).Uninstall(release(true)) }},
		// Helm takes what it finds for its own, by the name and the namespace of the release.
		{"it was installed again", func() error { return story.Helm(t).Upgrade(t.Context(), story.Charts+"/platform", release(true)) }},
	} {
		if err := step.take(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		k.Roll()
		if diff := cmp.Diff(before, relied(t, ns)); diff != "" {
			t.Errorf("when %s, pods of the graph have other accounts and rights (-before +after):\n%s", step.name, diff)
		}
	}
	k.Stop()
}

// relied are the accounts of pods of graphs in a namespace and the roles that are bound there, with their identities; without those of
// the operator.
func relied(t *testing.T, ns string) map[string]string {
	t.Helper()
	on := map[string]client.Object{}
	deployments, bindings := &appsv1.DeploymentList{}, &rbacv1.RoleBindingList{}
	for _, list := range []client.ObjectList{deployments, bindings} {
		if err := harness.Client(t).List(t.Context(), list, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range deployments.Items {
		if d.Labels[names.LabelGraph] != "" {
			name := d.Spec.Template.Spec.ServiceAccountName
			on["ServiceAccount "+name] = &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		}
	}
	for _, b := range bindings.Items {
		switch ref := b.RoleRef; {
		case strings.HasPrefix(b.Name, tenancyOperator):
		case ref.Kind == "Role":
			on["Role "+ref.Name] = &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: ref.Name}}
		default:
			on["ClusterRole "+ref.Name] = &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ref.Name}}
		}
	}
	found := map[string]string{}
	for name, o := range on {
		if err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			found[name] = err.Error()
			continue
		}
		found[name] = string(o.GetUID())
	}
	return found
}

// endsWithTheTest takes a release away at the end, with what it leaves for the whole cluster.
func endsWithTheTest(t *testing.T, r charts.Release) {
	t.Helper()
	t.Cleanup(func() {
		if err := story.Helm(t).Uninstall(r); err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
			t.Errorf("clean up: %v", err)
		}
		for _, workload := range []string{"planner", "epp"} {
			role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: r.Name + "-dynamo-operator-" + workload}}
			if err := client.IgnoreNotFound(harness.Client(t).Delete(context.WithoutCancel(t.Context()), role)); err != nil {
				t.Errorf("clean up: %v", err)
			}
		}
	})
}
