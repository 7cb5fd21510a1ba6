// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gitops runs the health checks of Argo CD and Flux, those they have and those in deploy/gitops, against objects in
// every state that they can be in.
package gitops

import (
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers/component"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers/graph"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers/scaling"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/rollout"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
)

// Health in the words of Argo CD. It does not ask scripts about objects that are being deleted.
const (
	healthy     = "Healthy"
	progressing = "Progressing"
	degraded    = "Degraded"
	suspended   = "Suspended"
	notAsked    = ""
)

// sample is an object in some state, and what those who wait for it should hear of it.
type sample struct {
	object client.Object
	flux   status.Status
	argo   string
	says   string // part of the message of Argo CD
}

// latest is the generation of every sample.
const latest = 5

// untouched is what the schema gives an object that nobody has looked at.
const untouched = -1

var now = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

// fields is an object as tools get it from the API server.
func fields(t *testing.T, obj client.Object) *unstructured.Unstructured {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kinds, _, err := scheme.ObjectKinds(obj)
	if err != nil {
		t.Fatal(err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(kinds[0])
	return u
}

func refusal() field.ErrorList {
	return field.ErrorList{field.Required(field.NewPath("spec", "services").Key("Decode"), "name an image")}
}

// failing is the result of requests of which one was answered with an error.
func failing(err error) apply.Result {
	key := recent.Key{GroupKind: schema.GroupKind{Kind: "Service"}, NamespacedName: types.NamespacedName{Name: "chat-decode"}}
	return apply.Result{Failures: []apply.Failure{{Key: key, Err: err}}}
}

func forbidden() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "chat-decode", errors.New("no rights"))
}

func busy() error { return apierrors.NewTooManyRequests("later", 1) }

// samples are objects of every kind in every state.
func samples() map[string]map[string]sample {
	return map[string]map[string]sample{
		"graph": graphs(), "component": components(), "adapter": adapters(),
		"model": models(), "request": requests(), "checkpoint": checkpoints(),
	}
}

// aGraph is one that was changed from generation 4 to 5, with a status that is made of it.
func aGraph(changes ...func(*v1alpha1.DynamoGraphDeployment)) *v1alpha1.DynamoGraphDeployment {
	g := builders.TwoComponents("ns", "chat").Obj()
	g.Generation = latest
	for _, change := range changes {
		change(g)
	}
	return g
}

// told gives a graph the status after a pass in which its worker was as given.
func told(applied apply.Result, worker graph.Service, restart rollout.Restart) func(*v1alpha1.DynamoGraphDeployment) {
	return func(g *v1alpha1.DynamoGraphDeployment) {
		seen := graph.Seen{Services: map[string]graph.Service{"Frontend": {Exists: true, Serves: true}, "Decode": worker}}
		g.Status = graph.Status(g, applied, seen, restart, now)
	}
}

func refusedGraph(g *v1alpha1.DynamoGraphDeployment) {
	g.Status = graph.Refused(g, refusal(), graph.Seen{}, now)
}

func edited(g *v1alpha1.DynamoGraphDeployment) { g.Generation++ }

func pausedGraph(g *v1alpha1.DynamoGraphDeployment) {
	metav1.SetMetaDataAnnotation(&g.ObjectMeta, names.AnnotationReconcile, names.Paused)
}

