// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllers holds what all controllers share: the tools they are given and the plan they make. The folders
// below it are one kind each and never import one another.
package controllers

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/memo"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/sshkey"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/statusio"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// Tools are what a controller works with. Only Apply and Status can write.
type Tools struct {
	Cache    client.Reader
	Scheme   *runtime.Scheme
	Observe  *observe.Observer
	Apply    *apply.Applier
	Status   *statusio.Writer
	Keys     *sshkey.Keeper
	Pods     observe.Pods
	Settings input.Settings
	// Served are the optional APIs that can be used at the moment.
	Served func() input.Capabilities
	Clock  clock.PassiveClock
	Plans  *memo.Memo[Plan]
}

// Current are the settings together with what the cluster serves at the moment.
func (t Tools) Current() input.Settings {
	s := t.Settings
	s.Serves = t.Served()
	return s
}

// Plan is what an object wants to exist, or why it cannot be had.
type Plan struct {
	Children apply.Plan
	// Problems are the user's to solve; while there is one, no child is touched.
	Problems field.ErrorList
	// Err is ours to solve: an object that could not be encoded.
	Err error
}

// Prepare turns rendered stages into a plan.
func Prepare(scheme *runtime.Scheme, owner client.Object, stages render.Stages) Plan {
	var plan Plan
	for _, stage := range stages {
		intents := make([]apply.Intent, 0, len(stage))
		for _, obj := range stage {
			intent, err := apply.Prepare(scheme, owner, obj.Object, obj.Belonging)
			if err != nil {
				return Plan{Err: err}
			}
			intents = append(intents, intent)
		}
		plan.Children = append(plan.Children, intents)
	}
	return plan
}

// Plan returns what was planned for an object, planning again if it or the circumstances changed. An object that was
// deleted and made again between two looks is another one: what was remembered of the first is dropped.
func (t Tools) Plan(obj client.Object, circumstances string, compute func() Plan) Plan {
	if was := t.Plans.UID(client.ObjectKeyFromObject(obj)); was != "" && was != obj.GetUID() {
		t.Forget(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
	}
	return t.Plans.Get(obj, circumstances, compute)
}

// Forget drops everything remembered about an object that is gone.
func (t Tools) Forget(req reconcile.Request) {
	if uid := t.Plans.Forget(req.NamespacedName); uid != "" {
		t.Apply.Forget(uid)
		t.Status.Forget(uid)
	}
}

// IsPaused tells whether somebody wants an object's children to be left alone.
func IsPaused(obj client.Object) bool {
	return strings.EqualFold(obj.GetAnnotations()[names.AnnotationReconcile], names.Paused)
}

// Converge brings children to a plan, or only finds out what that would change.
func (t Tools) Converge(ctx context.Context, paused bool, owner client.Object, plan apply.Plan, observed apply.Children) apply.Result {
	if paused {
		return t.Apply.Held(ctx, owner, plan, observed)
	}
	return t.Apply.All(ctx, owner, plan, observed)
}

// PutPaused tells that an owner is paused, and what is held back for it.
func PutPaused(set *conditions.Set, paused bool, held []string) {
	if !paused {
		return
	}
	message := "Nothing is held back"
	if len(held) > 0 {
		message = fmt.Sprintf("%d changes are held back: %s", len(held), conditions.Enumerate(held))
	}
	set.Put(v1alpha1.ConditionPaused, metav1.ConditionTrue, conditions.PausedByAnnotation,
		message+"; remove annotation "+names.AnnotationReconcile+" to go on")
}

// PutContested tells that others keep changing what an owner made, and who. It returns what to say of readiness, empty if
// nobody does: what is put right and changed again is not as wanted at any moment that one could name.
func PutContested(set *conditions.Set, contested map[string]string) string {
	if len(contested) == 0 {
		return ""
	}
	about := conditions.Summary(contested)
	set.Put(v1alpha1.ConditionContested, metav1.ConditionTrue, conditions.ChangedByOthers, about+"; it is put right only now and then until that stops")
	return about
}

// ContestedEvents tell that a fight began.
func ContestedEvents(before, after []metav1.Condition) []statusio.Event {
	if !conditions.Became(before, after, v1alpha1.ConditionContested, metav1.ConditionTrue) {
		return nil
	}
	return []statusio.Event{{
		Type: corev1.EventTypeWarning, Reason: v1alpha1.ConditionContested, Action: "Reconcile",
		Note: conditions.Find(after, v1alpha1.ConditionContested).Message,
	}}
}

// Because joins reasons why something is not ready, the first of which may be empty.
func Because(first, then string) string {
	if first == "" || then == "" {
		return first + then
	}
	return first + "; " + then
}

// Now is the time a status changes at.
func (t Tools) Now() metav1.Time { return metav1.NewTime(t.Clock.Now()) }
