// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// told is a Service as the API server tells of it: no text of it shares memory with another's.
func told() *corev1.Service {
	own := strings.Clone
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: own("ns"), Name: own("s"), Labels: map[string]string{own("label"): own("value")},
			Annotations:     map[string]string{own("annotation"): own("text")},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: own("v1"), Kind: own("Graph"), Name: own("g"), UID: types.UID(own("1-2-3"))}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: own("somebody")}},
		},
		Spec: corev1.ServiceSpec{ClusterIP: own("10.0.0.1")},
	}
}

func TestALeanObjectSaysTheSameWithoutItsManagedFields(t *testing.T) {
	t.Parallel()
	got, err := Lean(told())
	want := told()
	want.ManagedFields = nil
	if diff := cmp.Diff(any(want), got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestLeanObjectsShareTheTextsOfTheirMetadata(t *testing.T) {
	t.Parallel()
	texts := func() []string {
		obj, err := Lean(told())
		if err != nil {
			t.Fatal(err)
		}
		s := obj.(*corev1.Service)
		owner := s.OwnerReferences[0]
		all := []string{s.Namespace, owner.APIVersion, owner.Kind, owner.Name, string(owner.UID)}
		for key, value := range s.Labels {
			all = append(all, key, value)
		}
		for key := range s.Annotations {
			all = append(all, key)
		}
		return all
	}
	one, other := texts(), texts()
	for i := range one {
		if unsafe.StringData(one[i]) != unsafe.StringData(other[i]) {
			t.Errorf("%q is in memory twice", one[i])
		}
	}
}

func TestLeanObjectsShareTheTextsOfTheirSpecs(t *testing.T) {
	t.Parallel()
	own, long := strings.Clone, strings.Repeat("x", longest+1)
	texts := func() (short []string, made string) {
		d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{own("app"): own("g-frontend")}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{own("app"): own("g-frontend")}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Image: own("image"), Args: []string{own("--model")}, Env: []corev1.EnvVar{{Name: own("KEY"), Value: own(long)}},
					LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: own("/live")}}},
					Resources:     corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}},
				}}},
			},
		}}
		want := d.DeepCopy()
		if got, err := Lean(d); err != nil || !equality.Semantic.DeepEqual(want, got) {
			t.Fatalf("%v; it is another Deployment than before: %s", err, cmp.Diff(want, got))
		}
		c := d.Spec.Template.Spec.Containers[0]
		return []string{
			d.Spec.Selector.MatchLabels["app"], d.Spec.Template.Labels["app"], c.Image, c.Args[0], c.Env[0].Name, c.LivenessProbe.HTTPGet.Path,
		}, c.Env[0].Value
	}
	one, longOne := texts()
	other, longOther := texts()
	for i := range one {
		if unsafe.StringData(one[i]) != unsafe.StringData(other[i]) {
			t.Errorf("%q is in memory twice", one[i])
		}
	}
	if unsafe.StringData(longOne) == unsafe.StringData(longOther) {
		t.Error("a text that was made for one object is looked up among all")
	}
}

func TestWhatIsNoObjectStaysAsItIs(t *testing.T) {
	t.Parallel()
	gone := cache.DeletedFinalStateUnknown{Key: "ns/s"}
	if got, err := Lean(gone); err != nil || got != any(gone) {
		t.Errorf("%v, %v", got, err)
	}
}