func graphs() map[string]sample {
	well := graph.Service{Exists: true, Serves: true}
	starts := graph.Service{Exists: true, Why: "Deployment chat-decode: 0 of 1 replicas are available"}
	stuck := graph.Service{Exists: true, Why: "Deployment chat-decode: the API server refused it", Stalled: true}
	none := rollout.Restart{}
	restarting := rollout.Restart{
		Status: &v1alpha1.RestartStatus{ObservedID: "r", Phase: v1alpha1.RestartPhaseRestarting}, Note: "restart r: waiting for Decode (0 of 2 done)",
	}
	ready := told(apply.Result{}, well, none)
	toZero := func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].Replicas = new(int32(0)) }
	return map[string]sample{
		"just created": {aGraph(func(g *v1alpha1.DynamoGraphDeployment) { g.Status.ObservedGeneration = untouched }), status.InProgressStatus, progressing, "Waiting for the operator"},
		"pending":      {aGraph(told(apply.Result{}, starts, none)), status.InProgressStatus, progressing, "0 of 1 replicas are available"},
		"ready":        {aGraph(ready), status.CurrentStatus, healthy, "All resources are ready"},
		"scaled to zero": {
			aGraph(toZero, ready), status.CurrentStatus, healthy, "All resources are ready",
		},
		"changed since it was ready":   {aGraph(ready, edited), status.InProgressStatus, progressing, "Waiting for the operator"},
		"refused":                      {aGraph(refusedGraph), status.FailedStatus, degraded, "name an image"},
		"changed since it was refused": {aGraph(refusedGraph, edited), status.InProgressStatus, progressing, "Waiting for the operator"},
		"a child is not allowed":       {aGraph(told(failing(forbidden()), well, none)), status.FailedStatus, degraded, "no rights"},
		"a component is stalled":       {aGraph(told(apply.Result{}, stuck, none)), status.FailedStatus, degraded, "chat-decode: Deployment chat-decode: the API server refused it"},
		"a request is repeated":        {aGraph(told(failing(busy()), well, none)), status.InProgressStatus, progressing, "Changes are being applied"},
		"a request is repeated for one that is ready": {
			aGraph(ready, told(failing(busy()), well, none)), status.CurrentStatus, healthy, "All resources are ready",
		},
		"paused":              {aGraph(pausedGraph, ready), status.CurrentStatus, suspended, "Nothing is held back"},
		"paused with changes": {aGraph(pausedGraph, told(apply.Result{Held: []string{"Deployment x"}}, well, none)), status.InProgressStatus, suspended, "1 changes are held back"},
		"paused and refused":  {aGraph(pausedGraph, refusedGraph), status.FailedStatus, degraded, "name an image"},
		"restarting":          {aGraph(told(apply.Result{}, well, restarting)), status.InProgressStatus, progressing, "restart r: waiting for Decode"},
		"deleting": {
			aGraph(ready, func(g *v1alpha1.DynamoGraphDeployment) { g.DeletionTimestamp = &now }), status.TerminatingStatus, notAsked, "",
		},
	}
}

// aComponent is one whose spec before was applied, with a status that is made of the pass after.
func aComponent(changes ...func(*v1alpha1.DynamoComponentDeployment)) *v1alpha1.DynamoComponentDeployment {
	c := &v1alpha1.DynamoComponentDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "chat-decode", Generation: latest}}
	c.Status.ObservedGeneration = latest - 1
	for _, change := range changes {
		change(c)
	}
	return c
}

func componentTold(applied apply.Result, seen component.Seen) func(*v1alpha1.DynamoComponentDeployment) {
	return func(c *v1alpha1.DynamoComponentDeployment) { c.Status = component.Status(c, applied, seen, now) }
}

func deployment(available int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "chat-decode", Generation: 1},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: available,
			Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}},
		},
	}
}

