// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestFlagsGoWhereEveryStartOfTheEngineGetsThem(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"behind the module":          {"python3 -m dynamo.sglang --tp 16", "python3 -m dynamo.sglang F --tp 16"},
		"at the end":                 {"python3 -m dynamo.sglang", "python3 -m dynamo.sglang F"},
		"longer module":              {"python3.11 -m dynamo.sglang.worker --tp 16", "python3.11 -m dynamo.sglang.worker F --tp 16"},
		"with a directory":           {"/opt/venv/bin/python3 -u -m dynamo.sglang -x", "/opt/venv/bin/python3 -u -m dynamo.sglang F -x"},
		"before a pipe":              {"python3 -m dynamo.sglang | tee /tmp/sglang.log", "python3 -m dynamo.sglang F | tee /tmp/sglang.log"},
		"before a redirection":       {"python3 -m dynamo.sglang 2>&1 | tee l", "python3 -m dynamo.sglang F 2>&1 | tee l"},
		"without blanks":             {"python3 -m dynamo.sglang;sync", "python3 -m dynamo.sglang F;sync"},
		"behind a preparation":       {"cd /w && python3 -m dynamo.sglang -x", "cd /w && python3 -m dynamo.sglang F -x"},
		"of every start":             {"python3 -m dynamo.sglang -a; python3 -m dynamo.sglang -b", "python3 -m dynamo.sglang F -a; python3 -m dynamo.sglang F -b"},
		"continued lines":            {"python3 -m dynamo.sglang \\\n  --tp 16", "python3 -m dynamo.sglang F \\\n  --tp 16"},
		"in a condition":             {"if true; then python3 -m dynamo.sglang; fi", "if true; then python3 -m dynamo.sglang F; fi"},
		"in a subshell":              {"(cd /w; exec python3 -m dynamo.sglang -x)", "(cd /w; exec python3 -m dynamo.sglang F -x)"},
		"a file of that name":        {"python3 /w/my_sglang.py --tp 16", "python3 /w/my_sglang.py F --tp 16"},
		"in a script of a script":    {"bash -c 'python3 -m dynamo.sglang --tp 16'", "bash -c 'python3 -m dynamo.sglang F --tp 16'"},
		"at the end of a script":     {"bash -c 'python3 -m dynamo.sglang'", "bash -c 'python3 -m dynamo.sglang F'"},
		"in double quotes":           {`exec bash -lc "python3 -m dynamo.sglang"`, `exec bash -lc "python3 -m dynamo.sglang F"`},
		"quoted module":              {`python3 -m "dynamo.sglang" --tp 16`, `python3 -m "dynamo.sglang" F --tp 16`},
		"quoted interpreter":         {`"$VENV/bin/python3" -m dynamo.sglang -x`, `"$VENV/bin/python3" -m dynamo.sglang F -x`},
		"a value with the name":      {"python3 -m dynamo.sglang --model a/sglang-7b -x", "python3 -m dynamo.sglang --model a/sglang-7b F -x"},
		"a log with the name":        {"python3 -m dynamo.sglang -x > /tmp/sglang.log", "python3 -m dynamo.sglang -x > /tmp/sglang.log F"},
		"a switch with the name":     {"python3 -m dynamo.sglang --sglang-fast --tp 16", "python3 -m dynamo.sglang --sglang-fast F --tp 16"},
		"a flag with the name":       {"python3 -m dynamo.sglang --sglang-config c.yaml", "python3 -m dynamo.sglang F --sglang-config c.yaml"},
		"a flag with the name and =": {"python3 -m dynamo.sglang --sglang-config=c.yaml -x", "python3 -m dynamo.sglang --sglang-config=c.yaml F -x"},
		"quotes around both":         {`python3 -m "dynamo.sglang" --name "my sglang model" -x`, `python3 -m "dynamo.sglang" F --name "my sglang model" -x`},
		"quotes around the name":     {`python3 -m dynamo.sglang --name "my sglang model" -x`, `python3 -m dynamo.sglang F --name "my sglang model" -x`},
		"JSON with the name":         {`python3 -m dynamo.sglang --o '{"a": "sglang x"}'`, `python3 -m dynamo.sglang F --o '{"a": "sglang x"}'`},
		"a later line with the name": {"python3 -m dynamo.sglang -x\necho sglang is over", "python3 -m dynamo.sglang F -x\necho sglang is over"},
		"two lines": {"python3 -m dynamo.sglang -a\npython3 -m dynamo.sglang -b",
			"python3 -m dynamo.sglang F -a\npython3 -m dynamo.sglang F -b"},
		"a comment":         {"# python3 -m dynamo.sglang\npython3 -m dynamo.sglang -x", "# python3 -m dynamo.sglang\npython3 -m dynamo.sglang F -x"},
		"an announcement":   {"echo python3 sglang starts && python3 -m dynamo.sglang -x", "echo python3 sglang F starts && python3 -m dynamo.sglang F -x"},
		"unreadable script": {"cat <<EOF\nit's\nEOF\npython3 -m dynamo.sglang -x", "cat <<EOF\nit's\nEOF\npython3 -m dynamo.sglang F -x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := insert(tc.text, "sglang", "F")
			if !ok || got != tc.want {
				t.Errorf("got %q (%t), want %q", got, ok, tc.want)
			}
		})
	}
}

