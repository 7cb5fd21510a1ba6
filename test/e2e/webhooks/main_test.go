// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhooks tells how certificates and webhooks live with a real API server: who starts first, what is deleted,
// damaged or applied again, and that an operator that is down stands in nobody's way.
package webhooks

import (
	"testing"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m, harness.WithControllerManager(), harness.WithAudit()) }
