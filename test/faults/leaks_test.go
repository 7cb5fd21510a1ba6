// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// lifetimes is how often an operator lives in a full run, fewLifetimes in any.
const lifetimes, fewLifetimes = 20, 3

// ours are frames of what belongs to an operator and to nobody else. The caches of controller-runtime are not among them: it keeps
// goroutines for informers that were never filled, until the process ends.
var ours = regexp.MustCompile(`dynamo-operator/internal/(operator|controllers|converge)|sigs\.k8s\.io/controller-runtime/pkg/(manager|controller|source)`)

// TestNothingOfAnOperatorOutlivesIt starts and ends operators in the middle of their work. It runs beside no other test, whose
// operators would be taken for leaks.
func TestNothingOfAnOperatorOutlivesIt(t *testing.T) {
	b := theBed(t)
	times := fewLifetimes
	if *full {
		times = lifetimes
	}
	r := &Result{Goal: "L22", Scenario: fmt.Sprintf("%d operators one after another", times), Fault: "ended while at work"}
	if *binary != "" || !b.isWanted(t, *r) {
		return
	}
	b.record(t, r)
	ns := harness.Namespace(t)
	t.Cleanup(func() { b.diary.Forget(ns) })
	for i := range times {
		operator := launch(t, ns, NewWire())
		if one, ok := operator.(labelled); !ok || len(runningOf(one.label)) == 0 {
			t.Fatal("nothing that runs can be told to be the operator's")
		}
		create(t, builders.TwoComponents(ns, fmt.Sprintf("g%d", i)).Obj())
		if i%2 == 0 {
			operator.Stop()
		} else {
			operator.Kill()
		}
		r.Faults++
		harness.Eventually(t, patience, "nothing of the operator runs", func() (bool, string) {
			left := running(ours)
			return len(left) == 0, strings.Join(left, "\n\n")
		})
	}
}

// labelled is an operator whose goroutines can be told from those of others, because they inherit a label.
type labelled struct {
	*harness.Operator
	t     *testing.T
	label string
}

func startLabelled(t *testing.T, ns string, opts ...harness.OperatorOption) labelled {
	t.Helper()
	label := fmt.Sprintf("%s-%d", ns, boxes.Add(1))
	var operator *harness.Operator
	pprof.Do(t.Context(), pprof.Labels("operator", label), func(context.Context) { operator = harness.StartOperator(t, ns, opts...) })
	return labelled{Operator: operator, t: t, label: label}
}

// leavesNothing ends an operator and waits until nothing of it runs.
func leavesNothing(operator subject) {
	one, ok := operator.(labelled)
	if !ok {
		return // a process has its end
	}
	one.t.Helper()
	one.Stop()
	harness.Eventually(one.t, patience, "nothing of the operator runs", func() (bool, string) {
		left := runningOf(one.label)
		return len(left) == 0, strings.Join(left, "\n\n")
	})
}

// runningOf are the stacks of an operator's goroutines that are its own work.
func runningOf(label string) []string {
	var all strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		return []string{err.Error()}
	}
	var found []string
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(stack, `"operator":"`+label+`"`) && ours.MatchString(stack) {
			found = append(found, stack)
		}
	}
	return found
}

// running are the stacks of all goroutines with a frame that matches.
func running(frame *regexp.Regexp) []string {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var found []string
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if frame.MatchString(stack) {
			found = append(found, stack)
		}
	}
	return found
}
