// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-dynamo is a kubectl plugin: on the PATH of a user it is `kubectl dynamo`.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// What the command tells whoever called it.
const (
	exitFine    = 0
	exitProblem = 1
	exitUsage   = 2
)

func main() {
	os.Exit(run(os.Args[1:], genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}))
}

// run executes one command line and returns its exit code.
func run(args []string, streams genericiooptions.IOStreams) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root := rootCommand(streams)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitFine
	}
	if usage, ok := errors.AsType[usageError](err); ok {
		say(streams.ErrOut, "error: %v\nSee '%s --help' for usage.", usage, command.CommandPath())
		return exitUsage
	}
	if !errors.Is(err, errSaid) {
		say(streams.ErrOut, "error: %v", err)
	}
	return exitProblem
}

// say writes a line for people. There is nobody left to tell if that fails.
func say(out io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(out, format+"\n", args...)
}

// usageError is a command line that cannot be understood.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errSaid makes the command fail without a further message, because it has explained itself already.
var errSaid = errors.New("failed")

func rootCommand(streams genericiooptions.IOStreams) *cobra.Command {
	root := &cobra.Command{
		Use:           "kubectl-dynamo",
		Short:         "Look at Dynamo inference graphs and at what the operator makes of them",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl dynamo"},
		Args:          cobra.ArbitraryArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q", args[0])
			}
			return cmd.Help()
		},
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(dumpCommand(streams), lintCommand(streams), preflightCommand(streams), renderCommand(streams))
	return root
}

// noArguments refuses arguments that are not flags.
func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q", args[0])
	}
	return nil
}
