// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAVersionIsRefusedInOneSentence(t *testing.T) {
	t.Parallel()
	const name = "name the version, for example: make release VERSION=1.2.3"
	for version, want := range map[string]string{
		"1.2.3": "", "0.1.0": "", "1.0.0-rc.1": "", "10.20.30-beta-2.x": "",
		"": name, "0.0.0-dev": name,
		"v1.2.3":  `"v1.2.3" is not a version: write it as 1.2.3 or 1.2.3-rc.1`,
		"1.2":     `"1.2" is not a version: write it as 1.2.3 or 1.2.3-rc.1`,
		"1.02.3":  `"1.02.3" is not a version: write it as 1.2.3 or 1.2.3-rc.1`,
		"1.2.3+4": `"1.2.3+4" is not a version: write it as 1.2.3 or 1.2.3-rc.1`,
		"1.2.3-":  `"1.2.3-" is not a version: write it as 1.2.3 or 1.2.3-rc.1`,
		"../x":    `"../x" is not a version: write it as 1.2.3 or 1.2.3-rc.1`,
	} {
		got := ""
		if err := checkVersion(version); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", version, got, want)
		}
	}
}

func TestTheSectionOfAVersionIsCutOut(t *testing.T) {
	t.Parallel()
	const changelog = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- New.\n\n## [1.1.0] - 2026-01-02\n\n- Old.\n\n## [1.0.0] - 2026-01-01\n"
	for version, want := range map[string]string{
		"1.2.0": "## [1.2.0] - 2026-03-04\n\n### Added\n\n- New.\n",
		"1.1.0": "## [1.1.0] - 2026-01-02\n\n- Old.\n",
		"1.0.0": "CHANGELOG.md says nothing about 1.0.0: write what is new below ## [1.0.0]",
	} {
		got, err := section(changelog, version, "2026-03-04")
		if err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
	}
	if _, err := section("# Changelog\n", "1.0.0", ""); fmt.Sprint(err) != "CHANGELOG.md has no section for 1.0.0: add ## [1.0.0] or ## [Unreleased]" {
		t.Errorf("got %v", err)
	}
}

func TestATreeWithChangesIsNotReleased(t *testing.T) {
	t.Parallel()
	root, out := t.TempDir(), t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", root, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, said)
		}
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, "CHANGELOG.md"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("# Changelog\n")
	git("init", "-q")
	git("add", "-A")
	git("commit", "-q", "-m", "First")
	args := []string{"-root", root, "-out", out, "-version", "1.2.3"}
	if err := run(t.Context(), args, io.Discard); err == nil || !strings.HasPrefix(err.Error(), "CHANGELOG.md has no section for 1.2.3") {
		t.Errorf("a clean tree without a section: %v", err)
	}
	write("# Changelog\n\n## [Unreleased]\n\n- New.\n")
	want := "the tree has changes that are not committed: commit or stash them first"
	if err := run(t.Context(), args, io.Discard); fmt.Sprint(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
		t.Errorf("something was written: %v, %v", left, err)
	}
}

func TestChartsBearTheVersionThroughout(t *testing.T) {
	t.Parallel()
	r := release{root: "../..", directory: t.TempDir(), version: "1.2.3-rc.1"}
	if err := r.charts(t.Context()); err != nil {
		t.Fatal(err)
	}
	versions := regexp.MustCompile(`(?m)^(appV|v|- v|  v)ersion: (.*)$`)
	found := 0
	for _, name := range []string{"dynamo-crds", "dynamo-platform"} {
		for path, text := range charts(t, filepath.Join(r.directory, name+"-1.2.3-rc.1.tgz")) {
			found++
			for _, match := range versions.FindAllStringSubmatch(text, -1) {
				// The applications of these two have versions of their own.
				if match[1] == "appV" && (strings.Contains(path, "/nats/") || strings.Contains(path, "/etcd/")) {
					continue
				}
				if strings.Trim(match[2], `"`) != "1.2.3-rc.1" {
					t.Errorf("%s: %s", path, match[0])
				}
			}
		}
	}
	if found != 5 {
		t.Errorf("%d charts in the packages, want 5", found)
	}

	names, err := writeChecksums(r.directory)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"dynamo-crds-1.2.3-rc.1.tgz", "dynamo-platform-1.2.3-rc.1.tgz", "SHA256SUMS"}, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	cmd.Dir = r.directory
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

