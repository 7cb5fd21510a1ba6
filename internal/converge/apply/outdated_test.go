// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// newest is an API server that knows an owner as it is now, and counts what is deleted.
type newest struct {
	*arena
	owner   metav1.ObjectMeta
	err     error
	deleted int
}

func (n *newest) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	obj.SetUID(n.owner.UID)
	obj.SetGeneration(n.owner.Generation)
	obj.SetAnnotations(n.owner.Annotations)
	obj.SetDeletionTimestamp(n.owner.DeletionTimestamp)
	return n.err
}

func (n *newest) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	n.deleted++
	return nil
}

// TestWhatIsNoLongerWantedIsDeletedOnlyForAnOwnerThatIsUpToDate is about an operator that a lagging API server shows the past: its
// owner does not name a child yet that serves since.
func TestWhatIsNoLongerWantedIsDeletedOnlyForAnOwnerThatIsUpToDate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change  func(*newest)
		deleted int
		failed  bool
	}{
		"as it is known":  {change: func(*newest) {}, deleted: 1},
		"a newer spec":    {change: func(n *newest) { n.owner.Generation++ }},
		"newer notes":     {change: func(n *newest) { n.owner.Annotations = map[string]string{"nvidia.com/enable-grove": "false"} }},
		"notes of others": {change: func(n *newest) { n.owner.Annotations = map[string]string{"example.com/seen": "now"} }, deleted: 1},
		"a successor":     {change: func(n *newest) { n.owner.UID = "another" }},
		"on its way out":  {change: func(n *newest) { n.owner.DeletionTimestamp = &metav1.Time{Time: beginning} }},
		"nobody can tell": {change: func(n *newest) { n.err = errors.New("the API server is away") }, failed: true},
	} {
		owner := testOwner()
		owner.Generation = 2
		child := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			Name: "c", UID: "child", ResourceVersion: "1", Labels: map[string]string{names.LabelApplied: names.OperatorName},
			OwnerReferences: []metav1.OwnerReference{{UID: owner.UID, Controller: new(true)}},
		}}
		key := recent.Key{GroupKind: appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind(), NamespacedName: client.ObjectKeyFromObject(child)}
		for way, remove := range map[string]func(*Applier) error{
			"pruned": func(a *Applier) error {
				result := a.All(t.Context(), owner, nil, Children{key: child})
				if tc.deleted == 0 && result.Wake == 0 {
					t.Errorf("%s: nobody looks again", name)
				}
				return result.Err()
			},
			"cleared": func(a *Applier) error {
				wake, err := a.Clear(t.Context(), owner, Children{key: child})
				if tc.deleted == 0 && wake == 0 {
					t.Errorf("%s: nobody looks again after clearing", name)
				}
				return err
			},
		} {
			server := &newest{arena: newArena(t), owner: *owner.ObjectMeta.DeepCopy()}
			tc.change(server)
			err := remove(NewApplier(server, server, testScheme(t), recent.NewStore(server.now), server.now))
			if server.deleted != tc.deleted || (err != nil) != tc.failed {
				t.Errorf("%s, %s: %d deleted, want %d; %v", name, way, server.deleted, tc.deleted, err)
			}
		}
	}
}
