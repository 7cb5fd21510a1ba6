// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
)

func TestAnObjectThatOnlyHasANewVersionIsTheSameAndStaysAsItIs(t *testing.T) {
	t.Parallel()
	typed := func(version, value string) client.Object {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "c", ResourceVersion: version, Labels: map[string]string{"a": "b"}},
			Data:       map[string]string{"key": value},
		}
	}
	untyped := func(version, value string) client.Object {
		object := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"key": value}}}
		object.SetResourceVersion(version)
		return object
	}
	specified := func(version, value string) client.Object { // a kind without generations
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}, Spec: corev1.ServiceSpec{ExternalName: value}}
	}
	reported := func(version, value string) client.Object {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: version, Generation: 3}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(2))},
			Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{Message: value}}},
		}
	}
	for name, object := range map[string]func(version, value string) client.Object{
		"typed": typed, "untyped": untyped, "specified": specified, "reported": reported,
	} {
		for _, tc := range []struct {
			what             string
			version, another string
			value            string
			same             bool
		}{
			{"nothing", "1", "1", "x", true},
			{"the version", "1", "2", "x", true},
			{"what it holds", "1", "2", "y", false},
		} {
			before, after := object(tc.version, "x"), object(tc.another, tc.value)
			if same := sameButForVersion(before, after); same != tc.same {
				t.Errorf("%s: after a change of %s: same is %t", name, tc.what, same)
			}
			if before.GetResourceVersion() != tc.version || after.GetResourceVersion() != tc.another {
				t.Errorf("%s: what was compared lost its version", name)
			}
			if d, ok := before.(*appsv1.Deployment); ok && d.Spec.Replicas == nil {
				t.Errorf("%s: what was compared lost its spec", name)
			}
		}
	}
}

func TestWhatTheCacheShowsIsSoonForgottenAndLetThrough(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakePassiveClock(time.Now())
	store, kind := recent.NewStore(now), schema.GroupKind{Kind: "Service"}
	service := func(version string) client.Object {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", ResourceVersion: version}}
	}
	key := recent.KeyOf(kind, service("1"))
	store.Wrote(key, service("9"))
	if !shown(store, kind).Update(event.UpdateEvent{ObjectOld: service("8"), ObjectNew: service("9")}) {
		t.Error("a change is held back")
	}
	// Who remembered the write would prefer it to this one. A write that was not shown is remembered for longer.
	now.SetTime(now.Now().Add(2 * time.Second))
	if got, _ := store.Newest(key, service("8")); got.GetResourceVersion() != "8" {
		t.Errorf("version %s is remembered still", got.GetResourceVersion())
	}
}

func TestWhatGoesIsNotBelievedInAndLetThrough(t *testing.T) {
	t.Parallel()
	store, kind := recent.NewStore(clocktesting.NewFakePassiveClock(time.Now())), schema.GroupKind{Kind: "Service"}
	made := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", ResourceVersion: "9"}}
	key := recent.KeyOf(kind, made)
	store.Wrote(key, made)
	if !gone(store, kind).Create(event.CreateEvent{Object: made}) || !gone(store, kind).Update(event.UpdateEvent{ObjectNew: made}) {
		t.Error("a change is held back")
	}
	if got, _ := store.Newest(key, nil); got == nil {
		t.Error("a write that the cache may not have shown yet is forgotten")
	}
	if !gone(store, kind).Delete(event.DeleteEvent{Object: made}) {
		t.Error("a deletion is held back")
	}
	if got, _ := store.Newest(key, nil); got != nil {
		t.Error("what went is believed to be there")
	}
}
