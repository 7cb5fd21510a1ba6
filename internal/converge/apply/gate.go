// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/belonging"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// verdict is what has to be done about one intent.
type verdict int

const (
	nothing    verdict = iota // the child is as wanted
	create                    // no child is known
	update                    // ours, but different
	goneFirst                 // ours or a predecessor's, but on its way out: its deletion wakes us
	notOurs                   // the name belongs to somebody else
	unverified                // same hash, but the fields have to be compared
	adopt                     // made once by us, and without an owner now
)

// judge decides about one intent from metadata alone, which is all it takes in the steady state.
func judge(intent Intent, owner client.Object, live client.Object, seen state) verdict {
	switch {
	case live == nil:
		return create
	case intent.belongs == belonging.Once && wasOrphaned(intent, live):
		return adopt
	case intent.belongs.IsMadeOnce(), intent.belongs == belonging.Borrowed && !madeByOperator(live):
		return nothing
	case isLeftover(intent, owner, live):
		return goneFirst
	case seen.stranger:
		return create // the cache may show it as it was while a first apply had touched it; the API server tells
	case !mayWrite(intent, owner, live):
		return notOurs
	case live.GetDeletionTimestamp() != nil:
		return goneFirst
	case isBehind(intent, owner, live):
		return update
	}
	return judgeOwn(intent, live, seen)
}

// judgeOwn looks at a child that has the hash of its intent: somebody may have changed it all the same.
func judgeOwn(intent Intent, live client.Object, seen state) verdict {
	switch {
	case !seen.sameObject(live, intent.Hash):
		return unverified
	case seen.version == live.GetResourceVersion():
		return nothing
	case live.GetGeneration() == 0 || live.GetGeneration() != seen.generation:
		// A status write moves the version but not the generation. Metadata edits move no generation, so metadata is
		// looked at every time; kinds without a generation are compared in full.
		return unverified
	case !metadataContained(intent, live):
		return update
	}
	return nothing
}

// isBehind tells whether a child is not as its owner last wanted it, or does not know whose it is: what is for several owners is
// controlled by none.
func isBehind(intent Intent, owner, live client.Object) bool {
	return live.GetAnnotations()[names.AnnotationAppliedHash] != intent.Hash || !refersTo(live, owner.GetUID()) ||
		intent.belongs.IsShared() && metav1.GetControllerOf(live) != nil
}

// mayWrite tells whether an object is the owner's to change: its own, or one that lost its owner and carries our marks.
// What carries no mark of ours was made by somebody else, whoever controls it.
func mayWrite(intent Intent, owner, live client.Object) bool {
	controller := metav1.GetControllerOf(live)
	switch {
	case controller == nil:
		return madeByOperator(live)
	case intent.belongs.IsShared():
		return givenToOne(intent, live)
	}
	return controller.UID == owner.GetUID()
}

// givenToOne recognises what is for several owners and was given by the reference to the one that came first. Its labels tell
// that it is what we would make, and not something of the same name. The mark of the reference does not count: it may be gone
// while the owner is still there, where taking over was interrupted, and nobody else gives such a thing an owner of our kinds.
func givenToOne(intent Intent, live client.Object) bool {
	controller := metav1.GetControllerOf(live)
	if controller == nil {
		return false
	}
	group, _, _ := strings.Cut(controller.APIVersion, "/")
	ours := maps.Clone(intent.labels)
	delete(ours, names.LabelApplied)
	return group == v1alpha1.GroupVersion.Group && stringsContained(ours, live.GetLabels())
}

// wasOrphaned recognises a child of ours that was left without an owner. A claim was let go on purpose, and its data are
// not tied to the life of an owner again.
func wasOrphaned(intent Intent, live client.Object) bool {
	return intent.Key.Kind != claimKind && len(live.GetOwnerReferences()) == 0 && live.GetDeletionTimestamp() == nil && madeByOperator(live)
}

// isLeftover recognises a child of an owner of the same name that was deleted. Its deletion wakes us.
func isLeftover(intent Intent, owner, live client.Object) bool {
	controller := metav1.GetControllerOf(live)
	return controller != nil && controller.UID != owner.GetUID() && controller.Name == owner.GetName() &&
		controller.Kind == intent.ownerKind
}

// refersTo tells whether an object names the owner as one of its owners.
func refersTo(live client.Object, owner types.UID) bool {
	return slices.ContainsFunc(live.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == owner })
}

// verify compares every field of the intent with the live object.
func verify(intent Intent, live client.Object) (bool, error) {
	want, err := intent.body()
	if err != nil {
		return false, err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return false, err
	}
	// Objects from a typed cache do not carry their kind. The map may be the cache's own, so it is copied.
	fields = maps.Clone(fields)
	fields["apiVersion"], fields["kind"] = want["apiVersion"], want["kind"]
	return contained(want, fields), nil
}

func metadataContained(intent Intent, live client.Object) bool {
	return stringsContained(intent.labels, live.GetLabels()) && stringsContained(intent.annotations, live.GetAnnotations()) &&
		(intent.belongs.IsShared() || metav1.GetControllerOf(live) != nil)
}

func stringsContained(want, got map[string]string) bool {
	for key, value := range want {
		if got[key] != value {
			return false
		}
	}
	return true
}

// state is a child as it was when all its fields were last known to be as wanted.
type state struct {
	uid        types.UID
	hash       string
	version    string
	generation int64

	stranger bool      // the name is taken by what is not ours, and must not be touched
	borrowed time.Time // when what somebody else made was last found, to be used as it is
}

func (s state) sameObject(live client.Object, hash string) bool {
	return s.uid == live.GetUID() && s.hash == hash
}

// memory holds the state of every child by owner, so that all of it goes when the owner goes.
type memory struct {
	mu sync.Mutex
	// byOwner has a list for each owner: most have two or three children, for which a map takes several times the memory.
	byOwner map[types.UID][]remembered
	// since is when an owner's passes began to fail.
	since map[types.UID]time.Time
}

// remembered is one child.
type remembered struct {
	recent.Key
	state
}

func newMemory() *memory {
	return &memory{byOwner: map[types.UID][]remembered{}, since: map[types.UID]time.Time{}}
}

// failing records how a pass went and returns how long passes have been failing.
func (m *memory) failing(owner types.UID, failed bool, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !failed {
		delete(m.since, owner)
		return 0
	}
	if _, known := m.since[owner]; !known {
		m.since[owner] = now
	}
	return now.Sub(m.since[owner])
}

func (m *memory) get(owner types.UID, k recent.Key) state {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.find(owner, k); i >= 0 {
		return m.byOwner[owner][i].state
	}
	return state{}
}

func (m *memory) find(owner types.UID, k recent.Key) int {
	return slices.IndexFunc(m.byOwner[owner], func(r remembered) bool { return r.Key == k })
}

// put remembers a child all of whose fields are as wanted.
func (m *memory) put(owner types.UID, k recent.Key, hash string, live client.Object) {
	m.set(owner, k, state{
		uid: live.GetUID(), hash: hash, version: live.GetResourceVersion(), generation: live.GetGeneration(),
	})
}

func (m *memory) set(owner types.UID, k recent.Key, s state) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.find(owner, k); i >= 0 {
		m.byOwner[owner][i].state = s
		return
	}
	m.byOwner[owner] = append(m.byOwner[owner], remembered{k, s})
}

func (m *memory) drop(owner types.UID, k recent.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.find(owner, k); i >= 0 {
		m.byOwner[owner] = slices.Delete(m.byOwner[owner], i, i+1)
	}
}

func (m *memory) dropOwner(owner types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byOwner, owner)
	delete(m.since, owner)
}