func TestFlagsGoNowhereIfNoStartGetsThem(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "/start.sh", "python3 -m dynamo.vllm", "python3 -c 'import x'", "torchrun -m dynamo.sglang", "echo python3 -V; /sglang",
		"X=$(python3 -m dynamo.sglang)",
	} {
		if got, ok := insert(text, "sglang", "F"); ok {
			t.Errorf("%q: got %q, want a refusal", text, got)
		}
	}
}

func TestReadKnowsWhoseArgumentAWordIs(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want []command
	}{
		"words":        {"a  b\tc", []command{{words: []string{"a", "b", "c"}}}},
		"quotes":       {`a 'b c'"d 'e'"f\ g ''`, []command{{words: []string{"a", "b cd 'e'f g", ""}}}},
		"escapes":      {`a "\"\$\x" \' b\` + "\n" + `c`, []command{{words: []string{"a", `"$\x`, "'", "bc"}}}},
		"expansions":   {"a $(b 'c' $(d)) \"${e:-f g}\" `h i` $j", []command{{words: []string{"a", "$(b 'c' $(d))", "${e:-f g}", "`h i`", "$j"}}}},
		"operators":    {"a && b||c;d & e|f", []command{{"", []string{"a"}}, {"&&", []string{"b"}}, {"||", []string{"c"}}, {";", []string{"d"}}, {"&", []string{"e"}}, {"|", []string{"f"}}}},
		"lines":        {"\n\na\n\nb &&\nc\n", []command{{"", []string{"a"}}, {"\n", []string{"b"}}, {"&&", []string{"c"}}}},
		"comments":     {"# a\nb#c # d\ne", []command{{"", []string{"b#c"}}, {"\n", []string{"e"}}}},
		"redirections": {"a 2>&1 b >/c d< e 3f>g &>h i <<<'j k' l", []command{{words: []string{"a", "b", "d", "3f", "i", "l"}}}},
		"groups":       {"(a; b) && { c; }", []command{{"", []string{"a"}}, {";", []string{"b"}}, {"&&", []string{"{", "c"}}, {";", []string{"}"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := read(tc.text)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(command{}), cmpopts.EquateEmpty()); diff != "" || !ok {
				t.Errorf("readable %t (-want +got):\n%s", ok, diff)
			}
		})
	}
	for _, text := range []string{"'a", `"a`, "`a", "$(a", "${a", "a <<EOF\nb\nEOF", "a <(b)"} {
		if got, ok := read(text); ok {
			t.Errorf("%q: got %v, want it to be called unreadable", text, got)
		}
	}
}

func TestOnlyAChainMayComeBehindAnotherCommand(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"a": true, "a | b": true, "a && b": true, "\na\n": true, "(a && b)": true,
		"a; b": false, "a || b": false, "a & b": false, "a\nb": false, "'a": false,
	} {
		if got := isChain(text); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
	}
}
