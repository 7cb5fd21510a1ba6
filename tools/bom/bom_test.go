// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package bom

import (
	"debug/buildinfo"
	"os"
	"slices"
	"testing"
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
	d := describe(info)
	if d.Components[0].Name != "std" || d.Components[0].Version == "" {
		t.Errorf("the standard library is not named first: %+v", d.Components[0])
	}
	for _, m := range info.Deps {
		if !slices.ContainsFunc(d.Components, func(c component) bool { return c.Name == m.Path && c.Version == m.Version && len(c.Hashes) == 1 }) {
			t.Errorf("%s %s is missing, or has no checksum", m.Path, m.Version)
		}
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
