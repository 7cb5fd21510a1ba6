// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package models tells what becomes of models and adapters on a cluster whose controllers run. Its pods are simulated; behind
// the address of each stands a mock engine, and a front end finds them as it does in a cluster, with the account of the graph.
package models

import (
	"testing"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m, harness.WithNodes(8, 8)) }
