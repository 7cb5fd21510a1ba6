// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	// crowdPatience bounds the wait for a thousand graphs.
	crowdPatience = 15 * time.Minute
	// fewGraphs is how large a crowd is in any run, and restarts and fewRestarts how often its operator starts anew.
	fewGraphs             = 20
	restarts, fewRestarts = 5, 1
	// startsIn is how soon an operator has seen a whole crowd.
	startsIn = 5 * time.Second
	// looksEvery is how often an operator of one namespace looks which APIs there are, because it may not watch their definitions.
	looksEvery = 30 * time.Second
	// watchesEvery is how soon a watch that is over is begun again: those of informers last for five minutes at least.
	watchesEvery = 5 * time.Minute
	// calmFor is how long nothing must happen in a crowd at rest in any run.
	calmFor = 5 * time.Second
)

// TestACrowdCostsNothingAtRestAndGoesWhole makes many graphs, leaves them alone, starts their operator anew and deletes them all
// at once. It runs beside no other test, because it counts.
func TestACrowdCostsNothingAtRestAndGoesWhole(t *testing.T) {
	b := theBed(t)
	graphs, calm, times := fewGraphs, calmFor, fewRestarts
	if *full {
		graphs, calm, times = *crowd, *idle, restarts
	}
	size := fmt.Sprintf("%d graphs", graphs)
	rest := &Result{Goal: "L10", Scenario: size + " at rest", Fault: "nothing for " + calm.String(), Calm: true, Graphs: graphs, Lasting: calm}
	starts := &Result{Goal: "L9", Scenario: size + " at rest", Fault: "operator started anew", Graphs: graphs}
	wantsRest := !takesLong() && b.isWanted(t, *rest)
	storms := b.stormsOf(t, graphs)
	if !wantsRest && !b.isWanted(t, *starts) && len(storms) == 0 {
		return
	}
	ns, wire := harness.Namespace(t), NewWire()
	t.Cleanup(func() { b.diary.Forget(ns) })
	harness.SimulateDeployments(t, ns)
	operator := launch(t, ns, wire)
	b.makeCrowd(t, ns, graphs)
	b.rest(t, ns, wire)
	if wantsRest {
		t.Run("at rest", func(t *testing.T) {
			b.record(t, rest)
			b.stayCalm(t, ns, wire, calm)
		})
	}
	t.Run("started anew", func(t *testing.T) {
		b.record(t, starts)
		for range times {
			operator.Stop()
			took := b.startAnew(t, ns, graphs)
			starts.Faults, starts.Seconds = starts.Faults+1, max(starts.Seconds, took.Seconds())
		}
	})
	wire = NewWire()
	launch(t, ns, wire)
	for i, storm := range storms {
		t.Run("deleted at once, "+storm.At, func(t *testing.T) {
			b.record(t, storm)
			if i > 0 {
				b.makeCrowd(t, ns, graphs)
			}
			b.rest(t, ns, wire)
			b.vanish(t, ns, wire, storm)
		})
	}
}

// startAnew starts an operator in a crowd that is as it should be, checks that it has nothing to write after it has looked at all of it, and
// ends it. It returns how long the operator took to start.
func (b *bed) startAnew(t *testing.T, ns string, graphs int) time.Duration {
	t.Helper()
	before, _, _ := b.diary.Of(ns)
	wire, seen := NewWire(), map[string]float64{}
	for _, kind := range lookedAt {
		seen[kind] = harness.Passes(t, kind)
	}
	began := time.Now()
	operator := launch(t, ns, wire)
	took := time.Since(began)
	if took > startsIn {
		t.Errorf("it took %s to start", took)
	}
	harness.Eventually(t, crowdPatience, "the operator has looked at everything", func() (bool, string) {
		for _, kind := range lookedAt {
			if n := harness.Passes(t, kind) - seen[kind]; n < float64(graphs) && *binary == "" {
				return false, fmt.Sprintf("%.0f passes of %s", n, kind)
			}
		}
		return true, ""
	})
	b.lastRest(t, ns, wire)
	operator.Stop()
	after, _, _ := b.diary.Of(ns)
	if diff := cmp.Diff(before, after); diff != "" || len(wire.Writes()) > 0 {
		t.Errorf("it wrote %v (-before +after):\n%s", wire.Writes(), diff)
	}
	return took
}

