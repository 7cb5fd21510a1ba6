// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package bom

import (
	"crypto/sha256"
	"debug/buildinfo"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestABinaryIsDescribedByItsModules(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	d := describe(info, sha256.Sum256([]byte("binary")), Subject{Version: "1.2.3", Image: "registry.example.com/team/operator:1.2.3", Digest: "sha256:aa"})
	program := d.Metadata.Component
	if program.Version != "1.2.3" || !strings.HasPrefix(program.PURL, "pkg:golang/"+info.Main.Path+"@1.2.3") || len(program.Hashes) != 1 {
		t.Errorf("the program itself: %+v", program)
	}
	if diff := cmp.Diff([]property{{"image", "registry.example.com/team/operator:1.2.3"}, {"image:digest", "sha256:aa"}}, program.Properties); diff != "" {
		t.Errorf("the image (-want +got):\n%s", diff)
	}
	dependsOnAll(t, d, info)
}

// dependsOnAll checks that a document names every module that a program was made of.
func dependsOnAll(t *testing.T, d document, info *debug.BuildInfo) {
	t.Helper()
	program := d.Metadata.Component
	if len(d.Dependencies) != 1 || d.Dependencies[0].Reference != program.Reference || len(d.Dependencies[0].On) != len(d.Components) {
		t.Errorf("it depends on %+v", d.Dependencies)
	}
	if d.Components[0].Name != "std" || d.Components[0].Version == "" {
		t.Errorf("the standard library is not named first: %+v", d.Components[0])
	}
	for _, m := range info.Deps {
		if !slices.ContainsFunc(d.Components, func(c component) bool { return c.Name == m.Path && c.Version == m.Version && len(c.Hashes) == 1 }) {
			t.Errorf("%s %s is missing, or has no checksum", m.Path, m.Version)
		}
	}
}

func TestADocumentIsCalledAfterWhatItDescribes(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	one, other := sha256.Sum256([]byte("one")), sha256.Sum256([]byte("other"))
	seen := map[string]bool{}
	for _, s := range []string{
		serial(one, Subject{}), serial(other, Subject{}), serial(one, Subject{Version: "1"}), serial(one, Subject{Version: "1", Digest: "d"}),
	} {
		if !form.MatchString(s) || seen[s] {
			t.Errorf("%s is no UUID, or has been given before", s)
		}
		seen[s] = true
	}
	if again := serial(one, Subject{}); !seen[again] {
		t.Errorf("the same document has another name: %s", again)
	}
}

func TestWithoutAVersionThatOfTheModuleIsNamed(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{Path: "example.com/m/cmd/x", Main: debug.Module{Path: "example.com/m", Version: "v0.1.0"}}
	got := describe(info, sha256.Sum256(nil), Subject{}).Metadata.Component
	if got.Version != "v0.1.0" || got.PURL != "pkg:golang/example.com/m@v0.1.0#cmd/x" || got.Properties != nil {
		t.Errorf("got %+v", got)
	}
}

func TestAChecksumIsTurnedIntoHexadecimal(t *testing.T) {
	t.Parallel()
	if got := hashes("h1:AAEC"); len(got) != 1 || got[0].Content != "000102" {
		t.Errorf("got %v", got)
	}
	if got := hashes(""); got != nil {
		t.Errorf("a module without a checksum has %v", got)
	}
}
