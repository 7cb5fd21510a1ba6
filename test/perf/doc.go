// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package perf measures what the operator asks of the API server, of the machine and of people who wait.
//
// Counts of requests do not depend on the machine, so the tests of this package assert them exactly. The exception is status writes about
// which time decides: the tests say which those are, and bound them. Everything else is measured by package scoreboard, with the parts that are here:
// a [Bed] is a control plane for one measurement, with an operator as a process of its own; a generator makes graphs; a simulator rolls
// Deployments out; recorders watch; the [NullWriter] shows how long the same writes take when nobody thinks about them; and figures
// are judged and stored.
package perf