// lookedAt are the kinds of which an operator looks at each object when it has started, of a crowd one a graph.
var lookedAt = []string{"DynamoGraphDeployment", "DynamoComponentDeployment"}

// stormsOf are the rounds of deletions that are to be run.
func (b *bed) stormsOf(t *testing.T, graphs int) []*Result {
	t.Helper()
	var storms []*Result
	for round := range rounds() {
		storm := &Result{
			Goal: "L21", Scenario: fmt.Sprintf("%d graphs", graphs), Fault: allDeleted, At: fmt.Sprint("round ", round+1), Graphs: graphs,
		}
		if b.isWanted(t, *storm) {
			storms = append(storms, storm)
		}
	}
	return storms
}

// rounds is how often everything is deleted at once.
func rounds() int {
	if *full {
		return 3
	}
	return 1
}

// makeCrowd makes graphs of one service each.
func (b *bed) makeCrowd(t *testing.T, ns string, graphs int) {
	t.Helper()
	for i := range graphs {
		create(t, builders.Graph(ns, fmt.Sprintf("g%d", i)).Service("Frontend", v1alpha1.ComponentTypeFrontend).Obj())
	}
	allReady(t, ns, graphs)
}

// stayCalm checks that nothing moves and nobody asks for anything for a while.
func (b *bed) stayCalm(t *testing.T, ns string, wire *Wire, lasting time.Duration) {
	t.Helper()
	wire.Arm(Fault{})
	began := time.Now()
	harness.Eventually(t, lasting+patience, "the end of a calm", func() (bool, string) { return time.Since(began) > lasting, "" })
	_, _, moved := b.diary.Of(ns)
	if moved.After(began) || wire.QuietFor() < lasting {
		t.Errorf("something moved %s ago, and the operator asked for something %s ago: %v", time.Since(moved), wire.QuietFor(), wire.Writes())
	}
	for what, n := range wire.Looks() {
		if most := int(lasting/looksEvery) + 1; n > most {
			t.Errorf("the operator looked %d times whether there is %s, want %d times at most", n, what, most)
		}
	}
	for what, n := range wire.Watches() {
		if most := int(lasting/watchesEvery) + 1; n > most {
			t.Errorf("the operator began %d times to watch %s, want %d times at most", n, what, most)
		}
	}
}

// vanish deletes all graphs and waits until nothing of them is left. The operator writes nothing for that but statuses: what goes
// needs no finalizer here, and is collected.
func (b *bed) vanish(t *testing.T, ns string, wire *Wire, r *Result) {
	t.Helper()
	wire.Arm(Fault{})
	r.Seconds = b.deleteAll(t, ns).Seconds()
	r.Faults = 1
	b.nothingOfOurs(t, ns, b.rest(t, ns, wire))
	for object, n := range wire.Busiest(crowdPatience) {
		if n > 1 || !strings.HasSuffix(object, "/status") {
			t.Errorf("%s was written %d times while it went", object, n)
		}
	}
}

// deleteAll deletes all graphs at once, waits until nothing of them is left, and returns how long that took.
func (b *bed) deleteAll(t *testing.T, ns string) time.Duration {
	t.Helper()
	began := time.Now()
	err := harness.Client(t).DeleteAllOf(t.Context(), &v1alpha1.DynamoGraphDeployment{}, client.InNamespace(ns),
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, crowdPatience, "nothing of the graphs is left", func() (bool, string) {
		versions, _, _ := b.diary.Of(ns)
		for key := range versions {
			if resource, _ := split(key); resource == graphs || resource == components || resource == "deployments" || resource == "services" {
				return false, fmt.Sprintf("%s and %d others", key, len(versions))
			}
		}
		return true, ""
	})
	return time.Since(began)
}

