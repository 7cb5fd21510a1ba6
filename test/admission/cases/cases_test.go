// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dynamo-operator/dynamo-operator/internal/admission"
)

var update = flag.Bool("update", false, "write the verdicts anew")

const verdictsFile = "verdicts.txt"

func all(t *testing.T) []Case {
	t.Helper()
	cases, err := All()
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

func typed(t *testing.T, object map[string]any) runtime.Object {
	t.Helper()
	o, err := Typed(object)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// found are the findings on a case, by whoever sees it: the command line sees only new objects, and the webhook no notes.
func found(t *testing.T, c Case) []string {
	t.Helper()
	var lines []string
	obj := typed(t, c.Object)
	if c.Old == nil {
		for _, f := range admission.Examine(obj, c.Circumstances) {
			lines = append(lines, fmt.Sprintf("%s %s: %s", f.Level, f.Rule, f.Text()))
		}
		return lines
	}
	verdict := admission.Judge(c.Kind, typed(t, c.Old), obj, c.Circumstances)
	for _, err := range verdict.Errors {
		lines = append(lines, fmt.Sprintf("error %s: %s", err.Origin, err))
	}
	for _, text := range verdict.Warnings {
		lines = append(lines, "warning "+c.Rule+": "+text)
	}
	return lines
}

func TestNoRuleHasAnythingAgainstTheBases(t *testing.T) {
	t.Parallel()
	bases, err := Bases()
	if err != nil {
		t.Fatal(err)
	}
	for kind, base := range bases {
		if lines := found(t, Case{Kind: kind, Object: base}); len(lines) > 0 {
			t.Errorf("%s: %s", kind, lines)
		}
		if lines := found(t, Case{Kind: kind, Object: base, Old: base}); len(lines) > 0 {
			t.Errorf("%s unchanged: %s", kind, lines)
		}
	}
}

func TestEveryCaseBreaksItsRuleOrNot(t *testing.T) {
	t.Parallel()
	for _, c := range all(t) {
		t.Run(c.Kind+"/"+c.Rule+"/"+c.Name, func(t *testing.T) {
			t.Parallel()
			lines := found(t, c)
			broken := slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, " "+c.Rule+": ") })
			if broken != c.Broken {
				t.Errorf("broken is %v, want %v: %q", broken, c.Broken, lines)
			}
		})
	}
}

func TestEveryRuleIsBrokenByACaseOfEachOfItsKinds(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range all(t) {
		if c.Broken {
			seen[c.Rule+" of "+c.Kind] = true
		}
	}
	for _, rule := range admission.Rules() {
		for _, kind := range rule.Kinds {
			if !seen[rule.Name+" of "+kind] {
				t.Errorf("cases.yaml has no case that breaks %s of %s", rule.Name, kind)
			}
		}
	}
}

// What users read is reviewed as text.
func TestVerdictsReadLikeThis(t *testing.T) {
	t.Parallel()
	var blocks []string
	for _, c := range all(t) {
		block := fmt.Sprintf("%s: %s: %s\n", c.Kind, c.Rule, c.Name)
		for _, line := range found(t, c) {
			block += "  " + line + "\n"
		}
		blocks = append(blocks, block)
	}
	slices.Sort(blocks)
	got := strings.Join(blocks, "")
	if *update {
		if err := os.WriteFile(verdictsFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(verdictsFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", verdictsFile, diff)
	}
}
