// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package strict

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type inner struct {
	Number int             `json:"number"`
	Pause  metav1.Duration `json:"pause"`
}

type outer struct {
	Name   string   `json:"name"`
	Inner  inner    `json:"inner"`
	Others []inner  `json:"others"`
	Words  []string `json:"words"`
}

func TestWhatADocumentDoesNotMentionKeepsItsValue(t *testing.T) {
	t.Parallel()
	members, err := Parse([]byte("inner: {number: 2}\nwords: []\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := outer{Name: "default", Inner: inner{Number: 1}, Words: []string{"default"}}
	if errs := Decode(members, &got); len(errs) > 0 {
		t.Fatal(errs)
	}
	if diff := cmp.Diff(outer{Name: "default", Inner: inner{Number: 2}, Words: []string{}}, got); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
}

func TestEverythingThatDoesNotFitIsNamedAndNothingIsChanged(t *testing.T) {
	t.Parallel()
	members, err := Parse([]byte("name: 1\ninner: {number: x, nunber: 1, pause: 5}\nothers: [{number: 1}, {numbr: 2}]\nwords: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := outer{Name: "default"}
	var fields []string
	for _, e := range Decode(members, &got) {
		fields = append(fields, e.Field)
	}
	want := []string{"inner.number", "inner.nunber", "inner.pause", "name", "others[1].numbr", "words"}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(outer{Name: "default"}, got); diff != "" {
		t.Errorf("a document that does not fit changed something (-want +got):\n%s", diff)
	}
}

func TestWhatIsNoDocumentIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"- a", "a: 1\na: 2", "a: [", "text"} {
		if members, err := Parse([]byte(text)); err == nil {
			t.Errorf("%q is taken for %v", text, members)
		}
	}
	if members, err := Parse([]byte("# nothing\n")); err != nil || members != nil {
		t.Errorf("a document without content: %v, %v", members, err)
	}
}
