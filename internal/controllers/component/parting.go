// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/statusio"
)

const (
	// patience is how long after its deletion a component waits for an etcd that does not answer. Keys that are left over
	// expire with the lease of whoever wrote them; a user who waits for a deletion does not know how long it takes.
	patience = 30 * time.Second

	// firstPause and lastPause bound the pauses between two questions to such an etcd.
	firstPause = time.Second
	lastPause  = 8 * time.Second
)

// parting is how far the cleanup of a component has come that is being deleted while etcd does not answer.
type parting struct {
	uid     types.UID
	tries   int
	again   time.Time // when etcd is asked again
	problem error     // how it failed last
	said    string    // reason of the last event
}

// isDue tells whether it is time to ask etcd: for the first time however late it is, and again while the component waits.
func (p parting) isDue(now, end time.Time) bool {
	return p.tries == 0 || (now.Before(end) && !now.Before(p.again))
}

// failed is the parting after one more question that was not answered.
func (p parting) failed(problem error, now time.Time) parting {
	pause := firstPause
	for range p.tries {
		pause = min(2*pause, lastPause)
	}
	p.tries, p.problem, p.again = p.tries+1, problem, now.Add(pause)
	return p
}

// pause is how long to wait before there is something to do, 0 once the component waits no more.
func (p parting) pause(now, end time.Time) time.Duration {
	return max(0, min(p.again.Sub(now), end.Sub(now)))
}

// news is what users have not heard yet: that the component waits, or that it went without its keys being deleted.
func (p parting) news(keys string, now, end time.Time) (statusio.Event, bool) {
	event := statusio.Event{
		Type: corev1.EventTypeWarning, Reason: conditions.CleanupFailed, Action: "Delete",
		Note: fmt.Sprintf("Keys below %s are not deleted yet: %v. The component waits for that until %s after its deletion", keys, p.problem, patience),
	}
	if !now.Before(end) {
		event.Reason = conditions.CleanupAbandoned
		event.Note = fmt.Sprintf("Keys below %s may be left over: %v. The component has waited for that for %s", keys, p.problem, patience)
	}
	return event, event.Reason != p.said
}

// partings remembers every parting that takes more than one pass. Its zero value is ready to use.
type partings struct {
	mu sync.Mutex
	by map[types.NamespacedName]parting
}

// of returns what is remembered of a component. One that was made again under the same name starts anew.
func (p *partings) of(c client.Object) parting {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.by[client.ObjectKeyFromObject(c)]
	if known.uid != c.GetUID() {
		return parting{uid: c.GetUID()}
	}
	return known
}

func (p *partings) put(c client.Object, next parting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == nil {
		p.by = map[types.NamespacedName]parting{}
	}
	p.by[client.ObjectKeyFromObject(c)] = next
}

// drop forgets a component that is gone.
func (p *partings) drop(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.by, name)
}
