// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/belonging"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// arena is a Deployment, an owner that puts it right and somebody who does not give up.
type arena struct {
	Writer
	client.Reader
	t       *testing.T
	now     *clocktesting.FakePassiveClock
	applier *Applier
	live    *appsv1.Deployment
	version int
	applied []time.Duration // since the beginning
	refuses error
	going   bool // the owner is on its way out
	// word is what the owner's controller left on it, empty for an owner without one.
	word string
}

var beginning = time.Unix(1000, 0)

// stolen is the word of an owner that somebody took the mark of its controller from.
const stolen = "stolen"

func newArena(t *testing.T) *arena {
	t.Helper()
	a := &arena{t: t, now: clocktesting.NewFakePassiveClock(beginning)}
	a.applier = NewApplier(a, a, testScheme(t), recent.NewStore(a.now), a.now)
	return a
}

// Patch stores the object as the API server does, as far as it matters here.
func (a *arena) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	a.applied = append(a.applied, a.now.Since(beginning))
	if a.refuses != nil {
		return a.refuses
	}
	sent, err := patch.Data(obj)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(sent, obj); err != nil {
		return err
	}
	a.version++
	obj.SetUID("child")
	obj.SetResourceVersion(fmt.Sprint(a.version))
	a.live = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Name: "c", UID: "child", ResourceVersion: fmt.Sprint(a.version),
		Labels: obj.GetLabels(), Annotations: obj.GetAnnotations(), OwnerReferences: obj.GetOwnerReferences(),
	}}
	return nil
}

// Get tells who manages which field.
func (a *arena) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if a.live == nil {
		obj.SetUID(ownerUID) // the owner
		if a.going {
			obj.SetDeletionTimestamp(&metav1.Time{Time: beginning})
		}
		return nil
	}
	obj.SetUID(ownerUID)
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: names.FieldManager, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:a":{}}}}`)},
		{Manager: "kubectl-label", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:a":{}}}}`)},
	})
	return nil
}

// attack changes a label that is ours.
func (a *arena) attack() {
	a.version++
	a.live = a.live.DeepCopy()
	a.live.Labels["a"], a.live.ResourceVersion = "theirs", fmt.Sprint(a.version)
}

// pass is one look at the child, whose label is wanted to be so.
func (a *arena) pass(label string) Result {
	a.t.Helper()
	owner := testOwner()
	if a.word != "" {
		owner.OwnerReferences = []metav1.OwnerReference{{Name: "graph", UID: "graph", Controller: new(true)}}
		owner.Annotations = map[string]string{names.AnnotationAppliedHash: strings.TrimSuffix(a.word, stolen)}
	}
	desired := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{"a": label}}}
	intent, err := Prepare(a.applier.scheme, owner, desired, belonging.Owned)
	if err != nil {
		a.t.Fatal(err)
	}
	observed := Children{}
	if a.live != nil {
		observed[intent.Key] = a.live
	}
	return a.applier.All(a.t.Context(), owner, Plan{{intent}}, observed)
}

// fight has the child attacked and looked at every 100 ms for a while.
func (a *arena) fight(lasting time.Duration) Result {
	a.t.Helper()
	var last Result
	for end := a.now.Now().Add(lasting); a.now.Now().Before(end); a.now.SetTime(a.now.Now().Add(100 * time.Millisecond)) {
		if a.live.Labels["a"] != "theirs" {
			a.attack()
		}
		last = a.pass("ours")
	}
	return last
}

func TestAFightIsSlowedDownToSixCorrectionsAMinute(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	a.pass("ours")
	a.applied = nil
	result := a.fight(5 * time.Minute)
	if len(a.applied) < 3 || a.applied[2] > time.Second {
		t.Errorf("the first corrections are not made at once: %v", a.applied)
	}
	if n := a.most(); n > 6 {
		t.Errorf("%d corrections in a minute: %v", n, a.applied)
	}
	want := map[string]string{"Deployment c": "kubectl-label keeps changing metadata.labels.a, which is set here"}
	if diff := cmp.Diff(want, result.Contested); diff != "" {
		t.Errorf("contested (-want +got):\n%s", diff)
	}
	if result.Wake <= 0 || result.Wake > correctionSpacing {
		t.Errorf("the next look is after %s", result.Wake)
	}
}

func TestAChangeOfTheSpecDoesNotWaitForAFight(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	a.pass("ours")
	a.fight(10 * time.Second)
	a.attack()
	before := len(a.applied)
	if result := a.pass("another"); len(a.applied) != before+1 || len(result.Contested) > 0 {
		t.Errorf("%d requests, contested %v", len(a.applied)-before, result.Contested)
	}
}

// most is how often the child was written in the busiest minute.
func (a *arena) most() int {
	most := 0
	for i, from := range a.applied {
		within := 0
		for _, at := range a.applied[i:] {
			if at-from < time.Minute {
				within++
			}
		}
		most = max(most, within)
	}
	return most
}

// TestContentThatChangesToAndFroIsSlowedDown is about a child whose owner is fought over: what is wanted of it is right and wrong in
// turn, and the owner's controller wants the same all the time.
func TestContentThatChangesToAndFroIsSlowedDown(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	a.word = "the same"
	a.pass("ours")
	a.now.SetTime(a.now.Now().Add(2 * fightWindow)) // what was long ago does not help
	a.pass("ours")
	a.applied = nil
	var result Result
	for i := range 3000 {
		a.now.SetTime(a.now.Now().Add(100 * time.Millisecond))
		a.word = []string{stolen, "the same"}[i%2] // whoever changes the owner may take its hash as well
		result = a.pass([]string{"theirs", "ours"}[i%2])
		if i == 2 && len(a.applied) != 3 {
			t.Errorf("%d of the first three changes were made at once", len(a.applied))
		}
	}
	if n := a.most(); n > 6 {
		t.Errorf("%d writes in a minute: %v", n, a.applied)
	}
	if diff := cmp.Diff(map[string]string{"Deployment c": wavering}, result.Contested); diff != "" {
		t.Errorf("contested (-want +got):\n%s", diff)
	}
	a.now.SetTime(a.now.Now().Add(correctionSpacing))
	if a.pass("ours"); a.live.Labels["a"] != "ours" {
		t.Error("what was wanted last is not there")
	}
	a.now.SetTime(a.now.Now().Add(fightWindow))
	if result = a.pass("ours"); len(result.Contested) > 0 {
		t.Errorf("a minute later: contested %v", result.Contested)
	}
}

func TestAHesitantOwnerIsNoFight(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	a.word = "the same"
	a.pass("one")
	a.applied = nil
	for i := range 20 {
		if result := a.pass([]string{"two", "one"}[i%2]); len(a.applied) != i+1 || len(result.Contested) > 0 {
			t.Fatalf("change %d: %d writes, contested %v", i, len(a.applied), result.Contested)
		}
		a.now.SetTime(a.now.Now().Add(correctionSpacing)) // as often as a HorizontalPodAutoscaler looks
	}
}

// TestWhatAUserWantsIsNeverHeld has somebody change a spec to and fro, as one does who looks for what works: that of the owner
// itself, or that of the graph which made the owner.
func TestWhatAUserWantsIsNeverHeld(t *testing.T) {
	t.Parallel()
	for name, word := range map[string]func(label string) string{
		"of an owner":                 func(string) string { return "" },
		"of what made the owner":      func(label string) string { return "for " + label },
		"of an owner that was orphan": func(label string) string { return map[string]string{"one": "for one"}[label] },
	} {
		a := newArena(t)
		for i := range 20 {
			label := []string{"one", "two"}[i%2]
			a.word = word(label)
			if result := a.pass(label); len(a.applied) != i+1 || len(result.Contested) > 0 {
				t.Fatalf("%s, change %d: %d writes, contested %v", name, i, len(a.applied), result.Contested)
			}
			a.now.SetTime(a.now.Now().Add(100 * time.Millisecond))
		}
		a.attack()
		if a.pass("two"); a.live.Labels["a"] != "two" {
			t.Errorf("%s: the first attack after many changes is not undone at once", name)
		}
	}
}

