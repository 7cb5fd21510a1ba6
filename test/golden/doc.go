// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package golden holds manifests and, beside each, every object that the operator makes of it.
//
// A case is a directory: input.yaml is what a user writes, operator.yaml, if there is one, the operator's configuration,
// objects.yaml the result in the order of applying, or error.txt the problems of an input that is refused. COVERAGE.md
// says which rule of rendering is shown by which case.
//
// `go test ./test/golden -update` writes the results anew. They are the contract with users' clusters: whoever updates
// them reads the difference line by line and can say for each why it is right.
package golden
