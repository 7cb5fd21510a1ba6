// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ai-dynamo/grove/operator/api/common"
	"github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// absentPause is how long the simulator waits before it looks again for an API that is not served.
	absentPause = 100 * time.Millisecond
	// retryFirst and retryLast bound the pauses after a write that somebody else got in the way of.
	retryFirst, retryLast = 5 * time.Millisecond, time.Second
)

// Simulator plays Grove in one namespace or in all.
type Simulator struct {
	api       client.WithWatch
	namespace string
	pods      bool
	queue     workqueue.TypedRateLimitingInterface[client.ObjectKey]

	mu    sync.Mutex
	held  map[string]bool
	known map[client.ObjectKey]bool
}

// Option changes how Grove is played.
type Option func(*Simulator)

// WithPods makes real pods. Somebody has to schedule and run them: the control plane needs nodes.
func WithPods() Option {
	return func(s *Simulator) { s.pods = true }
}

// New returns a simulator for a namespace, or for all if it is empty. Its client must know Grove's types and may do
// everything.
func New(api client.WithWatch, namespace string, opts ...Option) *Simulator {
	s := &Simulator{
		api: api, namespace: namespace, held: map[string]bool{}, known: map[client.ObjectKey]bool{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[client.ObjectKey](retryFirst, retryLast)),
	}
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// Hold keeps pods that a PodClique makes from now on from becoming ready, until it is released. The PodClique need not
// exist yet; its name is <set>-<replica>-<clique> or, in a group, <set>-<replica>-<group>-<replica>-<clique>.
func (s *Simulator) Hold(podClique string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[podClique] = true
}

// Release lets the pods of a PodClique become ready.
func (s *Simulator) Release(podClique string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, podClique)
	for key := range s.known {
		s.queue.Add(key)
	}
}

func (s *Simulator) isHeld(podClique string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[podClique]
}

// Run plays Grove until the context ends. A simulator runs once.
func (s *Simulator) Run(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	lists := []client.ObjectList{&v1alpha1.PodCliqueSetList{}, &v1alpha1.PodCliqueList{}, &v1alpha1.PodCliqueScalingGroupList{}}
	if s.pods {
		lists = append(lists, &corev1.PodList{})
	}
	var parts sync.WaitGroup
	play := func(part func() error) {
		parts.Go(func() {
			if err := part(); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	for _, list := range lists {
		play(func() error { return s.watch(ctx, list) })
	}
	play(func() error { return s.work(ctx) })
	<-ctx.Done()
	s.queue.ShutDown()
	parts.Wait()
	if parent.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

// watch queues the PodCliqueSet of every object that changes. An API that comes and goes is waited for, because a test
// that takes Grove away needs somebody who removes the finalizers, and may bring it back.
func (s *Simulator) watch(ctx context.Context, list client.ObjectList) error {
	for ctx.Err() == nil {
		w, err := s.api.Watch(ctx, list, client.InNamespace(s.namespace))
		switch {
		case err == nil:
			s.follow(ctx, w)
		case !transient(err):
			return fmt.Errorf("watch %T: %w", list, err)
		default:
			select {
			case <-ctx.Done():
			case <-time.After(absentPause):
			}
		}
	}
	return nil
}

func (s *Simulator) follow(ctx context.Context, w watch.Interface) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-w.ResultChan():
			if !open {
				return
			}
			if obj, ok := event.Object.(client.Object); ok {
				s.enqueue(obj)
			}
		}
	}
}

// enqueue finds the PodCliqueSet by the label that Grove puts on everything it makes.
func (s *Simulator) enqueue(obj client.Object) {
	key := client.ObjectKeyFromObject(obj)
	if _, isSet := obj.(*v1alpha1.PodCliqueSet); !isSet {
		if obj.GetLabels()[common.LabelManagedByKey] != common.LabelManagedByValue {
			return
		}
		key.Name = obj.GetLabels()[common.LabelPartOfKey]
	}
	s.mu.Lock()
	s.known[key] = true
	s.mu.Unlock()
	s.queue.Add(key)
}

// work handles one PodCliqueSet after another until the queue is shut down.
func (s *Simulator) work(ctx context.Context) error {
	for {
		key, ended := s.queue.Get()
		if ended {
			return nil
		}
		moved, err := s.reconcile(ctx, key)
		switch {
		case err == nil:
			s.queue.Forget(key)
			if moved {
				s.queue.Add(key)
			}
		case transient(err):
			s.queue.AddRateLimited(key)
		default:
			return fmt.Errorf("play Grove for PodCliqueSet %s: %w", key, err)
		}
		s.queue.Done(key)
	}
}

// transient tells what happens in an orderly cluster from mistakes of the simulator: somebody else was faster, or an API
// or a namespace comes or goes. The simulator may do everything, so what is forbidden to it is not a matter of rights: a
// CRD or a namespace is on its way out, or an account is not there yet.
func transient(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) ||
		meta.IsNoMatchError(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsForbidden(err)
}
