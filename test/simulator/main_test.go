// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"

	"github.com/dynamo-operator/dynamo-operator/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }
