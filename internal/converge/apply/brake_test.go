// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
}

var beginning = time.Unix(1000, 0)

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
		obj.SetUID(ownerUID) // the owner, which is not going
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
	for i, from := range a.applied {
		within := 0
		for _, at := range a.applied[i:] {
			if at-from < time.Minute {
				within++
			}
		}
		if within > 6 {
			t.Errorf("%d corrections in the minute after %s: %v", within, from, a.applied)
		}
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
	b.corrected(key("a"), "one", "h", beginning)
	b.corrected(key("b"), "two", "h", beginning)
	b.dropOwner("one")
	if _, known := b.fights[key("a")]; known || len(b.fights) != 1 {
		t.Errorf("got %v", b.fights)
	}
	b.corrected(key("c"), "three", "h", beginning.Add(2*fightWindow))
	if _, known := b.fights[key("c")]; !known || len(b.fights) != 1 {
		t.Errorf("got %v", b.fights)
	}
	for range 100 {
		b.corrected(key("c"), "three", "h", beginning.Add(2*fightWindow))
	}
	b.corrected(key("c"), "three", "h", beginning.Add(3*fightWindow-1))
	b.corrected(key("c"), "three", "h", beginning.Add(3*fightWindow))
	if n := len(b.fights[key("c")].at); n != 2 {
		t.Errorf("%d corrections are remembered", n)
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