// TestAUserEndsAFightOverAnOwner changes what is wanted of an owner while it is fought over.
func TestAUserEndsAFightOverAnOwner(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	a.word = "first"
	a.pass("ours")
	for i := range 10 {
		a.pass([]string{"theirs", "ours"}[i%2])
	}
	if a.live.Labels["a"] != "theirs" {
		t.Fatal("the fight was not slowed down")
	}
	a.word = "second"
	if result := a.pass("ours"); a.live.Labels["a"] != "ours" || len(result.Contested) > 0 {
		t.Errorf("the label is %q, contested %v", a.live.Labels["a"], result.Contested)
	}
}

func TestNewContentIsNotHeldByWhatWasCounted(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	a.pass("0")
	for i := range 10 {
		before := len(a.applied)
		if a.pass(fmt.Sprint(i + 1)); len(a.applied) != before+1 {
			t.Fatalf("change %d of the spec is held", i)
		}
	}
	a.attack()
	before := len(a.applied)
	if a.pass("10"); len(a.applied) != before+1 {
		t.Error("the first attack after many changes of the spec is not undone at once")
	}
}

func TestAFightIsOverAfterAMinuteOfPeace(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	a.pass("ours")
	a.fight(20 * time.Second)
	a.now.SetTime(a.now.Now().Add(correctionSpacing))
	if a.pass("ours"); a.live.Labels["a"] != "ours" {
		t.Fatal("the last attack was not undone")
	}
	result := a.pass("ours")
	if len(result.Contested) != 1 || result.Wake <= 0 || result.Wake > fightWindow {
		t.Errorf("right after it: contested %v, next look after %s", result.Contested, result.Wake)
	}
	a.now.SetTime(a.now.Now().Add(result.Wake))
	if result = a.pass("ours"); len(result.Contested) > 0 || result.Wake != 0 {
		t.Errorf("a minute later: contested %v, next look after %s", result.Contested, result.Wake)
	}
	if n := len(a.applier.brake.fights); n > 0 {
		t.Errorf("%d fights are remembered", n)
	}
	a.attack()
	before := len(a.applied)
	if a.pass("ours"); len(a.applied) != before+1 {
		t.Error("the next attack is not undone at once")
	}
}

func TestWhatIsTakenAwayAgainAndAgainIsMadeAgainNowAndThen(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	a.pass("ours")
	a.applied = nil
	var result Result
	for range 600 {
		a.live = nil
		a.now.SetTime(a.now.Now().Add(recentTrust)) // until then the answer is believed
		result = a.pass("ours")
	}
	if perMinute := float64(len(a.applied)) / (600 * recentTrust.Minutes()); perMinute > 6 {
		t.Errorf("it was made %.1f times a minute", perMinute)
	}
	if diff := cmp.Diff(map[string]string{"Deployment c": "somebody keeps deleting it, or taking its labels"}, result.Contested); diff != "" {
		t.Errorf("contested (-want +got):\n%s", diff)
	}
}

// recentTrust is how long recent believes in an object that the cache does not show.
const recentTrust = 5 * time.Second

// TestWhatIsNotWrittenIsNoFight has an owner that goes: its child is not made again, however often somebody looks.
func TestWhatIsNotWrittenIsNoFight(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	a.pass("ours")
	a.live, a.going, a.applied = nil, true, nil
	for range 10 {
		a.now.SetTime(a.now.Now().Add(recentTrust))
		if result := a.pass("ours"); len(a.applied) > 0 || len(result.Contested) > 0 {
			t.Fatalf("%d writes, contested %v", len(a.applied), result.Contested)
		}
	}
}

func TestWhatWasRefusedIsNoFight(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	a.pass("ours")
	a.refuses = errors.New("no")
	result := a.fight(10 * time.Second)
	if len(result.Contested) > 0 || len(result.Failures) != 1 {
		t.Errorf("contested %v, failures %v", result.Contested, result.Failures)
	}
}

