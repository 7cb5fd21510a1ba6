// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/statusio"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// leavesKeys tells whether a component's processes are found in an etcd that the operator can reach. Only such a component
// has to be held when it is deleted.
func leavesKeys(c *v1alpha1.DynamoComponentDeployment, s input.Settings) bool {
	return s.EtcdAddress != "" && input.FromDeployment(c, s, nil).Discovery() == names.DiscoveryEtcd
}

// keysOf begins the keys of a component in etcd.
func keysOf(c *v1alpha1.DynamoComponentDeployment, s input.Settings) string {
	in := input.FromDeployment(c, s, nil)
	return names.DiscoveryKeys(in.DynamoNamespace(), in.Service())
}

// part ends the life of a component that is being deleted. Its spec is not judged: whatever became of it, it can go.
func (r *Reconciler) part(ctx context.Context, c *v1alpha1.DynamoComponentDeployment) (reconcile.Result, error) {
	if !slices.Contains(c.Finalizers, names.Finalizer) {
		return reconcile.Result{}, nil
	}
	needed := !leavesKeys(c, r.Settings)
	if !needed {
		var err error
		if needed, err = r.keysAreNeeded(ctx, c); err != nil {
			return reconcile.Result{}, err
		}
	}
	if !needed {
		if wait := r.dropKeys(ctx, c); wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, nil
		}
	}
	gone := r.Apply.Finalizer(ctx, kind, c, false)
	return statusio.Answer(reconcile.Result{}, gone.Wake, gone.Err())
}

// keysAreNeeded tells whether somebody is still found under the component's keys: its own pods, which a user asked to leave
// running, or a component of another graph in the same Dynamo namespace.
func (r *Reconciler) keysAreNeeded(ctx context.Context, c *v1alpha1.DynamoComponentDeployment) (bool, error) {
	if stay, err := r.podsStay(ctx, c); stay || err != nil {
		return stay, err
	}
	var all v1alpha1.DynamoComponentDeploymentList
	if err := r.Cache.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list components: %w", err)
	}
	keys := keysOf(c, r.Settings)
	return slices.ContainsFunc(all.Items, func(other v1alpha1.DynamoComponentDeployment) bool {
		return other.UID != c.UID && other.DeletionTimestamp == nil && leavesKeys(&other, r.Settings) && keysOf(&other, r.Settings) == keys
	}), nil
}

// podsStay tells whether the component is deleted without its workload.
func (r *Reconciler) podsStay(ctx context.Context, c *v1alpha1.DynamoComponentDeployment) (bool, error) {
	if slices.Contains(c.Finalizers, metav1.FinalizerOrphanDependents) {
		return true, nil
	}
	var workload client.Object
	var err error
	switch {
	case !c.IsMultinode():
		workload, err = r.newest(ctx, deploymentKind, client.ObjectKeyFromObject(c), &appsv1.Deployment{})
	case r.Served().LWS:
		first := client.ObjectKey{Namespace: c.Namespace, Name: names.Group(c.Name, 0)}
		workload, err = r.newest(ctx, groupKind, first, &lwsv1.LeaderWorkerSet{})
	}
	return workload != nil && len(workload.GetOwnerReferences()) == 0, err
}

// dropKeys deletes the component's keys and returns how long to wait before it is called again, 0 when the component can
// go: its keys are gone, or etcd did not answer for so long that the component does not wait any more.
func (r *Reconciler) dropKeys(ctx context.Context, c *v1alpha1.DynamoComponentDeployment) time.Duration {
	keys, end := keysOf(c, r.Settings), c.DeletionTimestamp.Add(patience)
	p := r.partings.of(c)
	if p.isDue(r.Clock.Now(), end) {
		problem := r.askEtcd(ctx, keys, end)
		if problem == nil {
			return 0
		}
		p = p.failed(problem, r.Clock.Now())
	}
	now := r.Clock.Now()
	if event, news := p.news(keys, now, end); news {
		r.Status.Tell(c, event)
		p.said = event.Reason
	}
	r.partings.put(c, p)
	return p.pause(now, end)
}

// askEtcd asks once, and for no longer than the component still waits. One that has waited long enough already, because
// there was no operator, is worth one question, too.
func (r *Reconciler) askEtcd(ctx context.Context, keys string, end time.Time) error {
	if left := end.Sub(r.Clock.Now()); left > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, left)
		defer cancel()
	}
	return r.Etcd.DeletePrefix(ctx, keys)
}
