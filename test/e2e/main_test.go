// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tells what users do and see, on a real API server.
package e2e

import (
	"testing"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m, harness.WithLooseTopology()) }
