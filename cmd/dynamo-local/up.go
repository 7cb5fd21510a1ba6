// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dynamo-operator/dynamo-operator/config/crd"
	"github.com/dynamo-operator/dynamo-operator/config/rbac"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
)

// clusterFlags are shared by the commands that start a cluster.
type clusterFlags struct {
	nodes, gpus int
	lws         bool
	audit       bool
	fsync       bool
	operator    string
}

func (f *clusterFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.nodes, "nodes", 2, "number of simulated nodes")
	flags.IntVar(&f.gpus, "gpus", 8, "number of GPUs of each simulated node")
	flags.BoolVar(&f.lws, "lws", false, "run the LeaderWorkerSet controller")
	flags.BoolVar(&f.audit, "audit", false, "record every request to the API server")
	flags.BoolVar(&f.fsync, "fsync", false, "make etcd wait for the disk on every write")
	flags.StringVar(&f.operator, "operator", "", "operator binary to run in the cluster; arguments for it follow after --")
}

// options turns flags into a cluster. A cluster for people always has controllers and a scheduler; leaving them out is
// for tests.
func (f *clusterFlags) options(name string, operatorArgs []string, progress io.Writer) (localcluster.Options, error) {
	o := localcluster.Options{
		Name: name, Nodes: f.nodes, GPUs: f.gpus, LWS: f.lws, Audit: f.audit, Fsync: f.fsync,
		ControllerManager: true, Scheduler: true, Progress: progress,
	}
	if f.operator == "" {
		if len(operatorArgs) > 0 {
			return o, errors.New("arguments for the operator need --operator")
		}
		return o, nil
	}
	// With the rights it is shipped with and no others, so that a missing one shows here and not at a customer.
	role, err := rbac.ManagerRole()
	if err != nil {
		return o, err
	}
	o.Operator = &localcluster.OperatorOptions{Path: f.operator, Args: operatorArgs, Role: role}
	return o, nil
}

func upCommand(root *rootOptions) *cobra.Command {
	var flags clusterFlags
	cmd := &cobra.Command{
		Use:   "up [flags] [-- operator arguments]",
		Short: "Start a cluster and leave it running",
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := flags.options(root.name, args, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			result, err := startCluster(cmd.Context(), o)
			if err != nil {
				return err
			}
			printUp(cmd.OutOrStdout(), result)
			return nil
		},
	}
	flags.register(cmd)
	return cmd
}

// startCluster starts a cluster under a supervisor that is this same program.
func startCluster(ctx context.Context, o localcluster.Options) (*localcluster.UpResult, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	// The name is there for people who look at a list of processes.
	return localcluster.Up(ctx, o, []string{self, "supervise", "--name", o.Name})
}

func printUp(out io.Writer, result *localcluster.UpResult) {
	r := result.Record
	if result.AlreadyRunning {
		_, _ = fmt.Fprintf(out, "cluster %s is running already at %s with %s\n", r.Name, r.Server, describe(r.Options))
		_, _ = fmt.Fprintf(out, "to change that, stop it first: dynamo-local down --name %s\n", r.Name)
		return
	}
	_, _ = fmt.Fprintf(out, "cluster %s is ready at %s with %s\n", r.Name, r.Server, describe(r.Options))
	_, _ = fmt.Fprintf(out, "  export KUBECONFIG=%s\n", r.Kubeconfig)
}

// describe names the options that make a difference to a user.
func describe(o localcluster.Options) string {
	parts := []string{fmt.Sprintf("%d simulated nodes of %d GPUs", o.Nodes, o.GPUs)}
	if o.LWS {
		parts = append(parts, "the LeaderWorkerSet controller")
	}
	if o.Audit {
		parts = append(parts, "an audit log")
	}
	if o.Operator != nil {
		parts = append(parts, "operator "+strings.Join(append([]string{o.Operator.Path}, o.Operator.Args...), " "))
	}
	return strings.Join(parts, ", ")
}

// superviseCommand is what up starts in the background.
func superviseCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "supervise",
		Short:  "Own the processes of a cluster (started by up)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return localcluster.Supervise(func(o *localcluster.Options) { o.BeforeOperator = installCRDs })
		},
	}
}

// installCRDs brings the kinds of the operator into the cluster, also when the operator itself runs elsewhere.
func installCRDs(ctx context.Context, cluster *localcluster.Cluster) error {
	crds, err := crd.All()
	if err != nil {
		return err
	}
	config, err := cluster.RESTConfig(localcluster.UserAdmin)
	if err != nil {
		return err
	}
	return localcluster.InstallCRDs(ctx, config, crds)
}
