// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// instruction is one of a Dockerfile, its lines joined.
type instruction struct{ verb, rest string }

// instructions reads a Dockerfile without comments. A line that ends with a backslash goes on in the next.
func instructions(text string) []instruction {
	var found []instruction
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if verb != "" && !strings.HasPrefix(verb, "#") {
			found = append(found, instruction{strings.ToUpper(verb), strings.Join(strings.Fields(rest), " ")})
		}
	}
	return found
}

var (
	exactTag    = regexp.MustCompile(`^[a-z0-9./-]+(:[0-9]+\.[0-9]+\.[0-9]+[a-z0-9.-]*)?(@sha256:[0-9a-f]{64})?$`)
	numericUser = regexp.MustCompile(`^[1-9][0-9]*:[1-9][0-9]*$`)
)

// linter goes through a Dockerfile, stage by stage.
type linter struct {
	stages []string
	// user of the current stage.
	user  string
	found []string
}

func (l *linter) complain(format string, args ...any) {
	l.found = append(l.found, fmt.Sprintf(format, args...))
}

// faults are what is wrong with a Dockerfile: bases that move, files from elsewhere, root.
func faults(all []instruction) []string {
	var l linter
	for _, i := range all {
		switch i.verb {
		case "FROM":
			l.from(i.rest)
		case "ADD":
			l.complain("ADD %s: use COPY", i.rest)
		case "USER":
			l.user = i.rest
			if !numericUser.MatchString(i.rest) {
				l.complain("USER %s: name numbers other than 0", i.rest)
			}
		case "ENTRYPOINT", "CMD":
			l.command(i)
		case "RUN":
			if strings.Contains(i.rest, "@latest") || strings.Contains(i.rest, "curl ") {
				l.complain("RUN %s: fetch nothing that can change", i.rest)
			}
		}
	}
	return l.found
}

// from begins a stage.
func (l *linter) from(rest string) {
	words := slices.DeleteFunc(strings.Fields(rest), func(w string) bool { return strings.HasPrefix(w, "--") })
	base := words[0]
	pinned := exactTag.MatchString(base) && strings.ContainsAny(base, ":@")
	if base != "scratch" && !slices.Contains(l.stages, base) && !pinned {
		l.complain("FROM %s: name an exact version", base)
	}
	if len(words) != 3 {
		l.complain("FROM %s: name the stage", base)
		return
	}
	l.stages, l.user = append(l.stages, words[2]), ""
}

// command checks what a stage runs.
func (l *linter) command(i instruction) {
	if !strings.HasPrefix(i.rest, "[") {
		l.complain("%s %s: use the form without a shell", i.verb, i.rest)
	}
	if l.user == "" {
		l.complain("%s in %s: set USER before it", i.verb, l.stages[len(l.stages)-1])
	}
}

func TestTheDockerfileHasNoFaults(t *testing.T) {
	t.Parallel()
	all := instructions(string(read(t, filepath.Join(repository(t), "Dockerfile"))))
	if got := faults(all); len(got) > 0 {
		t.Errorf("Dockerfile:\n%s", strings.Join(got, "\n"))
	}
	if len(all) < 10 {
		t.Errorf("only %d instructions were read", len(all))
	}
}

