// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/belonging"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
)

// elsewhere reads owners that the cache still shows and that may be gone, and counts how often it is asked.
type elsewhere struct {
	*arena
	uid   types.UID
	asked int
}

func (e *elsewhere) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	e.asked++
	obj.SetUID(e.uid)
	return nil
}

// TestNothingIsMadeAgainForAnOwnerThatIsGone is about the first look of an operator: it has seen nothing itself, and what tells it
// that the child was there is the status of the owner.
func TestNothingIsMadeAgainForAnOwnerThatIsGone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		observed int64
		uid      types.UID
		made     int
		asked    int
	}{
		"a new spec":        {observed: 1, uid: "a successor's", made: 3},
		"a spec it had met": {observed: 2, uid: "a successor's", asked: 1},
		"an owner that is there, whose children went": {observed: 2, uid: testOwner().UID, made: 3, asked: 1},
	} {
		a := newArena(t)
		reader := &elsewhere{arena: a, uid: tc.uid}
		a.applier = NewApplier(a, reader, testScheme(t), recent.NewStore(a.now), a.now)
		owner := testOwner()
		owner.Generation, owner.Status.ObservedGeneration = 2, tc.observed
		var plan Plan
		for _, child := range []string{"c", "d", "e"} {
			intent, err := Prepare(a.applier.scheme, owner, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: child}}, belonging.Owned)
			if err != nil {
				t.Fatal(err)
			}
			plan = append(plan, []Intent{intent})
		}
		if result := a.applier.All(t.Context(), owner, plan, nil); len(result.Failures) > 0 || len(a.applied) != tc.made {
			t.Errorf("%s: %d children were made, failures %v", name, len(a.applied), result.Failures)
		}
		if reader.asked != tc.asked {
			t.Errorf("%s: the API server was asked %d times about the owner", name, reader.asked)
		}
	}
}
