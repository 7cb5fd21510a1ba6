// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"net"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers/model"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/placement"
	"github.com/dynamo-operator/dynamo-operator/internal/lora"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/config"
)

const (
	// workerTimeout bounds a call to a worker.
	workerTimeout = 15 * time.Second
	// connectTimeout bounds the way to it. A pod that is there answers at once.
	connectTimeout = 3 * time.Second
	// answered is how many endpoints can have answered before somebody looks.
	answered = 1024
)

// models is the controller of models.
func models() kind {
	return kind{
		name: model.Name, primary: &v1alpha1.DynamoModel{}, workers: 4,
		list:   func() client.ObjectList { return &v1alpha1.DynamoModelList{} },
		status: modelReadiness,
		also: []related{
			{object: &discoveryv1.EndpointSlice{}, from: mainCache, to: modelsOnBase(hashOfLabel), when: childChanged()},
			{object: &corev1.Pod{}, from: mainCache, to: modelsOnBase(hashOfLabel), when: childChanged()},
			{object: &v1alpha1.DynamoModel{}, from: mainCache, to: modelsOnBase(hashOfModel), when: claimsChanged()},
		},
		wake:   func(p parts) source.Source { return p.answers },
		begins: func(p parts, namespace string) { p.workers.Doubt(namespace) },
		reconciler: func(t controllers.Tools, p parts) reconcile.Reconciler {
			return &model.Reconciler{Tools: t, Endpoints: observe.Endpoints{Cache: t.Cache}, Keeper: p.workers}
		},
	}
}

func modelReadiness(obj client.Object) string {
	m, ok := obj.(*v1alpha1.DynamoModel)
	return readiness(ok && conditions.IsTrue(m.Status.Conditions, v1alpha1.ConditionReady))
}

// claimsChanged lets through what concerns models that wait for a name.
func claimsChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, isModel := e.ObjectOld.(*v1alpha1.DynamoModel)
			after, areModels := e.ObjectNew.(*v1alpha1.DynamoModel)
			return isModel && areModels && !slices.Equal(model.Names(before), model.Names(after))
		},
	}
}

// callWorkers returns what calls workers, and what tells controllers of their answers.
func callWorkers(c *config.Config, a around) (*placement.Keeper, source.Source) {
	dial := c.DialWorkers
	if dial == nil {
		dial = (&net.Dialer{Timeout: connectTimeout}).DialContext
	}
	changed := make(chan event.GenericEvent, answered)
	keeper := &placement.Keeper{
		Calls: lora.NewClient(dial, workerTimeout), Clock: clock.RealClock{},
		Enter: a.land.enter, Count: a.sight.metrics.CalledWorker,
		Changed: func(name types.NamespacedName) {
			changed <- event.GenericEvent{Object: &v1alpha1.DynamoModel{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}}
		},
	}
	return keeper, source.Channel(changed, &handler.EnqueueRequestForObject{})
}

// modelsOnBase wakes the models on a base model, of which an object has the hash.
func modelsOnBase(hash func(client.Object) string) func(parts) handler.MapFunc {
	return func(p parts) handler.MapFunc {
		return func(ctx context.Context, obj client.Object) []reconcile.Request {
			of := hash(obj)
			if of == "" {
				return nil
			}
			found, err := observe.ModelsOn(ctx, p.mgr.GetCache(), obj.GetNamespace(), of)
			if err != nil {
				p.mgr.GetLogger().Error(err, "Models were not listed", "because of", obj.GetName())
				return nil
			}
			return model.On(found)
		}
	}
}

func hashOfLabel(obj client.Object) string { return obj.GetLabels()[names.LabelBaseModelHash] }

func hashOfModel(obj client.Object) string {
	if m, ok := obj.(*v1alpha1.DynamoModel); ok {
		return names.ModelHash(m.Spec.BaseModelName)
	}
	return ""
}
