// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Check names what was looked at.
type Check string

// The checks, in the order in which findings are shown.
const (
	CheckVersion     Check = "version"
	CheckDefinitions Check = "definitions"
	CheckStorage     Check = "storage"
	CheckGPUs        Check = "gpus"
	CheckMultinode   Check = "multinode"
	CheckCertManager Check = "cert-manager"
	CheckWebhooks    Check = "webhooks"
	CheckInstall     Check = "install-rights"
	CheckUse         Check = "use-rights"
	CheckOperators   Check = "operators"
)

// State is how a finding is meant.
type State string

// States of findings.
const (
	// OK needs nothing.
	OK State = "ok"
	// Warning leaves something that some will want not to work.
	Warning State = "warning"
	// Problem keeps the operator or graphs from working.
	Problem State = "problem"
)

// Finding is what one check found.
type Finding struct {
	Check Check  `json:"check"`
	State State  `json:"state"`
	Found string `json:"found"`
	// Items are the names that Found ends with, one by one, if it lists some.
	Items []string `json:"items,omitempty"`
	// Advice is what to do, if there is something.
	Advice string `json:"advice,omitempty"`
}

// several is a finding about names: those that it lists are all there, for programs and for whoever has to ask for each of them.
func several(state State, before string, names []string, advice string) Finding {
	return Finding{State: state, Found: before + joined(names), Items: names, Advice: advice}
}

func joined(names []string) string { return strings.Join(names, ", ") }

// short is what was found as a line of a table has room for: names beyond the third are counted.
func (f Finding) short() string {
	const shown = 3
	if len(f.Items) <= shown {
		return f.Found
	}
	return fmt.Sprintf("%s%s and %d more", strings.TrimSuffix(f.Found, joined(f.Items)), joined(f.Items[:shown]), len(f.Items)-shown)
}

// Failed tells whether something keeps the operator or graphs from working.
func Failed(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.State == Problem })
}

// counts says how many findings there are of each state.
func counts(findings []Finding) string {
	n := map[State]int{}
	for _, f := range findings {
		n[f.State]++
	}
	return fmt.Sprintf("%d ok, %d warnings, %d problems", n[OK], n[Warning], n[Problem])
}

// Table writes findings for people. Only here long lists are cut.
func Table(out io.Writer, findings []Finding) error {
	const gap = 3
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, gap, ' ', 0) // into memory, which takes everything
	_, _ = fmt.Fprintln(w, "CHECK\tSTATE\tFOUND\tWHAT TO DO")
	for _, f := range findings {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Check, f.State, f.short(), f.Advice)
	}
	_ = w.Flush()
	var lines []string
	for line := range strings.Lines(text.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	lines = append(lines, "", counts(findings))
	if _, err := fmt.Fprintln(out, strings.Join(lines, "\n")); err != nil {
		return fmt.Errorf("write the findings: %w", err)
	}
	return nil
}

// report is the form of findings for programs.
type report struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Ready      bool      `json:"ready"`
	Findings   []Finding `json:"findings"`
}

// JSON writes findings for programs.
func JSON(out io.Writer, findings []Finding) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	r := report{APIVersion: "dynamo.nvidia.com/v1", Kind: "Preflight", Ready: !Failed(findings), Findings: findings}
	if err := encoder.Encode(r); err != nil {
		return fmt.Errorf("write the findings: %w", err)
	}
	return nil
}