func TestChartsPackedTwiceAreTheSame(t *testing.T) {
	t.Parallel()
	one := release{root: "../..", directory: t.TempDir(), version: "1.2.3"}
	other := release{root: "../..", directory: t.TempDir(), version: "1.2.3"}
	for _, r := range []release{one, other} {
		if err := r.charts(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"dynamo-crds-1.2.3.tgz", "dynamo-platform-1.2.3.tgz"} {
		helm := exec.CommandContext(t.Context(), "go", "tool", "helm", "template", "dynamo", filepath.Join(one.directory, name))
		if said, err := helm.CombinedOutput(); err != nil {
			t.Errorf("Helm does not take %s: %v\n%s", name, err, said)
		}
		if !bytes.Equal(read(t, filepath.Join(one.directory, name)), read(t, filepath.Join(other.directory, name))) {
			t.Errorf("packed twice, %s differs", name)
		}
	}
}

// What the command image calls the operator's image, with the same repository and version, is in its own test.
func TestTheChartOfAReleasePullsTheImageOfTheRelease(t *testing.T) {
	t.Parallel()
	for repository, want := range map[string]string{
		"":                           "dynamo-operator:1.2.3",
		"registry.example.com/team":  "registry.example.com/team/dynamo-operator:1.2.3",
		"registry.example.com:5000/": "registry.example.com:5000/dynamo-operator:1.2.3",
	} {
		said := render(t, chartOf(t, repository))
		if got := operatorImage(said); got != want {
			t.Errorf("with the repository %q the operator is pulled from %s, want %s", repository, got, want)
		}
		if repository != "" && strings.Count(said, strings.TrimSuffix(repository, "/")) != 1 {
			t.Errorf("with the repository %q others are pulled from there, too", repository)
		}
	}
}

// TestAUsersRegistryWinsOverThatOfTheRelease however it is given: a cluster without a way out has its own.
func TestAUsersRegistryWinsOverThatOfTheRelease(t *testing.T) {
	t.Parallel()
	const image = "dynamo-operator.controllerManager.manager.image."
	chart := chartOf(t, "registry.example.com/team")
	for _, row := range []struct {
		values []string
		want   string
	}{
		{[]string{image + "registry=mirror.corp/a"}, "mirror.corp/a/dynamo-operator:1.2.3"},
		{[]string{"global.imageRegistry=mirror.corp/b"}, "mirror.corp/b/dynamo-operator:1.2.3"},
		{[]string{"global.imageRegistry=mirror.corp/b", image + "registry=mirror.corp/a"}, "mirror.corp/a/dynamo-operator:1.2.3"},
		{[]string{image + "repository=mirror.corp/dynamo/dynamo-operator"}, "mirror.corp/dynamo/dynamo-operator:1.2.3"},
		{[]string{"global.imageRegistry=mirror.corp/b", image + "repository=localhost/dynamo-operator"}, "localhost/dynamo-operator:1.2.3"},
		{[]string{image + "repository=ours/dynamo-operator", image + "tag=x"}, "registry.example.com/team/ours/dynamo-operator:x"},
	} {
		if got := operatorImage(render(t, chart, row.values...)); got != row.want {
			t.Errorf("with %v the operator is pulled from %s, want %s", row.values, got, row.want)
		}
	}
}

func TestARegistryIsWrittenOnlyWhereItWasLeftOpen(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ document, want, wrong string }{
		{"a: # first\n    b: \"\"   # second\nb: \"\"\n", "a: # first\n    b: \"x.y/z\"   # second\nb: \"\"\n", ""},
		{"a: {c: \"\", b: \"\"}\n", "a: {c: \"\", b: \"x.y/z\"}\n", ""},
		{"a: {c: \"\"}\n", "", "there is no key a.b"},
		{"a: \"\"\n", "", "there is no key a.b"},
		{"", "", "there is no key a.b"},
		{"a: {b: registry.example.com}\n", "", `a.b is not "" but "registry.example.com"`},
		{"a:\n  b:\n", "", `a.b is not "" but ""`},
	} {
		got, err := fill([]byte(row.document), "x.y/z", "a", "b")
		if wrong := fmt.Sprint(err); string(got) != row.want || err == nil && row.wrong != "" || err != nil && wrong != row.wrong {
			t.Errorf("%q becomes %q: %v", row.document, got, err)
		}
	}
}

// chartOf is the platform of version 1.2.3, packed for images in a repository.
func chartOf(t *testing.T, repository string) string {
	t.Helper()
	r := release{root: "../..", directory: t.TempDir(), version: "1.2.3", repository: repository}
	if err := r.charts(t.Context()); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(r.directory, "dynamo-platform-1.2.3.tgz")
}

// render is what Helm makes of a chart with values, each in the words of --set.
func render(t *testing.T, chart string, values ...string) string {
	t.Helper()
	args := []string{"tool", "helm", "template", "dynamo", chart}
	for _, value := range values {
		args = append(args, "--set", value)
	}
	said, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return string(said)
}

// operatorImage is the image that the one container of the operator is of.
func operatorImage(manifests string) string {
	images := regexp.MustCompile(`(?m)image: "?([^"\s]*dynamo-operator[^"\s]*)"?$`).FindAllStringSubmatch(manifests, -1)
	if len(images) != 1 {
		return fmt.Sprint(images)
	}
	return images[0][1]
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// charts are the Chart.yaml files of a package.
func charts(t *testing.T, path string) map[string]string {
	t.Helper()
	files, err := unpack(path)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, f := range files {
		if filepath.Base(f.name) == "Chart.yaml" {
			found[f.name] = string(f.content)
		}
	}
	return found
}

func TestAReleaseReplacesTheLastThatUpgradesAreTestedFrom(t *testing.T) {
	t.Parallel()
	released, kept := t.TempDir(), t.TempDir()
	write := func(path string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(filepath.Base(path)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(kept, "dynamo-crds-1.0.0.tgz"))
	write(filepath.Join(kept, "dynamo-operator-1.0.0.commit"))
	write(filepath.Join(kept, "README.md"))
	write(filepath.Join(released, "dynamo-crds-1.1.0.tgz"))
	write(filepath.Join(released, "dynamo-operator-1.1.0.oci.tar"))
	if err := (release{directory: released, version: "1.1.0"}).keep(kept, "0123abcd"); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(kept)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if diff := cmp.Diff([]string{"README.md", "dynamo-crds-1.1.0.tgz", "dynamo-operator-1.1.0.commit"}, names); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	if got := string(read(t, filepath.Join(kept, "dynamo-crds-1.1.0.tgz"))); got != "dynamo-crds-1.1.0.tgz" {
		t.Errorf("the chart that is kept holds %q", got)
	}
	if got := string(read(t, filepath.Join(kept, "dynamo-operator-1.1.0.commit"))); got != "0123abcd\n" {
		t.Errorf("the release says that it was made of %q", got)
	}
}
