// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/belonging"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

var testKind = schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: "DynamoComponentDeployment"}

// patches answers every patch with the same error and writes down what was sent.
type patches struct {
	Writer
	err  error
	sent []string
}

func (p *patches) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(obj)
	p.sent = append(p.sent, string(data))
	if p.err == nil {
		obj.SetResourceVersion("8")
	}
	return errors.Join(err, p.err)
}

func newTestApplier(p *patches) (*Applier, *clocktesting.FakePassiveClock) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	return NewApplier(p, nil, nil, recent.NewStore(now), now), now
}

func TestTheFinalizerListIsPatchedAloneAndOnlyWhereItDiffers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		has    []string
		wanted bool
		want   []string
	}{
		"add the first":        {nil, true, []string{`{"metadata":{"finalizers":["nvidia.com/finalizer"],"resourceVersion":"7"}}`}},
		"add to others":        {[]string{"a"}, true, []string{`{"metadata":{"finalizers":["a","nvidia.com/finalizer"],"resourceVersion":"7"}}`}},
		"is there":             {[]string{names.Finalizer, "a"}, true, nil},
		"is not there":         {[]string{"a"}, false, nil},
		"nothing is there":     {nil, false, nil},
		"take away the last":   {[]string{names.Finalizer}, false, []string{`{"metadata":{"finalizers":null,"resourceVersion":"7"}}`}},
		"take away and others": {[]string{"a", names.Finalizer, "b"}, false, []string{`{"metadata":{"finalizers":["a","b"],"resourceVersion":"7"}}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testOwner()
			c.Finalizers, c.ResourceVersion = tc.has, "7"
			p := &patches{}
			a, _ := newTestApplier(p)
			result := a.Finalizer(t.Context(), testKind, c, tc.wanted)
			if diff := cmp.Diff(tc.want, p.sent); diff != "" || result.Err() != nil || len(result.Live) != 1 {
				t.Errorf("result %v, sent (-want +got):\n%s", result, diff)
			}
			if diff := cmp.Diff(tc.has, c.Finalizers); diff != "" {
				t.Errorf("the cache's own object was changed:\n%s", diff)
			}
		})
	}
}

func TestAFinalizerThatMeetsANewerObjectIsLookedAtAgainWithGrowingPauses(t *testing.T) {
	t.Parallel()
	p := &patches{err: apierrors.NewConflict(schema.GroupResource{}, "c", nil)}
	a, now := newTestApplier(p)
	var waits []time.Duration
	for range 3 {
		result := a.Finalizer(t.Context(), testKind, testOwner(), true)
		if len(result.Live) > 0 || result.Err() != nil {
			t.Errorf("got %v", result)
		}
		waits = append(waits, result.Wake)
		now.SetTime(now.Now().Add(4 * time.Second))
	}
	if diff := cmp.Diff([]time.Duration{afterConflict, 4 * time.Second, lastConflict}, waits); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
}

func TestAFinalizerOfAnObjectThatIsGoneIsNoConcern(t *testing.T) {
	t.Parallel()
	a, _ := newTestApplier(&patches{err: apierrors.NewNotFound(schema.GroupResource{}, "c")})
	if result := a.Finalizer(t.Context(), testKind, testOwner(), true); result.Err() != nil || result.Wake != 0 || len(result.Live) > 0 {
		t.Errorf("got %v", result)
	}
	a, _ = newTestApplier(&patches{err: apierrors.NewForbidden(schema.GroupResource{}, "c", nil)})
	if result := a.Finalizer(t.Context(), testKind, testOwner(), true); result.Err() == nil {
		t.Error("a refusal is not told")
	}
}

func TestAnObjectWhoseLastFinalizerWentIsTakenForGone(t *testing.T) {
	t.Parallel()
	deleted := testOwner()
	deleted.ResourceVersion = "7"
	deleted.DeletionTimestamp, deleted.Finalizers = &metav1.Time{Time: time.Unix(900, 0)}, []string{names.Finalizer}
	held := deleted.DeepCopy()
	held.Finalizers = []string{names.Finalizer, "theirs"}
	for want, c := range map[bool]*v1alpha1.DynamoComponentDeployment{false: deleted, true: held} {
		a, _ := newTestApplier(&patches{})
		a.Finalizer(t.Context(), testKind, c, false)
		if there := a.Newest(recent.KeyOf(testKind, c), c) != nil; there != want {
			t.Errorf("with finalizers %v: taken for there is %v", c.Finalizers, there)
		}
	}
}

func TestReleasedChildrenKeepEverythingButTheirOwner(t *testing.T) {
	t.Parallel()
	owner := testOwner()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "weights", ResourceVersion: "7", Labels: map[string]string{"a": "b"},
		OwnerReferences: []metav1.OwnerReference{{UID: ownerUID, Name: "c"}, {UID: "other", Name: "o"}},
	}}
	others := claim.DeepCopy()
	others.Name, others.OwnerReferences = "theirs", others.OwnerReferences[1:]
	p := &patches{}
	a, _ := newTestApplier(p)
	kind := schema.GroupKind{Kind: claimKind}
	children := Children{recent.KeyOf(kind, claim): claim, recent.KeyOf(kind, others): others}
	for range 2 { // the second time it is done already
		if err := a.Release(t.Context(), owner, children); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{`{"metadata":{"labels":{"nvidia.com/dynamo-graph-deployment-name":"c"},` +
		`"ownerReferences":[{"apiVersion":"","kind":"","name":"o","uid":"other"}],"resourceVersion":"7"}}`}
	if diff := cmp.Diff(want, p.sent); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	p.err = apierrors.NewForbidden(schema.GroupResource{}, "weights", nil)
	again := claim.DeepCopy()
	again.ResourceVersion = "9"
	if err := a.Release(t.Context(), owner, Children{recent.KeyOf(kind, claim): again}); err == nil {
		t.Error("a refusal is not told")
	}
}

func TestWhatIsMadeOnceIsAdoptedUnlessItHoldsData(t *testing.T) {
	t.Parallel()
	ours := map[string]string{names.LabelApplied: names.OperatorName}
	controlled := []metav1.OwnerReference{{UID: "other", Name: "o", Controller: new(true)}}
	claim := func(m metav1.ObjectMeta) client.Object { return &corev1.PersistentVolumeClaim{ObjectMeta: m} }
	other := func(m metav1.ObjectMeta) client.Object { return &corev1.ConfigMap{ObjectMeta: m} }
	for name, tc := range map[string]struct {
		belongs belonging.Belonging
		make    func(metav1.ObjectMeta) client.Object
		live    metav1.ObjectMeta
		want    verdict
	}{
		"an orphan of ours":                {belonging.Once, other, metav1.ObjectMeta{Labels: ours}, adopt},
		"an orphan that is going":          {belonging.Once, other, metav1.ObjectMeta{Labels: ours, DeletionTimestamp: &metav1.Time{}}, nothing},
		"a stranger's":                     {belonging.Once, other, metav1.ObjectMeta{}, nothing},
		"another's":                        {belonging.Once, other, metav1.ObjectMeta{Labels: ours, OwnerReferences: controlled}, nothing},
		"a claim that was let go":          {belonging.Once, claim, metav1.ObjectMeta{Labels: ours}, nothing},
		"a claim that is to be let go":     {belonging.Retained, claim, metav1.ObjectMeta{Labels: ours, OwnerReferences: controlled}, nothing},
		"a claim that belongs to nobody":   {belonging.Retained, claim, metav1.ObjectMeta{Labels: ours}, nothing},
		"a retained claim of somebody's":   {belonging.Retained, claim, metav1.ObjectMeta{}, nothing},
		"something retained, for equality": {belonging.Retained, other, metav1.ObjectMeta{Labels: ours}, nothing},
	} {
		intent, err := Prepare(testScheme(t), testOwner(), tc.make(metav1.ObjectMeta{Name: "x"}), tc.belongs)
		if err != nil {
			t.Fatal(err)
		}
		if got := judge(intent, testOwner(), tc.make(tc.live), state{}); got != tc.want {
			t.Errorf("%s: got verdict %d, want %d", name, got, tc.want)
		}
	}
}

func TestWhatIsRetainedHasNoOwner(t *testing.T) {
	t.Parallel()
	for belongs, want := range map[belonging.Belonging]bool{
		belonging.Owned: true, belonging.Shared: true, belonging.Borrowed: true, belonging.Once: true, belonging.Retained: false,
	} {
		intent, err := Prepare(testScheme(t), testOwner(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, belongs)
		if err != nil {
			t.Fatal(err)
		}
		body, err := intent.body()
		if err != nil {
			t.Fatal(err)
		}
		metadata, _ := body["metadata"].(map[string]any)
		if _, has := metadata["ownerReferences"]; has != want {
			t.Errorf("belonging %d: metadata %v", belongs, metadata)
		}
	}
}

func TestARefusalInANamespaceThatGoesIsNoFailure(t *testing.T) {
	t.Parallel()
	going := &apierrors.StatusError{ErrStatus: metav1.Status{
		Reason: metav1.StatusReasonForbidden, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}},
	}}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"nothing is wrong":       {},
		"the namespace goes":     {err: fmt.Errorf("create x: %w", going)},
		"something is forbidden": {err: apierrors.NewForbidden(schema.GroupResource{}, "x", nil), want: true},
	} {
		if got := (outcome{failed: tc.err}).unlessEnding(); (got.failed != nil) != tc.want {
			t.Errorf("%s: got %v", name, got.failed)
		}
	}
}
