// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulator plays the controllers that a test does without. It is honest about what it stands for: Deployments
// does what kube-controller-manager, scheduler and kubelet do together when every pod starts at once and stays healthy.
package simulator

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Deployments reports every Deployment of a namespace as fully rolled out, one after the other, until the context ends.
func Deployments(ctx context.Context, api client.WithWatch, namespace string) error {
	return DeploymentsAt(ctx, api, namespace, Pace{Requests: 1})
}

// Pace is how Deployments are reported.
type Pace struct {
	// Requests is how many are under way at once.
	Requests int
	// Delay is how long after it was made or changed a Deployment is reported.
	Delay time.Duration
}

// DeploymentsAt does the same at a pace, for measurements of others: whoever waits for the simulator would measure the simulator.
func DeploymentsAt(ctx context.Context, api client.WithWatch, namespace string, pace Pace) error {
	for ctx.Err() == nil {
		w, err := api.Watch(ctx, &appsv1.DeploymentList{}, client.InNamespace(namespace))
		if err != nil {
			return ignoreEnd(ctx, fmt.Errorf("watch Deployments: %w", err))
		}
		if err := rollOut(ctx, api, w, pace); err != nil {
			return ignoreEnd(ctx, err)
		}
	}
	return nil
}

func rollOut(ctx context.Context, api client.Client, w watch.Interface, pace Pace) error {
	defer w.Stop()
	marking, ctx := errgroup.WithContext(ctx)
	marking.SetLimit(pace.Requests)
	news := w.ResultChan()
	if pace.Delay > 0 {
		news = later(ctx, news, pace.Delay)
	}
	for {
		select {
		case <-ctx.Done():
			return marking.Wait()
		case event, open := <-news:
			if !open {
				return marking.Wait()
			}
			if d, ok := event.Object.(*appsv1.Deployment); ok && event.Type != watch.Deleted {
				marking.Go(func() error { return markReady(ctx, api, d) })
			}
		}
	}
}

// later hands events on after a delay, each as long after it came, until there are no more or the context ends.
func later(ctx context.Context, events <-chan watch.Event, delay time.Duration) <-chan watch.Event {
	type waiting struct {
		event watch.Event
		due   time.Time
	}
	handed := make(chan watch.Event)
	go func() {
		defer close(handed)
		for queue := []waiting{}; events != nil || len(queue) > 0; {
			var next waiting
			var out chan watch.Event
			var due <-chan time.Time
			if len(queue) > 0 {
				if next = queue[0]; time.Until(next.due) > 0 {
					due = time.After(time.Until(next.due))
				} else {
					out = handed
				}
			}
			select {
			case <-ctx.Done():
				return
			case event, open := <-events:
				if !open {
					events = nil
					continue
				}
				queue = append(queue, waiting{event, time.Now().Add(delay)})
			case <-due:
			case out <- next.event:
				queue = queue[1:]
			}
		}
	}()
	return handed
}

func markReady(ctx context.Context, api client.Client, d *appsv1.Deployment) error {
	n := ptr.Deref(d.Spec.Replicas, 1)
	status := appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation,
		Replicas:           n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
		Conditions: []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable",
		}},
	}
	if equality.Semantic.DeepEqual(status, d.Status) {
		return nil
	}
	d.Status = status
	err := api.Status().Update(ctx, d)
	if apierrors.IsConflict(err) {
		err = nil // the newer version is already on its way through the watch
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("report Deployment %s as ready: %w", d.Name, err)
	}
	return nil
}

// ignoreEnd passes an error on, unless it only says that the simulation was ended.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}
