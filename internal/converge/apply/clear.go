// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/tally"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// Clear deletes children that make way for others. Each stays in sight until everything below it is gone, so that what
// follows finds its names free.
func (a *Applier) Clear(ctx context.Context, owner client.Object, children Children) error {
	for key, live := range children {
		if live.GetDeletionTimestamp() != nil || !metav1.IsControlledBy(live, owner) {
			continue
		}
		uid := live.GetUID()
		err := a.writer.Delete(ctx, live, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationForeground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %s: %w", key, err)
		}
		if err == nil {
			a.Tally.Wrote(ctx, key.Kind, tally.Pruned)
		}
		a.memory.drop(owner.GetUID(), key)
	}
	return nil
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
