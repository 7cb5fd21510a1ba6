// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	patience = time.Minute
	// leftover is a variable that the reference has set and we do not.
	leftover = "SET_BY_THE_REFERENCE"
	// dropped is a variable of the graph that its user will take out.
	dropped = "DROPPED_BY_THE_USER"
)

func TestWhatTheReferenceMadeIsTakenOverWithoutANewPod(t *testing.T) {
	t.Parallel()
	ns, key := graphOfTheReference(t)
	before := deployments(t, ns)
	uids := identities(t, ns)

	harness.StartOperator(t, ns)
	harness.Eventually(t, patience, "everything taken over", func() (bool, string) { return takenOver(t, ns) })
	g := harness.AwaitReady(t, key.Namespace, key.Name)
	if len(g.Finalizers) > 0 {
		t.Errorf("the graph is held by %v, although nothing has to be done before it goes", g.Finalizers)
	}
	if diff := cmp.Diff(uids, identities(t, ns)); diff != "" {
		t.Errorf("objects went or came (-before +after):\n%s", diff)
	}
	for name, d := range deployments(t, ns) {
		if diff := cmp.Diff(before[name].Spec.Template, d.Spec.Template); diff != "" {
			t.Errorf("%s: pods are made from something else (-before +after):\n%s", name, diff)
		}
	}
	if !has(deployments(t, ns)["chat-decode"], leftover) {
		t.Error("what the reference has set was taken out of the template of pods that run well")
	}
}

func TestWhatTheReferenceHadSetGoesWithTheNextChangeOfPods(t *testing.T) {
	t.Parallel()
	ns, key := graphOfTheReference(t)
	harness.StartOperator(t, ns)
	harness.Eventually(t, patience, "everything taken over", func() (bool, string) { return takenOver(t, ns) })
	before := deployments(t, ns)["chat-decode"]

	harness.Change(t, key, func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].Replicas = new(int32(3)) })
	harness.Eventually(t, patience, "three replicas", func() (bool, string) {
		d := deployments(t, ns)["chat-decode"]
		return *d.Spec.Replicas == 3, fmt.Sprint(*d.Spec.Replicas)
	})
	if diff := cmp.Diff(before.Spec.Template, deployments(t, ns)["chat-decode"].Spec.Template); diff != "" {
		t.Errorf("another number of pods made them from something else (-before +after):\n%s", diff)
	}

	harness.Change(t, key, func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Decode"].Envs = []corev1.EnvVar{{Name: "NEW", Value: "1"}}
	})
	harness.Eventually(t, patience, "the variables of the change and no others", func() (bool, string) {
		d := deployments(t, ns)["chat-decode"]
		return has(d, "NEW") && !has(d, dropped) && !has(d, leftover) && d.Spec.MinReadySeconds == 0,
			fmt.Sprint(d.Spec.MinReadySeconds, d.Spec.Template.Spec.Containers[0].Env)
	})
	after := deployments(t, ns)["chat-decode"]
	if after.UID != before.UID || *after.Spec.Replicas != 3 {
		t.Errorf("it is %s with %d replicas now, it was %s with 3", after.UID, *after.Spec.Replicas, before.UID)
	}
	if slices.ContainsFunc([]string{names.AnnotationReferenceHash, names.AnnotationReferenceGeneration}, func(a string) bool { return after.Annotations[a] != "" }) {
		t.Errorf("it still says what the reference had written: %v", after.Annotations)
	}
	// The other component did not change, and keeps everything.
	if diff := cmp.Diff("1", deployments(t, ns)["chat-frontend"].Annotations[names.AnnotationReferenceGeneration]); diff != "" {
		t.Errorf("the frontend was written to: %s", diff)
	}
}

