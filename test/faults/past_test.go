// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// startInThePast lets a user act under one operator and starts the next one with a view of one kind from before: lists show the
// past, and news are held. Whatever it does about that, it must not change anything: the world was as it should.
func (b *bed) startInThePast(t *testing.T, action, resource string, r *Result) {
	t.Helper()
	ns, operator, first := b.beginRich(t)
	past := b.versionOf(t, ns, resource)
	want := b.act(t, ns, action, resource, first)
	operator.Stop()
	second := NewWire()
	release := second.Blind(Blindness{Resource: resource, Past: past})
	t.Cleanup(release)
	launch(t, ns, second)
	b.held(t, second, resource, r)
	release()
	hasHeard(t, second, resource)
	b.kept(t, want, b.settled(t, ns, action, second), second)
}

// kept compares what is there in the end, and who: nothing that was there before the operator started, and is wanted, may have
// been deleted. That it makes what was wanted in the past, and takes it away when it learns better, is no loss.
func (b *bed) kept(t *testing.T, want, got ending, wire *Wire) {
	t.Helper()
	diff := cmp.Diff(want.world, got.world) + cmp.Diff(want.identities, got.identities)
	if diff != "" {
		t.Errorf("(-as it should +as it is):\n%s\nwrites of the operator that saw the past: %v", diff, wire.Writes())
	}
}

// actUnseen starts an operator that sees the world as it is and, of one kind, nothing that comes after, which is the worst that
// streamed lists allow. What a user does then must end as if it had seen everything.
func (b *bed) actUnseen(t *testing.T, action string, blindness Blindness, r *Result) {
	t.Helper()
	want := b.actSeen(t, action, blindness.Resource)
	ns, operator, _ := b.beginRich(t)
	operator.Stop()
	second := NewWire()
	release := second.Blind(blindness)
	t.Cleanup(release)
	launch(t, ns, second)
	touch(t, ns, blindness.Resource)
	actions[action].do(t, ns)
	b.held(t, second, blindness.Resource, r)
	release()
	hasHeard(t, second, blindness.Resource)
	b.same(t, want, b.settled(t, ns, action, second), second)
}

// actSeen is how what a user does ends under an operator that sees everything.
func (b *bed) actSeen(t *testing.T, action, resource string) ending {
	t.Helper()
	return b.reference(t, action+" after a note on "+resource, func() ending {
		ns, _, wire := b.beginRich(t)
		return b.act(t, ns, action, resource, wire)
	})
}

// process is an operator that runs by itself, because whether lists are streamed is decided once in a process.
type process struct {
	streams   bool
	blindness Blindness
}

// startProcess lets a user act and starts an operator as a process with a view from before, or acts when it has started and sees
// nothing new any more.
func (b *bed) startProcess(t *testing.T, action string, p process, r *Result) {
	t.Helper()
	var want ending
	ns, operator, first := b.beginRich(t)
	if p.streams {
		want = b.actSeen(t, action, p.blindness.Resource)
	} else {
		p.blindness.Past = b.versionOf(t, ns, p.blindness.Resource)
		want = b.act(t, ns, action, p.blindness.Resource, first)
	}
	operator.Stop()
	second := NewWire()
	release := second.Blind(p.blindness)
	t.Cleanup(release)
	box := ourBox(t)
	box.env = []string{fmt.Sprintf("KUBE_FEATURE_WatchListClient=%t", p.streams)}
	launchBinary(t, ns, second, box)
	if p.streams {
		touch(t, ns, p.blindness.Resource)
		actions[action].do(t, ns)
	}
	b.held(t, second, p.blindness.Resource, r)
	release()
	hasHeard(t, second, p.blindness.Resource)
	got := b.settled(t, ns, action, second)
	if p.streams {
		b.same(t, want, got, second)
		return
	}
	b.kept(t, want, got, second)
}

func (b *bed) beginRich(t *testing.T) (string, subject, *Wire) {
	t.Helper()
	ns, wire := harness.Namespace(t), NewWire()
	t.Cleanup(func() { b.diary.Forget(ns) })
	harness.SimulateDeployments(t, ns)
	operator := launch(t, ns, wire)
	createRich(t, ns)
	b.rest(t, ns, wire)
	return ns, operator, wire
}

// act does what a user does and waits for its end.
func (b *bed) act(t *testing.T, ns, action, resource string, wire *Wire) ending {
	t.Helper()
	touch(t, ns, resource)
	actions[action].do(t, ns)
	return b.settled(t, ns, action, wire)
}

func (b *bed) settled(t *testing.T, ns, action string, wire *Wire) ending {
	t.Helper()
	if ended := actions[action].ended; ended != nil {
		ended(t, ns)
	}
	ready(t, ns)
	return ending{world: b.lastRest(t, ns, wire).Without(counters...), lives: b.lives(ns), identities: b.diary.Identities(ns)}
}

// held waits until an operator has done what it can with what it sees.
func (b *bed) held(t *testing.T, wire *Wire, resource string, r *Result) {
	t.Helper()
	began := time.Now() // what was quiet before it had something to do says nothing
	harness.Eventually(t, patience, "the operator has done what it can", func() (bool, string) {
		quiet := min(wire.QuietFor(), time.Since(began))
		return quiet > time.Second && wire.Deceived(resource) > 0, fmt.Sprint(wire.Deceived(resource))
	})
	r.Faults = wire.Deceived(resource)
}

func (b *bed) same(t *testing.T, want, got ending, wire *Wire) {
	t.Helper()
	if diff := want.differs(got); diff != "" {
		t.Errorf("(-as it should +as it is):\n%s\nwrites of the operator that saw the past: %v", diff, wire.Writes())
	}
}

// resources are the kinds whose past is shown, by their whole names.
var resources = map[string]schema.GroupVersionResource{
	graphs:            {Group: "nvidia.com", Version: "v1alpha1", Resource: graphs},
	components:        {Group: "nvidia.com", Version: "v1alpha1", Resource: components},
	adapters:          {Group: "nvidia.com", Version: "v1alpha1", Resource: adapters},
	"deployments":     {Group: "apps", Version: "v1", Resource: "deployments"},
	"services":        {Version: "v1", Resource: "services"},
	"serviceaccounts": {Version: "v1", Resource: "serviceaccounts"},
}

func api(t *testing.T) metadata.Interface {
	t.Helper()
	c, err := metadata.NewForConfig(harness.RESTConfig(t, localcluster.UserAdmin))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// versionOf is the version of the world of a kind now.
func (b *bed) versionOf(t *testing.T, ns, resource string) string {
	t.Helper()
	list, err := api(t).Resource(resources[resource]).Namespace(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list %s: %v", resource, err)
	}
	return list.ResourceVersion
}

// touch lays a note of somebody's on an object of a kind, so that there are always news which the operator does not see.
func touch(t *testing.T, ns, resource string) {
	t.Helper()
	patch := []byte(`{"metadata":{"annotations":{"example.com/note":"seen"}}}`)
	if err := harness.Client(t).Patch(t.Context(), written[resource](ns, "chat"), client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
}
