// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"github.com/dynamo-operator/dynamo-operator/internal/preflight"
)

const outputTable = "table"

// The flags that say how and where to install.
const (
	flagPreset           = "preset"
	flagInstallNamespace = "install-namespace"
)

// preflightTime is how long all questions together may take.
const preflightTime = time.Minute

// preflightExamples is indented by two spaces, as kubectl does.
const preflightExamples = `  # Is this cluster ready for the operator, and for graphs in this namespace?
  kubectl dynamo preflight -n team-a

  # May I install an operator for this namespace alone?
  kubectl dynamo preflight -n team-a --install-namespace team-a --preset multi-tenant

  # In a pipeline: what stands in the way
  kubectl dynamo preflight -o json | jq '.findings[] | select(.state == "problem")'`

// preflightOptions are the flags of preflight.
type preflightOptions struct {
	clusterOptions

	install string
	preset  string
	// installing tells that one of the two was given.
	installing bool
	output     string
}

func preflightCommand(streams genericiooptions.IOStreams) *cobra.Command {
	var o preflightOptions
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "Tell whether a cluster is ready for the operator and for graphs",
		Long: "Look at the version of a cluster, its definitions, storage classes, GPUs, orchestrators, webhooks, operators and at\n" +
			"what you may do, and say what to do about what is found. Nothing is changed: a graph is sent for admission only if\n" +
			"there are webhooks, and not stored.\n\n" +
			"Whoever names a preset or a namespace to install in is going to install: then a right that is missing for it is a\n" +
			"problem, and otherwise a warning.\n\n" +
			"Exit code 0 means that nothing stands in the way, 1 that there is a problem or that the cluster did not answer,\n" +
			"2 that the command line was not understood.",
		Example: preflightExamples,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.installing = cmd.Flags().Changed(flagPreset) || cmd.Flags().Changed(flagInstallNamespace)
			return o.run(cmd.Context(), streams)
		},
	}
	o.bind(cmd)
	f := cmd.Flags()
	f.StringVar(&o.install, flagInstallNamespace, "dynamo-system", "namespace to install the operator in")
	f.StringVar(&o.preset, flagPreset, "", "preset of the chart dynamo-platform to install with: "+strings.Join(presets(), ", "))
	f.StringVarP(&o.output, "output", "o", outputTable, "output format: "+strings.Join(preflightOutputs(), ", "))
	return cmd
}

func preflightOutputs() []string { return []string{outputTable, outputJSON} }

// presets are those that can be named.
func presets() []string {
	var all []string
	for _, p := range preflight.Presets() {
		if p != preflight.PresetNone {
			all = append(all, string(p))
		}
	}
	return all
}

func (o *preflightOptions) run(ctx context.Context, streams genericiooptions.IOStreams) error {
	if !slices.Contains(preflightOutputs(), o.output) {
		return usagef("--output %q is not one of %s", o.output, strings.Join(preflightOutputs(), ", "))
	}
	if o.preset != "" && !slices.Contains(presets(), o.preset) {
		return usagef("--preset %q is not one of %s", o.preset, strings.Join(presets(), ", "))
	}
	config, namespace, err := o.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, preflightTime)
	defer cancel()
	facts, err := preflight.Read(ctx, preflight.Question{
		Config: config, Namespace: namespace, Install: o.install, Preset: preflight.Preset(o.preset),
		Installing: o.installing, Clock: clock.RealClock{},
	})
	if err != nil {
		return err
	}
	findings := preflight.Judge(facts)
	show := preflight.Table
	if o.output == outputJSON {
		show = preflight.JSON
	}
	if err := show(streams.Out, findings); err != nil {
		return err
	}
	if preflight.Failed(findings) {
		return errSaid
	}
	return nil
}