func TestWhatAUserTookOutBeforeOurFirstPassGoesWithWhatCameForIt(t *testing.T) {
	t.Parallel()
	ns, key := graphOfTheReference(t)
	before := deployments(t, ns)["chat-decode"]
	changed := []corev1.EnvVar{{Name: "NEW", Value: "1"}}
	harness.Change(t, key, func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].Envs = changed })
	// The reference got as far as the component, so that no pass of ours ever sees what was taken out.
	component := &v1alpha1.DynamoComponentDeployment{}
	if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "chat-decode"}, component); err != nil {
		t.Fatal(err)
	}
	component.Spec.Envs = changed
	if err := harness.Client(t).Update(t.Context(), component, client.FieldOwner(names.FieldManagerReference)); err != nil {
		t.Fatal(err)
	}
	harness.StartOperator(t, ns)
	harness.Eventually(t, patience, "the variables of the change and no others", func() (bool, string) {
		d := deployments(t, ns)["chat-decode"]
		return has(d, "NEW") && !has(d, dropped) && !has(d, leftover), fmt.Sprint(d.Spec.Template.Spec.Containers[0].Env)
	})
	if after := deployments(t, ns)["chat-decode"]; after.UID != before.UID {
		t.Errorf("it is another one: %s, it was %s", after.UID, before.UID)
	}
}

func TestWhatAUserTakesOutGoesAlthoughNothingComesForIt(t *testing.T) {
	t.Parallel()
	ns, key := graphOfTheReference(t)
	harness.StartOperator(t, ns)
	harness.Eventually(t, patience, "everything taken over", func() (bool, string) { return takenOver(t, ns) })
	harness.Change(t, key, func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].Envs = nil })
	harness.Eventually(t, patience, "neither the variable nor what the reference had set", func() (bool, string) {
		d := deployments(t, ns)["chat-decode"]
		return !has(d, dropped) && !has(d, leftover), fmt.Sprint(d.Spec.Template.Spec.Containers[0].Env)
	})
}

// graphOfTheReference has a graph with children as the reference makes them, and no operator.
func graphOfTheReference(t *testing.T) (string, client.ObjectKey) {
	t.Helper()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	first := harness.StartOperator(t, ns)
	g := builders.TwoComponents(ns, "chat").Obj()
	g.Spec.Services["Decode"].Envs = []corev1.EnvVar{{Name: dropped, Value: "1"}}
	g.Spec.Services["Frontend"].ScalingAdapter = &v1alpha1.ScalingAdapter{Enabled: true}
	if err := harness.Client(t).Create(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	harness.AwaitReady(t, ns, "chat")
	first.Stop()
	count := asTheReference(t, ns, func(child client.Object) {
		d, ok := child.(*appsv1.Deployment)
		if !ok || d.Name != "chat-decode" {
			return
		}
		d.Spec.MinReadySeconds = 1
		main := &d.Spec.Template.Spec.Containers[0]
		main.Env = append(main.Env, corev1.EnvVar{Name: leftover, Value: "1"})
	})
	t.Logf("%d children as the reference makes them", count)
	return ns, client.ObjectKeyFromObject(g)
}

// takenOver tells whether every child that the reference made carries our mark, but for adapters, which are made once and left to
// whoever scales.
func takenOver(t *testing.T, ns string) (bool, string) {
	t.Helper()
	for _, list := range kinds() {
		for _, child := range children(t, ns, list) {
			if _, adapter := child.(*v1alpha1.DynamoGraphDeploymentScalingAdapter); adapter {
				continue
			}
			if child.GetAnnotations()[names.AnnotationReferenceHash] != "" && child.GetAnnotations()[names.AnnotationAppliedHash] == "" {
				return false, fmt.Sprintf("%T %s is not", child, child.GetName())
			}
		}
	}
	return true, ""
}

// identities are the UIDs of all children.
func identities(t *testing.T, ns string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, list := range kinds() {
		for _, child := range children(t, ns, list) {
			all[fmt.Sprintf("%T %s", child, child.GetName())] = string(child.GetUID())
		}
	}
	return all
}

func deployments(t *testing.T, ns string) map[string]*appsv1.Deployment {
	t.Helper()
	all := map[string]*appsv1.Deployment{}
	for _, child := range children(t, ns, &appsv1.DeploymentList{}) {
		if d, ok := child.(*appsv1.Deployment); ok {
			all[d.Name] = d
		}
	}
	return all
}

// has tells whether the main container of a Deployment has a variable.
func has(d *appsv1.Deployment, variable string) bool {
	return slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == variable })
}
