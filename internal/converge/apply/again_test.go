// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/belonging"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
)

// elsewhere reads owners that the cache still shows and that are gone.
type elsewhere struct{ *arena }

func (elsewhere) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	obj.SetUID("a successor's")
	return nil
}

// TestNothingIsMadeAgainForAnOwnerThatIsGone is about the first look of an operator: it has seen nothing itself, and what tells it
// that the child was there is the status of the owner.
func TestNothingIsMadeAgainForAnOwnerThatIsGone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		observed int64
		made     int
	}{
		"a new spec":        {observed: 1, made: 1},
		"a spec it had met": {observed: 2, made: 0},
	} {
		a := newArena(t)
		a.applier = NewApplier(a, elsewhere{a}, testScheme(t), recent.NewStore(a.now), a.now)
		owner := testOwner()
		owner.Generation, owner.Status.ObservedGeneration = 2, tc.observed
		intent, err := Prepare(a.applier.scheme, owner, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, belonging.Owned)
		if err != nil {
			t.Fatal(err)
		}
		if result := a.applier.All(t.Context(), owner, Plan{{intent}}, nil); len(result.Failures) > 0 || len(a.applied) != tc.made {
			t.Errorf("%s: %d children were made, failures %v", name, len(a.applied), result.Failures)
		}
	}
}
