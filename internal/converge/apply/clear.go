// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/tally"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// Clear deletes children that make way for others. Each stays in sight until everything below it is gone, so that what
// follows finds its names free. For an owner that the cache shows as it was, nothing is deleted: its news are on their way, and whoever
// is to look again by then is told.
func (a *Applier) Clear(ctx context.Context, owner client.Object, children Children) (wake time.Duration, err error) {
	isOutdated := sync.OnceValues(func() (bool, error) { return a.isOutdated(ctx, owner) })
	for key, live := range children {
		if live.GetDeletionTimestamp() != nil || !metav1.IsControlledBy(live, owner) {
			continue
		}
		if outdated, err := isOutdated(); outdated || err != nil {
			return lookAgain, err
		}
		uid := live.GetUID()
		err := a.writer.Delete(ctx, live, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationForeground))
		if client.IgnoreNotFound(err) != nil {
			return 0, fmt.Errorf("delete %s: %w", key, err)
		}
		if err == nil {
			a.Tally.Wrote(ctx, key.Kind, tally.Pruned)
		}
		a.memory.drop(owner.GetUID(), key)
	}
	return 0, nil
}

// Keep makes an object that belongs to nobody and outlives everything. That there is one already is an error.
func (a *Applier) Keep(ctx context.Context, obj client.Object) error {
	obj.SetLabels(with(obj.GetLabels(), names.LabelApplied, names.OperatorName))
	if err := a.writer.Create(ctx, obj, client.FieldOwner(names.FieldManager)); err != nil {
		return err
	}
	a.Tally.Wrote(ctx, a.kindOf(obj), tally.Created)
	return nil
}

// kindOf is the kind of an object that has a type, for those who count.
func (a *Applier) kindOf(obj client.Object) string {
	kind, err := apiutil.GVKForObject(obj, a.scheme)
	if err != nil {
		return ""
	}
	return kind.Kind
}
