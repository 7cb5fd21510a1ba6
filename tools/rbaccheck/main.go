// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command rbaccheck compares the operator's role in one mode, cluster-wide or restricted, with what operators of that mode asked
// of their API servers while all tests ran.
//
// It fails on a request that was denied, on a right that nobody used, on a right that is granted twice, and on a Secret
// that was listed without saying which. What has to be so all the same stands in a file of exceptions, with the reason;
// an exception that is no longer one fails, too.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

func main() {
	role := flag.String("role", "", "file with the operator's ClusterRole or Role")
	mode := flag.String("mode", "", "mode of the operators that have this role")
	exceptions := flag.String("exceptions", "", "file with exceptions")
	asked := flag.String("asked", "", "directory with what operators asked")
	flag.Parse()
	problems, err := run(*mode, *role, *exceptions, *asked)
	if err != nil {
		fmt.Fprintf(os.Stderr, "rbaccheck: %s: %v\n", *mode, err)
		os.Exit(1)
	}
	for _, p := range problems {
		fmt.Fprintf(os.Stderr, "rbaccheck: %s: %v\n", *mode, p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

func run(mode, rolePath, exceptionsPath, directory string) ([]string, error) {
	var role Role
	if err := read(rolePath, &role); err != nil {
		return nil, err
	}
	var exceptions Exceptions
	if err := read(exceptionsPath, &exceptions); err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(directory, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", directory, err)
	}
	var all []Asked
	for _, path := range paths {
		var some []Asked
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read what was asked: %w", err)
		}
		if err := json.Unmarshal(text, &some); err != nil {
			return nil, fmt.Errorf("decode %s: %w", path, err)
		}
		all = append(all, slices.DeleteFunc(some, func(a Asked) bool { return a.Mode != mode })...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no %s operator asked for anything in %s; the check would prove nothing", mode, directory)
	}
	return Check(role, exceptions.of(mode), all), nil
}

func read(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		return fmt.Errorf("decode %s: %w", path, err)
	}
	return nil
}