func TestFaultsOfADockerfileAreFound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"FROM golang:1.26.8 AS a":                                   "",
		"FROM golang:1.26.8 AS a\nFROM a AS b":                      "",
		"FROM golang:latest AS a":                                   "FROM golang:latest: name an exact version",
		"FROM golang AS a":                                          "FROM golang: name an exact version",
		"FROM golang:1.26 AS a":                                     "FROM golang:1.26: name an exact version",
		"FROM scratch":                                              "FROM scratch: name the stage",
		"FROM scratch AS a\nADD x /":                                "ADD x /: use COPY",
		"FROM scratch AS a\nUSER nobody":                            "USER nobody: name numbers other than 0",
		"FROM scratch AS a\nUSER 0:0":                               "USER 0:0: name numbers other than 0",
		"FROM scratch AS a\nENTRYPOINT [\"/x\"]":                    "ENTRYPOINT in a: set USER before it",
		"FROM scratch AS a\nUSER 1:1\nENTRYPOINT x":                 "ENTRYPOINT x: use the form without a shell",
		"FROM scratch AS a\nRUN true \\\n  && curl example.com":     "RUN true && curl example.com: fetch nothing that can change",
		"# FROM golang:latest\nFROM scratch AS a\nUSER 1:1\nCMD []": "",
	} {
		if diff := cmp.Diff(want, strings.Join(faults(instructions(text)), "; ")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// The two ways to build have to give the same image.
func TestTheDockerfileAgreesWithTheImages(t *testing.T) {
	t.Parallel()
	text := string(read(t, filepath.Join(repository(t), "Dockerfile")))
	for _, d := range images() {
		if !strings.Contains(text, fmt.Sprintf("USER 65532:65532\nENTRYPOINT [%q]\n", d.entrypoint)) {
			t.Errorf("%s: another user or entry point than %s", d.name, d.entrypoint)
		}
		if !strings.Contains(text, " "+d.program) || !strings.Contains(text, " /"+d.name+"\n") {
			t.Errorf("%s: %s is not built, or not put in the root", d.name, d.program)
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(d.links)), linksOf(instructions(text), d.name)); diff != "" {
			t.Errorf("%s: links (-archive +Dockerfile):\n%s", d.name, diff)
		}
		for _, e := range entries(nil, d) {
			name, line := path.Base(e.name), strings.TrimSpace(string(e.content))
			if strings.HasPrefix(e.name, "/etc/") && line != "" && !strings.Contains(text, "echo '"+line+"' >/accounts/"+name) {
				t.Errorf("%s: %s is not %q", d.name, e.name, line)
			}
		}
	}
	if n := strings.Count(text, "COPY --from=build /accounts /etc\n"); n != len(images()) {
		t.Errorf("%d images have accounts", n)
	}
	for _, want := range []string{
		`-ldflags="-s -w -buildid= -X ` + versionVariable + `=$VERSION"`, "\nARG VERSION=" + unreleased + "\n", "-trimpath", "-buildvcs=false",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the Dockerfile lacks %s", strings.TrimSpace(want))
		}
	}
	if !strings.Contains(text, " golang:"+strings.TrimPrefix(releaseToolchain, "go")+"-") {
		t.Errorf("the Dockerfile does not build with %s", releaseToolchain)
	}
}

var (
	looped = regexp.MustCompile(`for name in ([^;]+); do ln -s (\S+) "(\S+)/\$name"; done`)
	linked = regexp.MustCompile(`(?:^|&& )ln -s (\S+) (/links/\S+)`)
	copies = regexp.MustCompile(`^--from=build (/links\S*) (\S+)$`)
)

// linksOf are the paths that lead to a program in its image: made while building, and copied into the stage of the program.
func linksOf(all []instruction, program string) []string {
	made, found, stage := map[string]string{}, []string{}, ""
	for _, i := range all {
		switch i.verb {
		case "RUN":
			for _, loop := range looped.FindAllStringSubmatch(i.rest, -1) {
				for name := range strings.FieldsSeq(loop[1]) {
					made[loop[3]+"/"+name] = loop[2]
				}
			}
			for _, link := range linked.FindAllStringSubmatch(i.rest, -1) {
				made[link[2]] = link[1]
			}
		case "FROM":
			if stage = i.rest[strings.LastIndex(i.rest, " ")+1:]; stage == "operator" {
				stage = "dynamo-operator" // it is called after its program in the archive alone
			}
		case "COPY":
			if copied := copies.FindStringSubmatch(i.rest); copied != nil && stage == program {
				found = append(found, arrived(made, copied[1], copied[2], "/"+program)...)
			}
		}
	}
	slices.Sort(found)
	return found
}

// arrived are links to a target that are at a path, or below it, after they were copied to another.
func arrived(made map[string]string, from, to, target string) []string {
	var found []string
	for link, leads := range made {
		if below, ok := strings.CutPrefix(link, from); ok && leads == target && (below == "" || below[0] == '/') {
			found = append(found, to+below)
		}
	}
	return found
}

func TestLinksOfADockerfileAreReadOneByOne(t *testing.T) {
	t.Parallel()
	const text = "FROM golang:1.26.8 AS build\nRUN mkdir /links && for name in bash python3; do ln -s /mocker \"/links/bin/$name\"; done && ln -s /dynamo-operator /links/manager\n" +
		"FROM scratch AS mocker\nCOPY --from=build /links/bin /bin\nFROM scratch AS operator\nCOPY --from=build /links/manager /manager\n"
	for program, want := range map[string][]string{"mocker": {"/bin/bash", "/bin/python3"}, "dynamo-operator": {"/manager"}} {
		if diff := cmp.Diff(want, linksOf(instructions(text), program)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", program, diff)
		}
	}
}
