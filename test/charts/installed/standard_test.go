// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package installed_test

import (
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/charts"
	"github.com/dynamo-operator/dynamo-operator/test/charts/story"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// warnings are what an API server says beside its answers.
type warnings struct {
	sync.Mutex

	said []string
}

// HandleWarningHeader keeps a warning.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.Lock()
	defer w.Unlock()
	w.said = append(w.said, text)
}

// TestPodsOfEveryPresetKeepTheRestrictedStandard has the API server look at what makes pods, in a namespace that warns of pods which the
// restricted standard refuses. The manifests have that standard enforced in theirs.
func TestPodsOfEveryPresetKeepTheRestrictedStandard(t *testing.T) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "standard-", Labels: map[string]string{"pod-security.kubernetes.io/warn": "restricted"}}}
	if err := harness.Client(t).Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	heard := &warnings{}
	api := rest.CopyConfig(harness.RESTConfig(t, localcluster.UserAdmin))
	api.WarningHandler = heard
	c, err := client.New(api, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for name, values := range map[string]map[string]any{
		"default": {}, "development": preset(t, "development"), "production": preset(t, "production"), "multi-tenant": preset(t, "multi-tenant"),
	} {
		rendered, err := charts.Render(story.Charts+"/platform", charts.Release{Name: "standard", Namespace: ns.Name, Values: values})
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range rendered.Objects {
			if kind := u.GetKind(); kind != "Deployment" && kind != "StatefulSet" {
				continue
			}
			looked++
			if err := c.Create(t.Context(), u.DeepCopy(), client.DryRunAll); err != nil {
				t.Errorf("%s: %s %s: %v", name, u.GetKind(), u.GetName(), err)
			}
			for _, text := range heard.said {
				t.Errorf("%s: %s %s: %s", name, u.GetKind(), u.GetName(), text)
			}
			heard.said = nil
		}
	}
	if looked < 8 {
		t.Errorf("only %d were looked at", looked)
	}
	if err := c.Create(t.Context(), careless(ns.Name), client.DryRunAll); err != nil || len(heard.said) == 0 {
		t.Errorf("nobody warns here, so that the test proves nothing: %v", err)
	}
}

// careless is a Deployment that says nothing about security.
func careless(ns string) *appsv1.Deployment {
	labels := map[string]string{"app": "careless"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "careless"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "careless", Image: "careless"}}},
			},
		},
	}
}
