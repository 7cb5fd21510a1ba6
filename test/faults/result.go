// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Result is what became of one fault.
type Result struct {
	// Goal is the number of the goal in docs/reliability.md.
	Goal     string `json:"goal"`
	Scenario string `json:"scenario"`
	Fault    string `json:"fault"`
	// At names the request that is hit, or the moment, empty for many or none.
	At string `json:"at,omitempty"`
	// Faults is how many were injected.
	Faults int  `json:"faults"`
	Passed bool `json:"passed"`
	// Commit is of what it was seen, and Run the kind of run that it was seen in.
	Commit string `json:"commit,omitempty"`
	Run    string `json:"run,omitempty"`
	// Absent says that what was to be hit did not come. It is counted by itself, and as no run.
	Absent bool `json:"absent,omitempty"`
	// Calm says that nothing is injected on purpose.
	Calm bool `json:"calm,omitempty"`
	// Graphs is how many it was about, and Lasting how long it went on, where the size of a soak is measured by that.
	Graphs  int           `json:"graphs,omitempty"`
	Lasting time.Duration `json:"lasting,omitempty"`
	// Seconds is how long it took to be as it should after the fault was over, where that is measured.
	Seconds float64 `json:"seconds,omitempty"`
	// Note is what else was measured, for those who read the table.
	Note string `json:"note,omitempty"`
}

// Cell names a result, whatever came of it.
func (r Result) Cell() string { return fmt.Sprintf("%s|%s|%s|%s", r.Goal, r.Scenario, r.Fault, r.At) }

// Ledger keeps results in a file, one line each, so that a run that was ended can be taken up again.
type Ledger struct {
	mu     sync.Mutex
	path   string
	source Source
	passed map[string]bool
}

// Source is where results come from: what is tested, and the kind of run.
type Source struct{ Commit, Run string }

// OpenLedger opens the ledger at a path, which need not exist. With an empty path nothing is kept. What passed with another source
// has not passed with this one.
func OpenLedger(path string, source Source) (*Ledger, error) {
	l := &Ledger{path: path, source: source, passed: map[string]bool{}}
	results, err := ReadResults(path)
	if err != nil {
		return nil, err
	}
	for _, r := range Of(results, source) {
		l.passed[r.Cell()] = l.passed[r.Cell()] || r.Passed
	}
	return l, nil
}

// Of returns the results of a source.
func Of(results []Result, source Source) []Result {
	return slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return Source{r.Commit, r.Run} != source })
}

// ReadResults reads a ledger. A last line without an end was broken off while it was written, and says nothing.
func ReadResults(path string) ([]Result, error) {
	if path == "" {
		return nil, nil
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	content = content[:bytes.LastIndexByte(content, '\n')+1]
	var all []Result
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		var r Result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("read results in %s: %w", path, err)
		}
		all = append(all, r)
	}
	return all, lines.Err()
}

// HasPassed tells whether a cell passed before.
func (l *Ledger) HasPassed(r Result) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.passed[r.Cell()]
}

// Write adds a result.
func (l *Ledger) Write(r Result) error {
	if l.path == "" {
		return nil
	}
	r.Commit, r.Run = l.source.Commit, l.source.Run
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := endLine(l.path); err != nil {
		return fmt.Errorf("keep a result: %w", err)
	}
	file, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("keep a result: %w", err)
	}
	_, err = file.Write(append(line, '\n'))
	return cmp.Or(err, file.Close())
}

// endLine takes a line away that was broken off, so that the next one is not part of it.
func endLine(path string) error {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if whole := bytes.LastIndexByte(content, '\n') + 1; err == nil && whole < len(content) {
		return os.Truncate(path, int64(whole))
	}
	return err
}

// Summary is what a table says about one scenario and kind of fault.
type Summary struct {
	// Run is the kind of run that it comes from.
	Run      string  `json:"run"`
	Goal     string  `json:"goal"`
	Scenario string  `json:"scenario"`
	Fault    string  `json:"fault"`
	Runs     int     `json:"runs"`
	Faults   int     `json:"faults"`
	Failed   int     `json:"failed"`
	Slowest  float64 `json:"slowestSeconds,omitempty"`
	// Absent is how many times what was to be hit did not come.
	Absent int    `json:"absent,omitempty"`
	Note   string `json:"note,omitempty"`
	// Graphs and Lasting are those of its results. They are not stored: whoever reads a row reads its scenario and its fault.
	Graphs  int           `json:"-"`
	Lasting time.Duration `json:"-"`
}

// Summarise folds results. Of a cell that was tried more than once, the last counts.
func Summarise(results []Result) []Summary {
	last := map[string]Result{}
	for _, r := range results {
		last[r.Run+"|"+r.Cell()] = r
	}
	rows := map[string]*Summary{}
	for _, r := range last {
		key := r.Run + "|" + r.Goal + "|" + r.Scenario + "|" + r.Fault
		if rows[key] == nil {
			rows[key] = &Summary{Run: r.Run, Goal: r.Goal, Scenario: r.Scenario, Fault: r.Fault, Graphs: r.Graphs, Lasting: r.Lasting}
		}
		row := rows[key]
		if r.Absent {
			row.Absent++
			continue
		}
		row.Runs++
		row.Note = cmp.Or(r.Note, row.Note)
		row.Faults += r.Faults
		row.Slowest = max(row.Slowest, r.Seconds)
		if !r.Passed {
			row.Failed++
		}
	}
	all := make([]Summary, 0, len(rows))
	for _, row := range rows {
		all = append(all, *row)
	}
	Sort(all)
	return all
}

// byNumber orders goals by their number.
func byNumber(a, b string) int {
	ordinal := func(goal string) string { return fmt.Sprintf("%4s", strings.TrimPrefix(goal, "L")) }
	return cmp.Compare(ordinal(a), ordinal(b))
}
