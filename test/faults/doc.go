// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faults interrupts operators in every way a cluster can and demands that they end in the same place all the same.
//
// Stories are rows of a table; how they are interrupted is not their business. A fault is addressed by the story, its kind
// and the name of the write it hits, so that each can be repeated by itself. Faults happen on the [Wire] between an
// operator and its API server: as a transport of an operator in the test's process, or in a [Proxy] before any program.
package faults