func components() map[string]sample {
	well, starts := component.Seen{Deployment: deployment(1)}, component.Seen{Deployment: deployment(0)}
	paused := component.Seen{Deployment: deployment(1), Paused: true}
	empty := deployment(0)
	empty.Spec.Replicas = new(int32(0))
	ready := componentTold(apply.Result{}, well)
	refused := func(c *v1alpha1.DynamoComponentDeployment) { c.Status = component.Refused(c, refusal(), well, now) }
	edited := func(c *v1alpha1.DynamoComponentDeployment) { c.Generation++ }
	taken := failing(&apply.NameTakenError{Holder: "Service chat-decode"})
	return map[string]sample{
		// The one state in which kstatus is too early: a graph makes components, and nobody waits for them but the graph.
		"just created": {
			aComponent(func(c *v1alpha1.DynamoComponentDeployment) { c.Status = v1alpha1.DynamoComponentDeploymentStatus{} }),
			status.CurrentStatus, progressing, "Waiting for the operator",
		},
		"pending":                      {aComponent(componentTold(apply.Result{}, starts)), status.InProgressStatus, progressing, "0 of 1 replicas are available"},
		"ready":                        {aComponent(ready), status.CurrentStatus, healthy, "The Deployment is ready"},
		"scaled to zero":               {aComponent(componentTold(apply.Result{}, component.Seen{Deployment: empty})), status.CurrentStatus, healthy, "The Deployment is ready"},
		"changed since it was ready":   {aComponent(ready, edited), status.InProgressStatus, progressing, "Waiting for the operator"},
		"refused":                      {aComponent(refused), status.FailedStatus, degraded, "name an image"},
		"changed since it was refused": {aComponent(refused, edited), status.InProgressStatus, progressing, "Waiting for the operator"},
		"a name is taken":              {aComponent(componentTold(taken, starts)), status.FailedStatus, degraded, "exists already"},
		"a request is repeated":        {aComponent(componentTold(failing(busy()), well)), status.InProgressStatus, progressing, "Changes are being applied"},
		"paused":                       {aComponent(componentTold(apply.Result{}, paused)), status.CurrentStatus, suspended, "Nothing is held back"},
		"paused with changes":          {aComponent(componentTold(apply.Result{Held: []string{"Deployment chat-decode"}}, paused)), status.InProgressStatus, suspended, "1 changes are held back"},
		"deleting": {
			aComponent(ready, func(c *v1alpha1.DynamoComponentDeployment) { c.DeletionTimestamp = &now }), status.TerminatingStatus, notAsked, "",
		},
	}
}

type adapter = v1alpha1.DynamoGraphDeploymentScalingAdapter

func anAdapter(changes ...func(*adapter)) *adapter {
	a := &adapter{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "chat-decode", Generation: latest},
		Spec:       v1alpha1.DynamoGraphDeploymentScalingAdapterSpec{Replicas: 3, DGDRef: v1alpha1.DynamoGraphDeploymentServiceRef{Name: "chat", ServiceName: "Decode"}},
	}
	for _, change := range changes {
		change(a)
	}
	return a
}

func adapterTold(applied apply.Result, target scaling.Target) func(*adapter) {
	return func(a *adapter) {
		a.Status = scaling.Status(a, scaling.Pass{Seen: scaling.Seen{Graph: aGraph()}, Target: target, Applied: applied}, now)
	}
}

func adapters() map[string]sample {
	without := func(reason, problem string) *adapter {
		return anAdapter(adapterTold(apply.Result{}, scaling.Target{Reason: reason, Problem: problem}))
	}
	ready := adapterTold(apply.Result{}, scaling.Target{Has: 3})
	return map[string]sample{
		"just created":              {anAdapter(func(a *adapter) { a.Status.ObservedGeneration = untouched }), status.InProgressStatus, progressing, "Waiting for the operator"},
		"ready":                     {anAdapter(ready), status.CurrentStatus, healthy, "is set to 3 replicas"},
		"scaled since it was ready": {anAdapter(ready, func(a *adapter) { a.Generation++ }), status.InProgressStatus, progressing, "Waiting for the operator"},
		"its graph may still come":  {without(conditions.GraphNotFound, "no graph"), status.InProgressStatus, progressing, "no graph"},
		"its service will not come": {without(conditions.ServiceNotFound, "no service"), status.FailedStatus, degraded, "no service"},
		"another has the service":   {without(conditions.HasOtherAdapter, "delete one of the two"), status.FailedStatus, degraded, "delete one of the two"},
		"refused":                   {without(conditions.ValidationFailed, "must not be negative"), status.FailedStatus, degraded, "must not be negative"},
		"may not write":             {anAdapter(adapterTold(failing(forbidden()), scaling.Target{Has: 3})), status.FailedStatus, degraded, "no rights"},
		"deleting":                  {anAdapter(ready, func(a *adapter) { a.DeletionTimestamp = &now }), status.TerminatingStatus, notAsked, ""},
	}
}
