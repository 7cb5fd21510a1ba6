// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlacesFollowTheEnvironment(t *testing.T) {
	for name, tc := range map[string]struct {
		env         map[string]string
		cache, data string
	}{
		"nothing set":   {env: map[string]string{"HOME": "/h"}, cache: "/h/.cache/dynamo-operator", data: "/h/.local/state/dynamo-local/c"},
		"XDG set":       {env: map[string]string{"XDG_CACHE_HOME": "/x", "XDG_STATE_HOME": "/y"}, cache: "/x/dynamo-operator", data: "/y/dynamo-local/c"},
		"our variables": {env: map[string]string{"DYNAMO_CACHE": "/a", "DYNAMO_STATE": "/b"}, cache: "/a", data: "/b/c"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, variable := range []string{"DYNAMO_CACHE", "DYNAMO_STATE", "XDG_CACHE_HOME", "XDG_STATE_HOME"} {
				t.Setenv(variable, tc.env[variable])
			}
			if home := tc.env["HOME"]; home != "" {
				t.Setenv("HOME", home)
			}
			cache, err := CacheDir()
			if err != nil {
				t.Fatal(err)
			}
			data, err := StateDir("c")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tc.cache, tc.data}, []string{cache, data}); diff != "" {
				t.Errorf("places (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClusterNameCannotLeaveItsDirectory(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "..", "a/b", "A", "-a", "a-", strings.Repeat("a", 41)} {
		if dir, err := StateDir(name); err == nil {
			t.Errorf("name %q was accepted and leads to %s", name, dir)
		}
	}
}
