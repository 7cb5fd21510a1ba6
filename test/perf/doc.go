// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package perf counts what the operator asks of the API server. Counts do not depend on the machine, so they are
// asserted exactly.
package perf
