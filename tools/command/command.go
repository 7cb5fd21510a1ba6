// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command is how a tool that runs for long begins and ends.
package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
)

// Main runs a tool with the arguments of the process until it is done or interrupted, and ends the process if it fails.
func Main(name string, run func(ctx context.Context, args []string, out io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}
