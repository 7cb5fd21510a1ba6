// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestAReleasedVersionIsBuiltWithThePinnedGo(t *testing.T) {
	t.Parallel()
	const pinned, other, third = "go1.2.3", "go1.2.4", "go1.2.5"
	refused := "built with %s, but releases such as 4.5.6 are built with go1.2.3: use that one, or set ANY_GO=1 for images with digests of their own"
	differs := "built with %s: releases are built with go1.2.3, and digests differ from theirs"
	for name, tc := range map[string]struct {
		compiler, compressor, version, anyGo string
		refused                              string
		said                                 string
	}{
		"the pinned one":        {pinned, pinned, "4.5.6", "", "<nil>", "built with go1.2.3"},
		"another compiler":      {other, pinned, "4.5.6", "", fmt.Sprintf(refused, other), fmt.Sprintf(differs, other)},
		"another compressor":    {pinned, other, "4.5.6", "", fmt.Sprintf(refused, other), fmt.Sprintf(differs, other)},
		"another":               {other, other, "4.5.6", "", fmt.Sprintf(refused, other), fmt.Sprintf(differs, other)},
		"two others":            {other, third, "4.5.6", "", fmt.Sprintf(refused, other+" and "+third), fmt.Sprintf(differs, other+" and "+third)},
		"another that may be":   {other, other, "4.5.6", "1", "<nil>", fmt.Sprintf(differs, other)},
		"another, for a trial":  {other, pinned, "0.0.0-dev", "", "<nil>", fmt.Sprintf(differs, other)},
		"an experiment of that": {pinned + " X:jsonv2", pinned, "4.5.6", "", fmt.Sprintf(refused, pinned+" X:jsonv2"), fmt.Sprintf(differs, pinned+" X:jsonv2")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			used := toolchain{compiler: tc.compiler, compressor: tc.compressor, pinned: pinned}
			if got := fmt.Sprint(used.check(tc.version, tc.anyGo)); got != tc.refused {
				t.Errorf("got  %s\nwant %s", got, tc.refused)
			}
			if got := used.String(); got != tc.said {
				t.Errorf("it says %q, want %q", got, tc.said)
			}
		})
	}
}

// The Go that counts is that of the program which was built, and nothing is written for a version that must not be.
func TestTheGoOfAProgramDecides(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	r := release{
		root: copyOf(t), directory: directory, version: "1.2.3", architectures: []string{runtime.GOARCH},
		tools: toolchain{compressor: "go1.2.3", pinned: "go1.2.3"},
	}
	_, err := r.build(t.Context(), images()[1])
	if err == nil || !strings.Contains(err.Error(), "built with "+runtime.Version()+", but releases such as 1.2.3 are built with go1.2.3") {
		t.Errorf("got %v", err)
	}
	if files, err := os.ReadDir(directory); err != nil || len(files) > 0 {
		t.Errorf("it has written %v %v", files, err)
	}
}
