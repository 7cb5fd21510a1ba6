// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Kinds of runs whose results are kept.
const (
	FullRun = "full"
	SoakRun = "soak"
)

// Book is what is kept of runs.
type Book struct {
	// Runs are the last runs of each kind.
	Runs map[string]Run `json:"runs"`
	Rows []Summary      `json:"rows"`
}

// Run is when and where a kind of run was last seen to pass.
type Run struct {
	Commit string `json:"commit"`
	// Date is a day, such as 2026-11-19.
	Date string `json:"date"`
	// Minutes is how long it took, 0 where it was taken up again.
	Minutes int `json:"minutes,omitempty"`
	Cores   int `json:"cores"`
	// Apart are goals whose rows are of earlier runs, and their commits.
	Apart map[string]string `json:"apart,omitempty"`
}

func (r Run) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "Of %s, on %s, on %d cores", r.Commit, r.Date, r.Cores)
	if r.Minutes > 0 {
		fmt.Fprintf(&text, ", in %d minutes", r.Minutes)
	}
	for _, goal := range slices.SortedFunc(maps.Keys(r.Apart), byNumber) {
		fmt.Fprintf(&text, "; %s of %s", goal, r.Apart[goal])
	}
	return text.String()
}

// ReadBook reads what is kept. A book that is not there is empty.
func ReadBook(path string) (Book, error) {
	book := Book{Runs: map[string]Run{}}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return book, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &book)
	}
	if err != nil {
		return book, fmt.Errorf("read %s: %w", path, err)
	}
	return book, nil
}

// Write keeps the book.
func (b Book) Write(path string) error {
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Enter replaces the rows of a kind of run by those of a newer one. Goals of which the newer one has nothing keep their rows, and the
// commit that they are of.
func (b *Book) Enter(kind string, run Run, rows []Summary) {
	isNew := func(goal string) bool {
		return slices.ContainsFunc(rows, func(r Summary) bool { return r.Goal == goal })
	}
	before := b.Runs[kind]
	run.Apart = map[string]string{}
	for _, old := range b.Rows {
		if old.Run != kind || isNew(old.Goal) {
			continue
		}
		run.Apart[old.Goal] = before.Commit
		if commit, apart := before.Apart[old.Goal]; apart {
			run.Apart[old.Goal] = commit
		}
	}
	b.Rows = slices.DeleteFunc(b.Rows, func(old Summary) bool { return old.Run == kind && isNew(old.Goal) })
	b.Rows = append(b.Rows, rows...)
	Sort(b.Rows)
	b.Runs[kind] = run
}

// countMark is where a document wants the count of some rows, said as run / goal / scenario / fault, in which a part that is * stands for all.
var countMark = regexp.MustCompile(`<!-- count (\w+) / (\w+) / ([^/]*) / ([^/]*) -->[^<]*<!-- -->`)

// Count fills in how many runs and faults the rows have that a document names. A mark without rows is a mistake.
func (b Book) Count(document string) (string, error) {
	var missing []string
	text := countMark.ReplaceAllStringFunc(document, func(mark string) string {
		parts := countMark.FindStringSubmatch(mark)
		fits := func(want, value string) bool { return want == "*" || want == value }
		sum := fold(b.Rows, func(r Summary) bool {
			return r.Run == parts[1] && r.Goal == parts[2] && fits(parts[3], r.Scenario) && fits(parts[4], r.Fault)
		})
		if sum.Runs == 0 {
			missing = append(missing, strings.Join(parts[1:], " / "))
		}
		return fmt.Sprintf("<!-- count %s -->%d runs, %d faults, %s failed<!-- -->", strings.Join(parts[1:], " / "), sum.Runs, sum.Faults,
			orNone(sum.Failed))
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("no row is named by %q", missing)
	}
	return text, nil
}
