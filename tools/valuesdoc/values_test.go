// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryCommentedKeyIsARow(t *testing.T) {
	t.Parallel()
	got, err := parse(`# Of the file.
a:
  # -- First.
  b: ""
  c:
    # -- Second | third.
    d: [1, "<x>"]

# -- A whole.
e:
  f: {g: true}
`, "part.")
	if err != nil {
		t.Fatal(err)
	}
	want := []value{
		{key: "part.a.b", preset: `""`, meaning: "First."},
		{key: "part.a.c.d", preset: `[1,"<x>"]`, meaning: "Second | third."},
		{key: "part.e", preset: `{"f":{"g":true}}`, meaning: "A whole."},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(value{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if text := table(got); !strings.Contains(text, "| `part.a.c.d` | `[1,\"<x>\"]` | Second \\| third. |\n") {
		t.Errorf("the table is\n%s", text)
	}
}

func TestAKeyWithoutACommentIsNamed(t *testing.T) {
	t.Parallel()
	if _, err := parse("a:\n  b: 1\n", ""); err == nil || !strings.Contains(err.Error(), "a.b has no comment") {
		t.Errorf("got %v", err)
	}
}

func TestTheSharedSectionIsToldOfOnce(t *testing.T) {
	t.Parallel()
	const text = "global:\n  # -- Of all.\n  a: 1\n"
	if got, err := parse(text, "part."); err != nil || len(got) != 0 {
		t.Errorf("below a part: %v %v", got, err)
	}
	if got, err := parse(text, ""); err != nil || len(got) != 1 {
		t.Errorf("at the top: %v %v", got, err)
	}
}

func TestOnlyTheTableOfAPageIsReplaced(t *testing.T) {
	t.Parallel()
	got, err := insert("head\n"+begin+"old\n"+end+"tail\n", "new\n")
	if want := "head\n" + begin + "new\n" + end + "tail\n"; err != nil || got != want {
		t.Errorf("got %q %v", got, err)
	}
	if _, err := insert("nothing", "new\n"); err == nil {
		t.Error("a page without marks is taken")
	}
}
