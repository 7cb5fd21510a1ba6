// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/admission"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/placement"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/statusio"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// Name is the controller's name in metrics and logs.
const Name = v1alpha1.KindDynamoModel

var kind = schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: Name}

// Reconciler converges models.
type Reconciler struct {
	controllers.Tools
	Endpoints observe.Endpoints
	// Keeper calls the endpoints and wakes the model when one has answered.
	Keeper *placement.Keeper

	partings partings
}

// +kubebuilder:rbac:groups=nvidia.com,resources=dynamomodels,verbs=list;patch;watch
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamomodels/status,verbs=update
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=list;watch

// Reconcile looks at one model. It calls no endpoint itself: it says what they should have, and reads what became of it.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	cached := &v1alpha1.DynamoModel{}
	if err := r.Cache.Get(ctx, req.NamespacedName, cached); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	m, ok := r.Status.Newest(kind, cached).(*v1alpha1.DynamoModel)
	if !ok {
		return reconcile.Result{}, nil
	}
	if was := r.Plans.UID(req.NamespacedName); was != "" && was != m.UID {
		r.forget(req) // made again between two looks
	}
	plan := r.Plan(m, "", func() controllers.Plan { return controllers.Plan{Problems: admission.Model(m)} })
	if m.DeletionTimestamp != nil {
		return r.part(ctx, m)
	}
	// Before the first call, so that no adapter is left behind by a model that goes meanwhile.
	marked := r.Apply.Finalizer(ctx, kind, m, IsAdapter(m))
	if m, ok = marked.Live[recent.KeyOf(kind, m)].(*v1alpha1.DynamoModel); !ok {
		return statusio.Answer(reconcile.Result{}, marked.Wake, marked.Err())
	}
	seen, err := r.see(ctx, m)
	if err != nil {
		r.Status.Tell(m, warning("EndpointDiscoveryFailed", err.Error()))
		return reconcile.Result{}, err
	}
	seen.Problems = plan.Problems
	stored, held, err := r.store(ctx, m, seen)
	if err != nil {
		return reconcile.Result{}, err
	}
	// What is about to be loaded is stored by now.
	r.Keeper.Want(m.UID, req.NamespacedName, Desired(stored, seen))
	return reconcile.Result{RequeueAfter: held}, nil
}

// see reads what a model depends on.
func (r *Reconciler) see(ctx context.Context, m *v1alpha1.DynamoModel) (Seen, error) {
	endpoints, services, err := r.Endpoints.Of(ctx, m.Namespace, m.Spec.BaseModelName)
	if err != nil {
		return Seen{}, err
	}
	seen := Seen{Endpoints: endpoints, Services: services, Known: r.Keeper.Known(m.UID)}
	if !IsAdapter(m) {
		return seen, nil
	}
	if seen.Pods, err = r.Endpoints.Pods(ctx, m.Namespace, m.Spec.BaseModelName); err != nil {
		return Seen{}, err
	}
	others, err := observe.ModelsOn(ctx, r.Cache, m.Namespace, names.ModelHash(m.Spec.BaseModelName))
	if err != nil {
		return Seen{}, err
	}
	seen.Holder = Holder(m, others)
	return seen, nil
}

// store writes a status and the events that go with it, and returns the model as it is stored then.
func (r *Reconciler) store(ctx context.Context, m *v1alpha1.DynamoModel, seen Seen) (*v1alpha1.DynamoModel, time.Duration, error) {
	after := m.DeepCopy()
	after.Status = Status(m, seen, r.Now())
	held, err := r.Status.Write(ctx, statusio.Change{
		Kind: kind, Before: m, After: after, Was: m.Status.Conditions, Is: after.Status.Conditions,
		Transition: isTransition(m.Status, after.Status), Events: Events(m, after.Status),
	})
	if held > 0 || err != nil {
		return m, held, err
	}
	return after, 0, nil
}

// part has the endpoints of a model that is being deleted drop its adapter, for as long as there is patience.
func (r *Reconciler) part(ctx context.Context, m *v1alpha1.DynamoModel) (reconcile.Result, error) {
	key := client.ObjectKeyFromObject(m)
	if !hasFinalizer(m) {
		r.Keeper.Forget(m.UID)
		return reconcile.Result{}, nil // it goes when others let it
	}
	left := r.partings.left(m.UID, m.DeletionTimestamp.Time, r.Clock.Now())
	seen, err := r.see(ctx, m)
	if err != nil && r.partings.tell(m.UID) {
		r.Status.Tell(m, statusio.Event{Type: corev1.EventTypeWarning, Reason: conditions.CleanupFailed, Action: "Delete", Note: err.Error()})
	}
	parting := Judge(seen, r.Keeper.Want(m.UID, key, Undone(m, seen)))
	if parting.Pending > 0 && left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	if event, ok := parting.Event(); ok && r.partings.tell(m.UID) {
		r.Status.Tell(m, event)
	}
	freed := r.Apply.Finalizer(ctx, kind, m, false)
	if freed.Err() == nil && freed.Wake == 0 {
		r.Keeper.Forget(m.UID)
	}
	return statusio.Answer(reconcile.Result{}, freed.Wake, freed.Err())
}

func (r *Reconciler) forget(req reconcile.Request) {
	if uid := r.Plans.UID(req.NamespacedName); uid != "" {
		r.Keeper.Forget(uid)
		r.partings.drop(uid)
	}
	r.Forget(req)
}

// On are the models of a namespace that concern a base model.
func On(all []v1alpha1.DynamoModel) []reconcile.Request {
	requests := make([]reconcile.Request, len(all))
	for i := range all {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&all[i])
	}
	return requests
}
