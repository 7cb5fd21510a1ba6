// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// Names of files inside a state directory that other processes look for.
const (
	lockFile       = "supervisor.lock"
	pidFile        = "supervisor.pid"
	recordFile     = "cluster.json"
	kubeconfigFile = "kubeconfig"
	logDirectory   = "logs"
)

// CacheDir returns the directory that holds built binaries, one subdirectory per component and version.
func CacheDir() (string, error) {
	if dir := os.Getenv("DYNAMO_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	return homeRelative("XDG_CACHE_HOME", ".cache", "dynamo-operator")
}

// StateDir returns the directory of the cluster called name.
// The name becomes a path element and part of object names, hence the narrow alphabet.
func StateDir(name string) (string, error) {
	if !regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`).MatchString(name) {
		return "", fmt.Errorf("cluster name %q: use up to 40 lower-case letters, digits and inner dashes", name)
	}
	if root := os.Getenv("DYNAMO_STATE"); root != "" {
		return filepath.Abs(filepath.Join(root, name))
	}
	return homeRelative("XDG_STATE_HOME", filepath.Join(".local", "state"), filepath.Join("dynamo-local", name))
}

func homeRelative(variable, fallback, rest string) (string, error) {
	if base := os.Getenv(variable); base != "" {
		return filepath.Abs(filepath.Join(base, rest))
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the home directory (set %s to choose another place): %w", variable, err)
	}
	return filepath.Join(home, fallback, rest), nil
}
