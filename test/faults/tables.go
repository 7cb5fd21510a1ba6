// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// goals are what the numbers stand for, and how many runs and faults a full run has at least.
var goals = []struct {
	number, what string
	runs, faults int
}{
	{"L1", "crash after a write", 300, 300},
	{"L2", "request or response of a write lost", 600, 600},
	{"L3", "past or no view of a kind", 96, 96},
	{"L4", "transitions that were never observed", 60, 60},
	{"L5", "errors of the API server", 200, 200},
	{"L6", "faults at random", 1, 1},
	{"L7", "leader killed in a rollout", 1, 10},
	{"L8", "leader told to end in a rollout", 1, 10},
	{"L9", "operator started anew in a crowd", 1, 5},
	{"L10", "nothing at all", 1, 0},
	{"L13", "API server killed, etcd compacted", 10, 10},
	{"L14", "mistakes without webhooks, replicas restarted", 3, 3},
	{"L16", "antagonists", 16, 7 * 20},
	{"L17", "marks, owners and finalizers stripped", 6, 6 * 30},
	{"L20", "noisy neighbour", 1, 100},
	{"L21", "everything deleted at once", 6, 6},
	{"L22", "leaks", 1, 20},
}

// Shortfalls are the goals of which a full run has less than it should.
func Shortfalls(rows []Summary) []string {
	var short []string
	for _, g := range goals {
		sum := fold(rows, func(r Summary) bool { return r.Goal == g.number })
		if sum.Runs < g.runs || sum.Faults < g.faults {
			short = append(short, fmt.Sprintf("%s (%s) has %d runs with %d faults, want %d with %d at least",
				g.number, g.what, sum.Runs, sum.Faults, g.runs, g.faults))
		}
	}
	return short
}

// soaks are the smallest of which rows are kept. The namespace that is deleted has a fifth of the crowd in it.
var soaks = []struct {
	goal, fault string // an empty fault stands for all of the goal
	graphs      int
	lasting     time.Duration
}{
	{goal: "L6", lasting: LeakAfter},
	{goal: "L9", graphs: 1000},
	{goal: "L10", graphs: 1000},
	{goal: "L14", lasting: 5 * time.Minute},
	{goal: "L16", graphs: 20, lasting: 5 * time.Minute},
	{goal: "L20", graphs: 200, lasting: 5 * time.Minute},
	{goal: "L21", fault: allDeleted, graphs: 1000},
	{goal: "L21", fault: namespaceDeleted, graphs: 1000 / 5},
}

// LeakAfter is how long faults happen at random before growth can be judged. What an operator has told is kept for six to twelve
// minutes, by the library that sends events, so that its heap grows at first and goes up and down from then on.
const LeakAfter = 45 * time.Minute

// Faults that differ in their size, though they are of one goal.
const (
	allDeleted       = "all deleted at once"
	namespaceDeleted = "namespace deleted"
)

// LargeEnough returns the rows of a soak that are worth keeping, and why the others are not: a trial of a minute must not pass for what
// is asked for.
func LargeEnough(rows []Summary) (kept []Summary, why []string) {
	for _, r := range rows {
		reason := ""
		for _, least := range soaks {
			if r.Goal != least.goal || least.fault != "" && r.Fault != least.fault {
				continue
			}
			switch {
			case r.Graphs < least.graphs:
				reason = fmt.Sprintf("it is about %d graphs, want %d at least", r.Graphs, least.graphs)
			case r.Lasting < least.lasting:
				reason = fmt.Sprintf("it lasted %s, want %s at least", r.Lasting, least.lasting)
			}
		}
		if reason == "" {
			kept = append(kept, r)
			continue
		}
		why = append(why, fmt.Sprintf("%s (%s, %s) is not stored: %s", r.Goal, r.Scenario, r.Fault, reason))
	}
	return kept, why
}

// Sort orders summaries by goal, scenario and fault.
func Sort(rows []Summary) {
	slices.SortFunc(rows, func(a, b Summary) int {
		return cmp.Or(byNumber(a.Goal, b.Goal), cmp.Compare(a.Scenario, b.Scenario), cmp.Compare(a.Fault, b.Fault), cmp.Compare(a.Run, b.Run))
	})
}

// Tables shows what is kept: of each kind of run the goals, then every scenario with every fault.
func Tables(book Book) string {
	var text strings.Builder
	for _, kind := range []struct{ run, heading string }{{FullRun, "`make test-faults`"}, {SoakRun, "`make soak`"}} {
		rows := slices.DeleteFunc(slices.Clone(book.Rows), func(r Summary) bool { return r.Run != kind.run })
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(&text, "\n### %s\n\n%s\n", kind.heading, goalsTable(book.Runs[kind.run], rows))
	}
	text.WriteString("### Every scenario with every fault\n\n| Run | Goal | Scenario | Fault | Runs | Faults injected | Result |\n|---|---|---|---|---|---|---|\n")
	for _, r := range book.Rows {
		verdict := "pass"
		if r.Failed > 0 {
			verdict = fmt.Sprintf("%d failed", r.Failed)
		}
		if r.Note != "" {
			verdict += ": " + r.Note
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %d | %d | %s |\n", r.Run, r.Goal, r.Scenario, r.Fault, r.Runs, r.Faults, verdict)
	}
	text.WriteString("\n")
	return text.String()
}

// goalsTable shows what one kind of run did for each goal.
func goalsTable(run Run, rows []Summary) string {
	var text strings.Builder
	total := fold(rows, func(Summary) bool { return true })
	fmt.Fprintf(&text, "%s: %d runs, %d faults, %s failed.\n\n", run, total.Runs, total.Faults, orNone(total.Failed))
	text.WriteString("| Goal | What happens | Runs | Faults injected | Runs failed | Did not come | Slowest recovery |\n|---|---|---|---|---|---|---|\n")
	for _, g := range goals {
		sum := fold(rows, func(r Summary) bool { return r.Goal == g.number })
		if sum.Runs == 0 {
			continue
		}
		fmt.Fprintf(&text, "| %s | %s | %d | %d | %d | %s | %s |\n", g.number, g.what, sum.Runs, sum.Faults, sum.Failed, unlessZero(sum.Absent), seconds(sum.Slowest))
	}
	return text.String()
}

func fold(rows []Summary, which func(Summary) bool) Summary {
	var sum Summary
	for _, r := range rows {
		if which(r) {
			sum.Runs, sum.Faults, sum.Failed = sum.Runs+r.Runs, sum.Faults+r.Faults, sum.Failed+r.Failed
			sum.Slowest, sum.Absent = max(sum.Slowest, r.Slowest), sum.Absent+r.Absent
		}
	}
	return sum
}

func orNone(n int) string { return cmp.Or(unlessZero(n), "none") }

func unlessZero(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func seconds(s float64) string {
	if s == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f s", s)
}
