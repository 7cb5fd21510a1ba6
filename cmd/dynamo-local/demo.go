// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/cobra"

func demoCommand(root *rootOptions) *cobra.Command { return &cobra.Command{Use: "demo"} }
