// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "runtime/debug"

// unknownVersion is what an operator is called that nobody gave a version, which is how the reference calls it.
const unknownVersion = "unknown"

// Version is the one that the operator was told, or else that of its build.
func (c *Config) Version() string {
	if c.OperatorVersion != "" && c.OperatorVersion != unknownVersion {
		return c.OperatorVersion
	}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return unknownVersion
	}
	return versionOf(build.Main.Version)
}

// versionOf is the version of a build, as far as it has one.
func versionOf(module string) string {
	if module == "" || module == "(devel)" {
		return unknownVersion
	}
	return module
}

// Stamp is what new graphs are marked with: a version that a later release can make something of, or nothing.
func (c *Config) Stamp() string {
	if version := c.Version(); version != unknownVersion {
		return version
	}
	return ""
}
