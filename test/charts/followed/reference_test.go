// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package followed_test

import (
	"context"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/test/charts/story"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
	"github.com/dynamo-operator/dynamo-operator/test/kubelet"
)

// TestAReleaseOfTheReference upgrades what the reference's chart leaves in a cluster, with the values of the reference, and goes back.
// The older Helm that most releases of it were made with applied from the client's side, which upgrades go on doing.
func TestAReleaseOfTheReference(t *testing.T) {
	story.CleanUp(t)
	begin := story.Audit(t)
	story.Upgrade(t, story.Charts+"/crds", story.Definitions())
	h := story.Helm(t)
	h.ClientSide = true
	if err := h.Upgrade(t.Context(), "testdata/reference", story.Platform(nil)); err != nil {
		t.Fatal(err)
	}
	before := manager(t)
	// What the guide says about schedulers that came with the release.
	r := newReader(t)
	harness.Shell(t, r.directory, r.block("upgrade.md", "helm.sh/resource-policy=keep"))
	text, err := os.ReadFile("../testdata/reference.yaml")
	if err != nil {
		t.Fatal(err)
	}
	story.Upgrade(t, story.Charts+"/platform", story.Platform(story.Briskly(t, story.Set(t, string(text)))))
	after := manager(t)
	if after.UID != before.UID {
		t.Error("the Deployment is another one")
	}
	if n := len(after.Spec.Template.Spec.Containers); n != 1 || after.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		t.Errorf("it has %d containers and replaces pods by %s", n, after.Spec.Strategy.Type)
	}
	schedulersStay(t)
	k := kubelet.New(t, story.System, story.Deployment)
	k.Hasty = true
	k.Roll()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	story.Works(t, ns, "0.0.0-dev")
	story.Allowed(t, story.Account, begin)
	k.Stop()

	if err := story.Helm(t).Rollback(story.Platform(nil), 1); err != nil {
		t.Fatal(err)
	}
	back := manager(t)
	if n := len(back.Spec.Template.Spec.Containers); n != 2 || back.UID != before.UID || back.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		t.Errorf("back again, it has %d containers and replaces pods by %s", n, back.Spec.Strategy.Type)
	}
	if err := story.Helm(t).Uninstall(story.Platform(nil)); err != nil {
		t.Fatal(err)
	}
}

// schedulersStay checks that the upgrade left what came from the charts of Grove and the KAI scheduler, wherever that is, and that it
// does take away what is the reference's own.
func schedulersStay(t *testing.T) {
	t.Helper()
	for _, o := range []client.Object{
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: story.System, Name: "grove-operator"}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "grove-operator"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: story.System, Name: "kai-scheduler"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kai-elsewhere"}},
	} {
		if err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Errorf("it went with the upgrade: %v", err)
		}
		t.Cleanup(func() {
			if err := client.IgnoreNotFound(harness.Client(t).Delete(context.WithoutCancel(t.Context()), o)); err != nil {
				t.Error(err)
			}
		})
	}
	env := client.ObjectKey{Namespace: story.System, Name: "dynamo-deployment-env"}
	if err := harness.Client(t).Get(t.Context(), env, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("the reference's own Secret is still there, so that nothing was taken away at all: %v", err)
	}
}

// manager is the operator's Deployment.
func manager(t *testing.T) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: story.System, Name: story.Deployment}, d); err != nil {
		t.Fatal(err)
	}
	return d
}
