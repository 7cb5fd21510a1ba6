// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package followed_test does what pages and verbs say, in the order in which they say it, on a real API server: every command of the
// guides, every verb of make that puts something into a cluster, and the upgrade of what the reference's chart leaves there.
package followed_test

import (
	"testing"

	"github.com/dynamo-operator/dynamo-operator/test/charts/story"
)

func TestMain(m *testing.M) { story.Main(m) }