// TestACrowdThatIsFoundInEtcdGoesWhole deletes graphs whose components have a finalizer each, because there are keys of theirs in an etcd.
func TestACrowdThatIsFoundInEtcdGoesWhole(t *testing.T) {
	t.Parallel()
	b := theBed(t)
	graphs := fewGraphs
	if *full {
		graphs = *crowd
	}
	r := &Result{Goal: "L21", Scenario: fmt.Sprintf("%d graphs with keys in etcd", graphs), Fault: allDeleted, Graphs: graphs}
	if !b.isWanted(t, *r) {
		return
	}
	b.record(t, r)
	ns, wire := harness.Namespace(t), NewWire()
	t.Cleanup(func() { b.diary.Forget(ns) })
	harness.SimulateDeployments(t, ns)
	etcd := keys{etcd: harness.StartEtcd(t), namespace: ns}
	launch(t, ns, wire, etcd.flags()...)
	b.makeCrowd(t, ns, graphs)
	for i := range graphs {
		graph := fmt.Sprintf("g%d", i)
		etcd.put(names.DiscoveryKeys(ns+"-"+graph, "Frontend") + "generate:1")
	}
	b.rest(t, ns, wire)
	wire.Arm(Fault{})
	r.Seconds = b.deleteAll(t, ns).Seconds()
	r.Faults = 1
	b.nothingOfOurs(t, ns, b.rest(t, ns, wire))
	if !etcd.forgot(ns) {
		t.Errorf("keys are left: %v", etcd.etcd.Keys())
	}
	finalized := 0
	for object, n := range wire.Busiest(crowdPatience) {
		isComponent := strings.HasPrefix(object, components+"/") && !strings.HasSuffix(object, "/status")
		if isComponent {
			finalized++
		}
		if n > 1 || !isComponent && !strings.HasSuffix(object, "/status") {
			t.Errorf("%s was written %d times while it went", object, n)
		}
	}
	if finalized != graphs {
		t.Errorf("%d components were freed, want all %d", finalized, graphs)
	}
}

// TestANamespaceGoesWithItsGraphs deletes a namespace under an operator that works in it.
func TestANamespaceGoesWithItsGraphs(t *testing.T) {
	t.Parallel()
	b := theBed(t)
	graphs := fewGraphs
	if *full {
		graphs = *crowd / 5
	}
	for round := range rounds() {
		r := &Result{
			Goal: "L21", Scenario: fmt.Sprintf("%d graphs", graphs), Fault: namespaceDeleted, At: fmt.Sprint("round ", round+1), Graphs: graphs,
		}
		if b.isWanted(t, *r) {
			t.Run(r.At, func(t *testing.T) {
				b.record(t, r)
				b.endNamespace(t, graphs, r)
			})
		}
	}
}

// endNamespace deletes a namespace with graphs in it.
func (b *bed) endNamespace(t *testing.T, graphs int, r *Result) {
	t.Helper()
	ns, wire := b.begin(t)
	harness.LosesRights(t, ns)
	b.makeCrowd(t, ns, graphs)
	b.rest(t, ns, wire)
	wire.Arm(Fault{})
	began := time.Now()
	if err := harness.Client(t).Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
		t.Fatal(err)
	}
	r.Faults = 1
	harness.Eventually(t, crowdPatience, "the namespace is gone", func() (bool, string) {
		namespace := &corev1.Namespace{}
		err := harness.Client(t).Get(t.Context(), client.ObjectKey{Name: ns}, namespace)
		return client.IgnoreNotFound(err) == nil && err != nil, fmt.Sprint(namespace.Status.Conditions)
	})
	r.Seconds = time.Since(began).Seconds()
	harness.Eventually(t, restTimeout, "the operator asks for nothing any more", func() (bool, string) {
		return wire.QuietFor() > stillFor, fmt.Sprint("it did ", wire.QuietFor(), " ago: ", wire.Writes())
	})
	// What goes before its owner is made again until the owner goes, or refused because the namespace does.
	for object, n := range wire.Busiest(time.Minute) {
		if n > mostAMinute {
			t.Errorf("%s was written %d times in a minute", object, n)
		}
	}
}
