// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster/demo"
)

// demoName is the cluster and the namespace of the demo, apart from those a person may have of their own.
const demoName = "demo"

// demoFlags are what demo has beyond the flags of a cluster.
type demoFlags struct {
	clusterFlags
	file    string
	timeout time.Duration
}

func demoCommand(root *rootOptions) *cobra.Command {
	var flags demoFlags
	cmd := &cobra.Command{
		Use:   "demo --operator BINARY --file MANIFEST [flags] [-- operator arguments]",
		Short: "Start a cluster with the operator, deploy a graph and watch it become ready",
		RunE: func(cmd *cobra.Command, args []string) error {
			name := root.name
			if !cmd.Flags().Changed("name") {
				name = demoName
			}
			o, err := flags.options(name, args, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return runDemo(cmd.Context(), o, flags, cmd.OutOrStdout())
		},
	}
	flags.register(cmd)
	cmd.Flags().StringVar(&flags.file, "file", "", "manifest with at least one DynamoGraphDeployment")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", 5*time.Minute, "how long the graph may take to become ready")
	for _, required := range []string{"operator", "file"} {
		if err := cmd.MarkFlagRequired(required); err != nil {
			panic(err) // the flag is registered three lines above
		}
	}
	return cmd
}

func runDemo(ctx context.Context, o localcluster.Options, flags demoFlags, out io.Writer) error {
	if _, err := os.Stat(flags.file); err != nil {
		return fmt.Errorf("the manifest of --file cannot be read: %w", err) // before minutes go into a cluster
	}
	binaries, err := localcluster.EnsureBinaries(ctx, []string{localcluster.Kubectl}, o.Progress)
	if err != nil {
		return err
	}
	record, err := demoCluster(ctx, o)
	if err != nil {
		return err
	}
	config, err := localcluster.LoadRESTConfig(record.Kubeconfig)
	if err != nil {
		return err
	}
	err = demo.Run(ctx, demo.Options{
		Config: config, File: flags.file, Namespace: demoName, Timeout: flags.timeout,
		OperatorLog: operatorLog(record), Alive: operatorAlive(record), Out: out, Now: time.Now,
	})
	printHints(out, record, binaries[localcluster.Kubectl])
	return err
}

// demoCluster returns a running cluster as asked for. One that runs already is used as it is when it fits, and started
// again on the same data when it does not, for example because the operator was rebuilt.
func demoCluster(ctx context.Context, o localcluster.Options) (*localcluster.Record, error) {
	result, err := startCluster(ctx, o)
	if err != nil {
		return nil, err
	}
	if !result.AlreadyRunning {
		return result.Record, nil
	}
	reason, err := misfit(ctx, result.Record, o)
	if err != nil {
		return nil, err
	}
	if reason == "" {
		_, _ = fmt.Fprintf(o.Progress, "using cluster %s, which is running already\n", o.Name)
		return result.Record, nil
	}
	_, _ = fmt.Fprintf(o.Progress, "starting cluster %s again: %s\n", o.Name, reason)
	if err := localcluster.Down(ctx, result.Record.Options.StateDir, true); err != nil {
		return nil, err
	}
	result, err = startCluster(ctx, o)
	if err != nil {
		return nil, err
	}
	return result.Record, nil
}

// misfit says why a running cluster cannot be used for o, or nothing when it can.
func misfit(ctx context.Context, record *localcluster.Record, o localcluster.Options) (string, error) {
	has := record.Options
	if has.Nodes != o.Nodes || has.GPUs != o.GPUs || has.LWS != o.LWS || has.Audit != o.Audit || has.Fsync != o.Fsync {
		return "it was started with other options", nil
	}
	digest, err := o.Operator.Fingerprint()
	if err != nil {
		return "", err
	}
	if has.Operator == nil || has.Operator.Digest != digest {
		return "the operator is another one", nil
	}
	status, err := localcluster.ReadStatus(ctx, has.StateDir)
	if err != nil {
		return "", err
	}
	if !status.Healthy() {
		return "not all of its components are well", nil
	}
	return "", nil
}

func operatorLog(record *localcluster.Record) string {
	for _, c := range record.Components {
		if c.Name == localcluster.OperatorComponent {
			return c.Log
		}
	}
	return ""
}

// operatorAlive notices an operator that ends while the graph is waited for.
func operatorAlive(record *localcluster.Record) func(context.Context) error {
	return func(context.Context) error {
		return localcluster.CheckComponent(record.Options.StateDir, localcluster.OperatorComponent)
	}
}

// printHints says how to go on, whether the demo went well or not: the cluster stays up for a look around.
func printHints(out io.Writer, record *localcluster.Record, kubectl string) {
	_, _ = fmt.Fprintf(out, `
look further:
  export KUBECONFIG=%[1]s
  alias kubectl=%[2]s
  kubectl -n %[3]s get dgd,dcd,deploy,svc,pods
  kubectl -n %[3]s describe dgd
  kubectl -n %[3]s get events
  %[5]s status --name %[4]s
stop:
  make demo-down        (or: %[5]s down --name %[4]s)
`, record.Kubeconfig, kubectl, demoName, record.Name, os.Args[0])
}
