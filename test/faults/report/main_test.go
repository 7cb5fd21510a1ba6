// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamo-operator/dynamo-operator/test/faults"
)

func TestRowsOfAGoalAreReplacedByThoseOfTheSameKindOfRun(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results.json")
	older := []faults.Summary{
		{Goal: "L9", Scenario: "200 graphs", Runs: 1},
		{Goal: "L9", Scenario: "renamed since", Runs: 1},
		{Goal: "L9", Scenario: "1000 graphs", Runs: 1, Run: "soak"},
		{Goal: "L10", Scenario: "untouched", Runs: 1},
	}
	newer := []faults.Summary{{Goal: "L9", Scenario: "200 graphs", Runs: 2}}
	if _, err := keep(path, older); err != nil {
		t.Fatal(err)
	}
	got, err := keep(path, newer)
	if err != nil {
		t.Fatal(err)
	}
	want := []faults.Summary{older[2], newer[0], older[3]}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
