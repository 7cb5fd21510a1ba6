// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "testing"

func TestTheVersionIsTheOneThatWasToldOrThatOfTheBuild(t *testing.T) {
	t.Parallel()
	c := &Config{}
	for told, want := range map[string]string{"1.2.3": "1.2.3", "v9": "v9"} {
		c.OperatorVersion = told
		if c.Version() != want || c.Stamp() != want {
			t.Errorf("told %q: version %q, stamp %q", told, c.Version(), c.Stamp())
		}
	}
	for module, want := range map[string]string{"": "unknown", "(devel)": "unknown", "v0.4.0": "v0.4.0"} {
		if got := versionOf("", module); got != want {
			t.Errorf("build of %q: %q, want %q", module, got, want)
		}
		if got := versionOf("1.2.3", module); got != "1.2.3" {
			t.Errorf("build of %q, linked as 1.2.3: %q", module, got)
		}
	}
	c.OperatorVersion = "unknown"
	if c.Stamp() == "unknown" {
		t.Error("graphs are stamped with a version that says nothing")
	}
}