func TestFightsAreForgottenWithTheirOwnerAndBySweeping(t *testing.T) {
	t.Parallel()
	b := newBrake()
	key := func(name string) recent.Key { return recent.Key{NamespacedName: types.NamespacedName{Name: name}} }
	wrote := func(name, owner string, at time.Time) {
		b.wrote(key(name), change{owner: types.UID(owner), before: "h", hash: "h"}, at)
	}
	wrote("a", "one", beginning)
	wrote("b", "two", beginning)
	b.dropOwner("one")
	if _, known := b.fights[key("a")]; known || len(b.fights) != 1 {
		t.Errorf("got %v", b.fights)
	}
	wrote("c", "three", beginning.Add(2*fightWindow))
	if _, known := b.fights[key("c")]; !known || len(b.fights) != 1 {
		t.Errorf("got %v", b.fights)
	}
	for range 100 {
		wrote("c", "three", beginning.Add(2*fightWindow))
	}
	wrote("c", "three", beginning.Add(3*fightWindow-1))
	wrote("c", "three", beginning.Add(3*fightWindow))
	if n := len(b.fights[key("c")].writes); n != 2 {
		t.Errorf("%d writes are remembered", n)
	}
}

func TestWhoFightsIsToldByTheFieldsThatBothSet(t *testing.T) {
	t.Parallel()
	intent := map[string]any{"spec": map[string]any{
		"replicas": int64(1),
		"template": map[string]any{"spec": map[string]any{"containers": []any{
			map[string]any{"name": "main", "image": "i", "ports": []any{map[string]any{"containerPort": int64(80), "name": "http"}}},
		}}},
	}}
	at := func(minute int) *metav1.Time {
		return &metav1.Time{Time: beginning.Add(time.Duration(minute) * time.Minute)}
	}
	entry := func(manager, fields string, minute int) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields), Time: at(minute)}
	}
	const image = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:image":{}}}}}}}`
	scaled := entry("kube-controller-manager", `{"f:spec":{"f:replicas":{}}}`, 1)
	scaled.Subresource = "scale"
	status := entry("kubelet", `{"f:spec":{"f:replicas":{}}}`, 9)
	status.Subresource = "status"
	for name, tc := range map[string]struct {
		managed        []metav1.ManagedFieldsEntry
		manager, field string
	}{
		"a member":            {[]metav1.ManagedFieldsEntry{entry("a", `{"f:spec":{"f:replicas":{}}}`, 1)}, "a", "spec.replicas"},
		"an autoscaler":       {[]metav1.ManagedFieldsEntry{scaled}, "kube-controller-manager", "spec.replicas"},
		"a member of a list":  {[]metav1.ManagedFieldsEntry{entry("b", image, 1)}, "b", "spec.template.spec.containers[main].image"},
		"the last to come":    {[]metav1.ManagedFieldsEntry{entry("c", `{"f:spec":{"f:other":{}}}`, 2), entry("d", `{"f:data":{}}`, 1)}, "c", ""},
		"the field over time": {[]metav1.ManagedFieldsEntry{entry("c", `{"f:spec":{"f:other":{}}}`, 2), entry("b", image, 1)}, "b", "spec.template.spec.containers[main].image"},
		"nobody":              {[]metav1.ManagedFieldsEntry{status, entry(names.FieldManager, image, 1)}, somebody, ""},
		"a key with more members": {
			[]metav1.ManagedFieldsEntry{entry("e", `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{"f:name":{}}}}}}}}}`, 1)},
			"e", "spec.template.spec.containers[main].ports[80 TCP].name",
		},
	} {
		if manager, field := rival(tc.managed, intent); manager != tc.manager || field != tc.field {
			t.Errorf("%s: got %q, %q, want %q, %q", name, manager, field, tc.manager, tc.field)
		}
	}
}

func TestWhatSeveralOwnersShareIsNotFoughtOver(t *testing.T) {
	t.Parallel()
	had := state{uid: "u", hash: "h"}
	for belongs, want := range map[belonging.Belonging]bool{belonging.Owned: true, belonging.Shared: false, belonging.Borrowed: false} {
		if got := isCorrection(Intent{Hash: "h", belongs: belongs}, had); got != want {
			t.Errorf("%v: %t", belongs, got)
		}
	}
}
