// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// bindingKind is the one kind of which the API server lets nobody change a field that we set: its role.
var bindingKind = schema.GroupKind{Group: rbacv1.GroupName, Kind: "RoleBinding"}

// refusal is a change of a child that the API server did not make.
type refusal struct {
	intent Intent
	live   client.Object
	err    error
}

// refused deals with a change that was not made. A binding to another role is replaced; whatever else somebody refuses, a
// webhook for example, is told and not got round.
func (a *Applier) refused(ctx context.Context, p pass, r refusal) outcome {
	failed := outcome{failed: fmt.Errorf("apply %s: %w", r.intent.Key, r.err)}
	if !apierrors.IsInvalid(r.err) || r.intent.Key.GroupKind != bindingKind {
		return failed
	}
	other, err := a.bindsOtherRole(ctx, r.intent, r.live)
	if err != nil {
		return outcome{failed: err}
	}
	if !other {
		return failed
	}
	if out := a.remove(ctx, p.owner, r.intent.Key, r.live); out.failed != nil {
		return out
	}
	return a.create(ctx, p, r.intent)
}

// bindsOtherRole compares the role of a binding with the one that is wanted. Of what the cache does not have only the metadata
// are known, so it is read.
func (a *Applier) bindsOtherRole(ctx context.Context, intent Intent, live client.Object) (bool, error) {
	binding, ok := live.(*rbacv1.RoleBinding)
	if !ok {
		binding = &rbacv1.RoleBinding{}
		err := a.reader.Get(ctx, intent.Key.NamespacedName, binding)
		if apierrors.IsNotFound(err) {
			return false, nil // it went meanwhile, and the next pass makes it
		}
		if err != nil {
			return false, fmt.Errorf("read %s: %w", intent.Key, err)
		}
	}
	body, err := intent.body()
	if err != nil {
		return false, err
	}
	want, _ := body["roleRef"].(map[string]any)
	return binding.RoleRef.Kind != want["kind"] || binding.RoleRef.Name != want["name"], nil
}
