// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "runtime/debug"

// unknownVersion is what an operator is called that nobody gave a version, which is how the reference calls it.
const unknownVersion = "unknown"

// linked is the version that the programs of an image are built as. The linker sets it, see tools/image and the Dockerfile; other builds
// have the version of their module, if any.
var linked string

// Version is the one that the operator was told, or else that of its build.
func (c *Config) Version() string {
	if c.OperatorVersion != "" && c.OperatorVersion != unknownVersion {
		return c.OperatorVersion
	}
	module := ""
	if build, ok := debug.ReadBuildInfo(); ok {
		module = build.Main.Version
	}
	return versionOf(linked, module)
}

// versionOf is the version of a build, as far as it has one.
func versionOf(linked, module string) string {
	switch {
	case linked != "":
		return linked
	case module == "" || module == "(devel)":
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
