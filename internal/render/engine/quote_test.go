// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// odd are variables of a container that make trouble when the kubelet writes their values into shell text.
func odd() []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: "PLAIN", Value: "/models/a-b_c.d"},
		{Name: "QUOTE", Value: `it's "so" $HOME $(PLAIN) *`},
		{Name: "BLANK", Value: "two words"},
		{Name: "EMPTY"},
		{Name: "OUTER", Value: "$(PLAIN)/x"},
		{Name: "WORSE", Value: "$(BLANK)/x"},
		{Name: "CIRCLE", Value: "$(CIRCLE)"},
		{Name: "dotted.name", Value: "d"},
		{Name: "SECRET", ValueFrom: &corev1.EnvVarSource{}},
	}
}

func TestWordsAreQuotedOnlyWhereTheyNeedIt(t *testing.T) {
	t.Parallel()
	v := variablesOf(&corev1.Container{Env: odd()})
	for word, want := range map[string]string{
		"--model=/m/a_b.c:d,e@f%g+h^i!j#k]": "--model=/m/a_b.c:d,e@f%g+h^i!j#k]",
		"größe":                             "größe",
		"":                                  "''",
		"a b":                               "'a b'",
		"#a":                                "'#a'",
		"it's":                              `'it'\''s'`,
		`{"a": 1}`:                          `'{"a": 1}'`,
		"~/x":                               "'~/x'",
		"--a=~/x":                           "'--a=~/x'",
		"a~b":                               "a~b",
		"{}":                                "{}",
		"{a,b}":                             "'{a,b}'",
		"*":                                 "'*'",
		"[1,2]":                             "'[1,2]'",
		"$HOME":                             "'$HOME'",
		"$5":                                "'$5'",
		"$(PLAIN)":                          "$(PLAIN)",
		"--a=$(PLAIN)/b":                    "--a=$(PLAIN)/b",
		"$PLAIN":                            "$PLAIN", // worked in text that was joined without quotes
		"${PLAIN}/x":                        "${PLAIN}/x",
		"$(SECRET)":                         "$(SECRET)",
		"$(LWS_GROUP_SIZE)":                 "$(LWS_GROUP_SIZE)",
		"$(OUTER)":                          "$(OUTER)",
		"$(WORSE)":                          `"${WORSE}"`,
		"$(BLANK)":                          `"${BLANK}"`,
		"$BLANK":                            "'$BLANK'",
		"$(EMPTY)":                          `"${EMPTY}"`,
		"$(CIRCLE)":                         `"${CIRCLE}"`,
		"x $(PLAIN)/y":                      `'x '"${PLAIN}"'/y'`,
		"x $(ELSEWHERE)":                    "'x $(ELSEWHERE)'",
		"$(dotted.name)":                    "'$(dotted.name)'",
		"$$(PLAIN)":                         "'$$(PLAIN)'",
		"$(open":                            "'$''(open'",
		"$(a$(PLAIN)":                       "'$(a$(PLAIN)'", // the kubelet sees one name, which nobody has
	} {
		if got := v.quote(word); got != want {
			t.Errorf("%q: got %s, want %s", word, got, want)
		}
	}
}

// TestAnyWordsSurviveKubeletAndShell joins random words and has a real shell print them: it must print what the runtime
// would have handed to the program without a shell.
func TestAnyWordsSurviveKubeletAndShell(t *testing.T) {
	t.Parallel()
	pieces := []string{
		"a", "Z", "0", "-", "--x=", "/", "'", "'", `"`, `"`, " ", "  ", "\t", "\n", "$", "$$", "\\", "`", "*", "?", "[a]", "{a,b}", "~", "!", "#", "&", "|",
		";", "<", ">", "(", ")", "$(", "$(no name)", "$(PLAIN)", "$(QUOTE)", "$(BLANK)", "$(EMPTY)", "$(OUTER)", "%s", "é", "✓", "\u00a0", "\r", "=", ":",
	}
	environment := environ(odd())
	for _, program := range []string{"/bin/sh", "bash"} {
		for seed := range uint64(25) {
			random := rand.New(rand.NewPCG(seed, 1))
			list := make([]string, 150)
			for i := range list {
				for range random.IntN(7) {
					list[i] += pieces[random.IntN(len(pieces))]
				}
			}
			v := variablesOf(&corev1.Container{Env: odd()})
			parts := make([]string, 0, len(list))
			var want []string
			for _, word := range list {
				parts = append(parts, v.quote(word))
				want = append(want, kubeletExpand(word, environment))
			}
			text := `printf '%s\0' ` + strings.Join(parts, " ")
			for name, command := range map[string][]string{
				"in one shell":  {program, "-c", text},
				"in two shells": {"/bin/sh", "-c", program + " -c " + quoted(text)},
			} {
				cmd := exec.Command(command[0], expandAll(command[1:], environment)...)
				cmd.Env = append(environList(environment), "PATH=/usr/bin:/bin")
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("%s, %s, seed %d: %v\n%s", program, name, seed, err, text)
				}
				got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s, %s, seed %d (-want +got):\n%s", program, name, seed, diff)
				}
			}
		}
	}
}

// environ is what the kubelet makes of a container's variables: values are expanded with those that came before.
func environ(env []corev1.EnvVar) map[string]string {
	values := map[string]string{}
	for _, e := range env {
		if e.ValueFrom == nil {
			values[e.Name] = kubeletExpand(e.Value, values)
		}
	}
	return values
}

func environList(environment map[string]string) []string {
	var list []string
	for name, value := range environment {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

func expandAll(words []string, environment map[string]string) []string {
	expanded := make([]string, 0, len(words))
	for _, word := range words {
		expanded = append(expanded, kubeletExpand(word, environment))
	}
	return expanded
}

// kubeletExpand expands $(NAME) in a word of command or args as the kubelet does: "$$" is a dollar sign, a name goes up to
// the next closing parenthesis whatever it contains, and a name that has no value stays as it stands.
func kubeletExpand(word string, environment map[string]string) string {
	before, after, found := strings.Cut(word, "$")
	switch {
	case !found:
		return word
	case strings.HasPrefix(after, "$"):
		return before + "$" + kubeletExpand(after[1:], environment)
	case strings.HasPrefix(after, "("):
		if name, rest, closed := strings.Cut(after[1:], ")"); closed {
			value, known := environment[name]
			if !known {
				value = "$(" + name + ")"
			}
			return before + value + kubeletExpand(rest, environment)
		}
		return before + "$(" + kubeletExpand(after[1:], environment)
	}
	return before + "$" + kubeletExpand(after, environment)
}
