// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command dynamo-local runs a real Kubernetes, and the operator in it, on one Linux machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// interruptedStatus is what shells expect of a command that was ended with Ctrl-C.
const interruptedStatus = 130

func main() {
	// The client library complains after half a minute when nobody has told it where to log.
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := rootCommand().ExecuteContext(ctx)
	if err == nil {
		return
	}
	if !errors.Is(err, errSaid) {
		fmt.Fprintln(os.Stderr, "dynamo-local:", err)
	}
	if ctx.Err() != nil {
		os.Exit(interruptedStatus)
	}
	os.Exit(1)
}

// errSaid makes the command fail without a further message, because it has explained itself already.
var errSaid = errors.New("failed")

// rootOptions apply to every subcommand.
type rootOptions struct {
	name string
}

func rootCommand() *cobra.Command {
	var root rootOptions
	cmd := &cobra.Command{
		Use:   "dynamo-local",
		Short: "A real Kubernetes on this machine, built from source",
		Long: "dynamo-local builds etcd, the Kubernetes control plane, kwok and the LeaderWorkerSet controller from pinned Go\n" +
			"modules, runs them on 127.0.0.1 and stops them again. It needs Go and nothing else.\n\n" +
			"Binaries are cached below $DYNAMO_CACHE (default ~/.cache/dynamo-operator), the state of clusters lies below\n" +
			"$DYNAMO_STATE (default ~/.local/state/dynamo-local).",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.PersistentFlags().StringVar(&root.name, "name", "default", "name of the cluster")
	cmd.AddCommand(
		upCommand(&root), downCommand(&root), statusCommand(&root), kubeconfigCommand(&root), binCommand(),
		demoCommand(&root), superviseCommand(),
	)
	return cmd
}
