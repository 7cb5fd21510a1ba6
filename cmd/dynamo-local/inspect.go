// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
)

func downCommand(root *rootOptions) *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop a cluster and remove what it left",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := localcluster.StateDir(root.name)
			if err != nil {
				return err
			}
			err = localcluster.Down(cmd.Context(), dir, keep)
			if errors.Is(err, localcluster.ErrNotRunning) {
				_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "cluster %s was not running\n", root.name)
				return nil
			}
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "cluster %s is stopped\n", root.name)
			return nil
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "keep data, logs and certificates for the next up")
	return cmd
}

func statusCommand(root *rootOptions) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say whether a cluster runs and how its parts are; fails when it does not run",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return fmt.Errorf("output format %q: only json is known", output)
			}
			dir, err := localcluster.StateDir(root.name)
			if err != nil {
				return err
			}
			status, err := localcluster.ReadStatus(cmd.Context(), dir)
			if errors.Is(err, localcluster.ErrNotRunning) {
				return reportStopped(cmd.OutOrStdout(), root.name, output)
			}
			if err != nil {
				return err
			}
			if output == "json" {
				return printJSON(cmd.OutOrStdout(), status)
			}
			return printStatus(cmd.OutOrStdout(), status)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json for output that programs can read")
	return cmd
}

func reportStopped(out io.Writer, name, output string) error {
	if output == "json" {
		return errors.Join(printJSON(out, map[string]any{"running": false, "name": name}), errSaid)
	}
	_, _ = fmt.Fprintf(out, "cluster %s is not running; start it with: dynamo-local up --name %s\n", name, name)
	return errSaid
}

func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	return nil
}

func printStatus(out io.Writer, status *localcluster.Status) error {
	_, _ = fmt.Fprintf(out, "cluster %s is %s, supervised by process %d\n", status.Name, status.Phase, status.SupervisorPID)
	_, _ = fmt.Fprintf(out, "address    %s\nkubeconfig %s\n", status.Server, status.Kubeconfig)
	if status.AuditLog != "" {
		_, _ = fmt.Fprintf(out, "audit log  %s\n", status.AuditLog)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "\nCOMPONENT\tVERSION\tPID\tHEALTH\tADDRESS")
	for _, h := range status.Health {
		health := "ok"
		if !h.Healthy {
			health = h.Detail
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", h.Name, dash(status.Versions[h.Name]), pidText(h.PID), health, dash(h.Address))
	}
	if len(status.Nodes) > 0 {
		_, _ = fmt.Fprintln(table, "\nNODE\tREADY\tGPUS")
	}
	for _, n := range status.Nodes {
		_, _ = fmt.Fprintf(table, "%s\t%t\t%d\n", n.Name, n.Ready, n.GPUs)
	}
	if status.NodesError != "" {
		_, _ = fmt.Fprintf(table, "\nnodes are unknown: %s\n", status.NodesError)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	return nil
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func pidText(pid int) string {
	if pid == 0 {
		return "-"
	}
	return fmt.Sprint(pid)
}

func kubeconfigCommand(root *rootOptions) *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the path of a kubeconfig",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := localcluster.StateDir(root.name)
			if err != nil {
				return err
			}
			path, err := localcluster.Kubeconfig(dir, user)
			if errors.Is(err, localcluster.ErrNotRunning) {
				return fmt.Errorf("there is no cluster %s; start it with: dynamo-local up --name %s", root.name, root.name)
			}
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintln(cmd.OutOrStdout(), path)
			return nil
		},
	}
	cmd.Flags().StringVar(&user, "user", localcluster.UserAdmin, "actor whose kubeconfig to print")
	return cmd
}

func binCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "bin",
		Short: "Print the directory of the built binaries, building them if need be",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := localcluster.BinDir(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintln(cmd.OutOrStdout(), dir)
			return nil
		},
	}
}
