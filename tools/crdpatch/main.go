// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command crdpatch turns the output of controller-gen into the CustomResourceDefinitions we ship.
//
// The generator cannot express four things the wire contract needs: a pod overlay in which nothing is required, an
// endpoint picker configuration that keeps members we do not know, CRDs that survive the removal of their Helm release,
// and manifests small enough for a client-side kubectl apply. All files are patched before the first one is written,
// so a failure leaves the old set complete.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	in := flag.String("in", "", "directory with the CRDs written by controller-gen")
	out := flag.String("out", "", "directory that receives the patched CRDs")
	flag.Parse()
	if err := run(*in, *out); err != nil {
		fmt.Fprintln(os.Stderr, "crdpatch:", err)
		os.Exit(1)
	}
}

// run patches every CRD of one directory into another.
func run(in, out string) error {
	if in == "" || out == "" {
		return fmt.Errorf("both -in and -out are needed")
	}
	paths, err := filepath.Glob(filepath.Join(in, "*.yaml"))
	if err != nil {
		return fmt.Errorf("list CRDs in %s: %w", in, err)
	}
	if len(paths) == 0 {
		return fmt.Errorf("no CRDs in %s", in)
	}
	slices.Sort(paths)
	patched := make(map[string][]byte, len(paths))
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read CRD: %w", err)
		}
		result, err := patch(source)
		if err != nil {
			return fmt.Errorf("patch %s: %w", filepath.Base(path), err)
		}
		patched[filepath.Base(path)] = result
	}
	return write(out, patched)
}

// write stores the patched CRDs, and removes CRDs of kinds that no longer exist.
func write(out string, patched map[string][]byte) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("make output directory: %w", err)
	}
	existing, err := filepath.Glob(filepath.Join(out, "*.yaml"))
	if err != nil {
		return fmt.Errorf("list CRDs in %s: %w", out, err)
	}
	for _, path := range existing {
		if _, wanted := patched[filepath.Base(path)]; wanted {
			continue
		}
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove stale CRD: %w", err)
		}
	}
	for name, content := range patched {
		if err := os.WriteFile(filepath.Join(out, name), content, 0o644); err != nil {
			return fmt.Errorf("write CRD: %w", err)
		}
	}
	return nil
}
