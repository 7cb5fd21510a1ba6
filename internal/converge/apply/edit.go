// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/tally"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// edit changes the metadata of an object and nothing else, unless the object changed since it was seen. It returns the
// object as it is then.
func (a *Applier) edit(
	ctx context.Context, key recent.Key, live client.Object, why tally.Reason, change func(client.Object),
) (client.Object, error) {
	after, ok := live.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("copy %s", key)
	}
	change(after)
	patch := client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{})
	if err := a.writer.Patch(ctx, after, patch, client.FieldOwner(names.FieldManager)); err != nil {
		return nil, err
	}
	a.Tally.Wrote(ctx, key.Kind, why)
	if after.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) == 0 {
		a.recent.Deleted(key, after.GetUID()) // that was the last that held it
		return after, nil
	}
	a.recent.Wrote(key, after)
	return after, nil
}

// Finalizer sees to it that an object has our finalizer, or that it has not, and sends nothing where that is so. The object
// as it is then is in the result. It is missing from there where it was newer than what is known of it: that is no failure,
// but a reason to look again.
func (a *Applier) Finalizer(ctx context.Context, kind schema.GroupKind, obj client.Object, wanted bool) Result {
	key := recent.KeyOf(kind, obj)
	if slices.Contains(obj.GetFinalizers(), names.Finalizer) == wanted {
		return Result{Live: Children{key: obj}}
	}
	why := tally.Released
	if wanted {
		why = tally.Changed
	}
	after, err := a.edit(ctx, key, obj, why, func(o client.Object) {
		others := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == names.Finalizer })
		if wanted {
			others = append(others, names.Finalizer)
		}
		o.SetFinalizers(others)
	})
	switch failingFor := a.memory.failing(obj.GetUID(), err != nil, a.clock.Now()); {
	case apierrors.IsNotFound(err):
		return Result{}
	case apierrors.IsConflict(err):
		return Result{Wake: min(max(afterConflict, failingFor), lastConflict)}
	case err != nil:
		return Result{Failures: []Failure{{Key: key, Err: fmt.Errorf("change the finalizers of %s: %w", key, err)}}, failingFor: failingFor}
	}
	return Result{Live: Children{key: after}}
}

// Release takes the owner's reference off children that are to outlive it, and labels them with its name, so that they can
// be found afterwards.
func (a *Applier) Release(ctx context.Context, owner client.Object, children Children) error {
	var errs []error
	for key, cached := range children {
		live, _ := a.recent.Newest(key, cached)
		if live == nil || live.GetDeletionTimestamp() != nil || !refersTo(live, owner.GetUID()) {
			continue
		}
		_, err := a.edit(ctx, key, live, tally.Released, func(child client.Object) {
			disown(child, owner)
			child.SetLabels(with(child.GetLabels(), names.LabelGraph, names.LabelValue(owner.GetName())))
		})
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("release %s: %w", key, err))
		}
	}
	return errors.Join(errs...)
}

func disown(child, owner client.Object) {
	child.SetOwnerReferences(slices.DeleteFunc(child.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		return r.UID == owner.GetUID()
	}))
}

// adopt gives a child that is made once its owner back. What is in it stays as it is.
func (a *Applier) adopt(ctx context.Context, p pass, intent Intent, live client.Object) outcome {
	if going, err := p.isGoing(); going || err != nil {
		return outcome{live: live, failed: err}
	}
	after, err := a.edit(ctx, intent.Key, live, tally.Adopted, func(child client.Object) {
		kind, _ := apiutil.GVKForObject(p.owner, a.scheme) // an intent was prepared with it
		child.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(p.owner, kind)})
	})
	if err != nil {
		return outcome{live: live, failed: fmt.Errorf("adopt %s: %w", intent.Key, err)}
	}
	return outcome{live: after}
}

// isOutdated asks the API server whether an owner is no longer what it is taken for: gone, or on its way out, or changed. An operator
// that has just started may be shown the past by an API server that lags behind the others, and what was not wanted then may be
// serving now.
func (a *Applier) isOutdated(ctx context.Context, owner client.Object) (bool, error) {
	kind, err := apiutil.GVKForObject(owner, a.scheme)
	if err != nil {
		return false, fmt.Errorf("find the kind of owner %q: %w", owner.GetName(), err)
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(kind)
	if err := a.reader.Get(ctx, client.ObjectKeyFromObject(owner), live); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read %s %q: %w", kind.Kind, owner.GetName(), err)
	}
	return live.UID != owner.GetUID() || live.DeletionTimestamp != nil || live.Generation != owner.GetGeneration() ||
		!maps.Equal(switches(live), switches(owner)), nil
}

// switches are the annotations that a plan depends on. Others stamp theirs as they like, and nothing waits for those.
func switches(owner client.Object) map[string]string {
	read := maps.Clone(owner.GetAnnotations())
	maps.DeleteFunc(read, func(key, _ string) bool { return !strings.HasPrefix(key, names.SwitchPrefix) })
	return read
}

// isGoing asks the API server whether an owner is on its way out, or gone, or was made by a graph of which that is true.
// What is known of owners and of children comes by different ways, and that a child went may be heard before its owner's
// deletion is. Making the child again, or giving an orphan its owner back, would then undo what a user asked for.
func (a *Applier) isGoing(ctx context.Context, owner client.Object) (bool, error) {
	kind, err := apiutil.GVKForObject(owner, a.scheme)
	if err != nil {
		return false, fmt.Errorf("find the kind of owner %q: %w", owner.GetName(), err)
	}
	for uid, key := owner.GetUID(), client.ObjectKeyFromObject(owner); ; {
		live := &metav1.PartialObjectMetadata{}
		live.SetGroupVersionKind(kind)
		if err := a.reader.Get(ctx, key, live); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("read %s %q: %w", kind.Kind, key.Name, err)
		}
		if live.UID != uid || live.DeletionTimestamp != nil {
			return true, nil // what was not found has no UID
		}
		maker := metav1.GetControllerOf(live)
		if maker == nil || schema.FromAPIVersionAndKind(maker.APIVersion, maker.Kind).GroupKind() != graphKind {
			return false, nil
		}
		kind, uid, key.Name = schema.FromAPIVersionAndKind(maker.APIVersion, maker.Kind), maker.UID, maker.Name
	}
}
