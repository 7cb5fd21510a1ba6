// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulator plays the controllers that a test does without. It is honest about what it stands for: Deployments
// does what kube-controller-manager, scheduler and kubelet do together when every pod starts at once and stays healthy.
package simulator

import (
	"context"
	"fmt"

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
	return DeploymentsInParallel(ctx, api, namespace, 1)
}

// DeploymentsInParallel does the same with several requests at once, for measurements of others: whoever waits for the
// simulator would measure the simulator.
func DeploymentsInParallel(ctx context.Context, api client.WithWatch, namespace string, requests int) error {
	for ctx.Err() == nil {
		w, err := api.Watch(ctx, &appsv1.DeploymentList{}, client.InNamespace(namespace))
		if err != nil {
			return ignoreEnd(ctx, fmt.Errorf("watch Deployments: %w", err))
		}
		if err := rollOut(ctx, api, w, requests); err != nil {
			return ignoreEnd(ctx, err)
		}
	}
	return nil
}

func rollOut(ctx context.Context, api client.Client, w watch.Interface, requests int) error {
	defer w.Stop()
	marking, ctx := errgroup.WithContext(ctx)
	marking.SetLimit(requests)
	for {
		select {
		case <-ctx.Done():
			return marking.Wait()
		case event, open := <-w.ResultChan():
			if !open {
				return marking.Wait()
			}
			if d, ok := event.Object.(*appsv1.Deployment); ok && event.Type != watch.Deleted {
				marking.Go(func() error { return markReady(ctx, api, d) })
			}
		}
	}
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
