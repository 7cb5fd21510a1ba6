// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

var update = flag.Bool("update", false, "write docs/admission.md anew")

const docs = "../../docs/admission.md"

const docsHead = `# Rules of admission

<!-- Made from the table in internal/admission by: go test ./internal/admission -update -->

Objects are judged several times on their way, by the same table of rules, so that nothing depends on one of them being there:

| Where | When | What it does |
|---|---|---|
| lint | ` + "`kubectl dynamo lint`" + `, before an object is sent | says everything at once, with file and line |
| schema | the API server, by the definitions of our kinds; works without the operator | refuses |
| webhook | the API server asks the operator before it stores an object | refuses; warnings are shown by kubectl |
| reconciler | the operator, before it makes anything of what is stored | ` + "`Ready`" + ` is False with reason ` + "`ValidationFailed`" + `; what runs runs on |

The sentence of an error says what has to hold, that of a warning or note what it is about. "On change" means that an update is
compared with what is stored. "Reference" tells whether the reference says the same, by its webhook or its schema; rules that it
does not have refuse only what cannot work there either, or warn. Whatever is only suspicious is a warning. Notes are for lint
alone. The controllers of requests and checkpoints are not part of this release yet; until they are, "reconciler" stands for
what they will refuse.

An update of something that is being deleted is never refused, and no update is refused for what was wrong before in the same
way: whatever else is wrong with a graph, it can be scaled, labelled, finalised and mended piece by piece. The schema, which matters
where an object was stored before its rules, forgives what stands in parts that an update leaves alone; a rule about several members
is looked at again when one of them changes. An object without any spec is let through by the schema and refused by the others.
`

func TestTheDocumentationIsThatOfTheTable(t *testing.T) {
	t.Parallel()
	got := document()
	if *update {
		if err := os.WriteFile(docs, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is out of date, go test ./internal/admission -update writes it anew (-want +got):\n%s", docs, diff)
	}
}

func document() string {
	var text strings.Builder
	text.WriteString(docsHead)
	for _, section := range []struct {
		title string
		kinds []string
	}{
		{"DynamoGraphDeployment", graphs()},
		{"Services of a DynamoGraphDeployment, and DynamoComponentDeployment", services()},
		{"DynamoComponentDeployment", components()},
		{"DynamoModel", []string{v1alpha1.KindDynamoModel}},
		{"DynamoGraphDeploymentRequest", []string{v1alpha1.KindDynamoGraphDeploymentRequest}},
		{"DynamoGraphDeploymentScalingAdapter", []string{v1alpha1.KindDynamoGraphDeploymentScalingAdapter}},
		{"DynamoCheckpoint", []string{v1alpha1.KindDynamoCheckpoint}},
	} {
		fmt.Fprintf(&text, "\n## %s\n\n| Rule | What it says | Level | Where | Reference |\n|---|---|---|---|---|\n", section.title)
		for _, rule := range Rules() {
			if slices.Equal(rule.Kinds, section.kinds) {
				text.WriteString(row(rule))
			}
		}
	}
	return text.String()
}

func row(r Rule) string {
	level := string(r.Level)
	if r.Transition {
		level += ", on change"
	}
	var places []string
	for _, place := range []struct {
		at   Place
		name string
	}{{Lint, "lint"}, {Schema, "schema"}, {Webhook, "webhook"}, {Reconciler, "reconciler"}} {
		if r.Places&place.at != 0 {
			places = append(places, place.name)
		}
	}
	reference := "no"
	if r.Reference {
		reference = "yes"
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", r.Name, r.Says, level, strings.Join(places, ", "), reference)
}

func TestTheTableIsInOrder(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range Rules() {
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)+$`).MatchString(r.Name) || seen[r.Name] {
			t.Errorf("%q is no name, or not the only one of its kind", r.Name)
		}
		seen[r.Name] = true
		if !strings.HasSuffix(r.Says, ".") || len(r.Kinds) == 0 || r.check == nil || r.Places&(Webhook|Lint) == 0 {
			t.Errorf("%s lacks a sentence, a kind, a check or a place", r.Name)
		}
		if r.Places&Schema != 0 && (r.Level != Refusal || !r.Reference) {
			t.Errorf("%s: a definition refuses, and only what the reference refuses too", r.Name)
		}
		if r.Transition && r.Places&(Lint|Reconciler) != 0 {
			t.Errorf("%s: lint and reconciler see no change", r.Name)
		}
		if r.Level != Refusal && r.Places&Reconciler != 0 {
			t.Errorf("%s: a reconciler has nobody to warn", r.Name)
		}
	}
}
