// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/internal/admission"
)

// Report is everything there is to say about files.
type Report struct {
	// Objects is how many objects of ours were found.
	Objects int
	// Findings of all levels, by file and place in it.
	Findings []Problem
}

// Count is how many findings of a level there are.
func (r Report) Count(level admission.Level) int {
	n := 0
	for _, p := range r.Findings {
		if p.Level == level {
			n++
		}
	}
	return n
}

// Lint judges files as everybody would who meets them on their way: the API server by its definitions, the webhook by its
// rules, and the operator by what it can make of them.
func Lint(files []File, o Operator) Report {
	var report Report
	var documents []Document
	for _, f := range files {
		read, problems := Read(f)
		documents, report.Findings = append(documents, read...), append(report.Findings, problems...)
	}
	report.Objects = len(documents)
	report.Findings = append(report.Findings, o.all(documents).problems...)
	for _, d := range documents {
		for _, f := range admission.Examine(d.Object, o.circumstances()) {
			if f.Level == admission.Refusal {
				continue // found above
			}
			for _, p := range d.problems(f.Rule, field.ErrorList{f.Err}) {
				p.Level = f.Level
				report.Findings = append(report.Findings, p)
			}
		}
	}
	order := map[string]int{}
	for i, f := range files {
		order[f.Name] = i
	}
	slices.SortStableFunc(report.Findings, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(order[a.Source], order[b.Source]), cmp.Compare(a.Document, b.Document), cmp.Compare(a.Line, b.Line))
	})
	return report
}
