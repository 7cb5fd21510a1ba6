// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/dynamo-operator/dynamo-operator/internal/offline"
)

// renderExamples is indented by two spaces, as kubectl does.
const renderExamples = `  # Everything the operator would create for a graph
  kubectl dynamo render -f examples/vllm/disagg.yaml

  # Only the names, for an operator with settings of its own
  kubectl dynamo render -f graph.yaml --config operator.yaml -o name

  # What a change of a manifest changes in the cluster
  kubectl dynamo render -f graph.yaml > new.yaml && diff old.yaml new.yaml`

// renderOptions are the flags of render.
type renderOptions struct {
	sources

	orchestrator string
	output       string
}

func renderCommand(streams genericiooptions.IOStreams) *cobra.Command {
	var o renderOptions
	cmd := &cobra.Command{
		Use:   "render -f FILE",
		Short: "Print every object the operator would create for the graphs and components in a file",
		Long: "Print every object the operator would create for the graphs, components and models in a file, in the order in\n" +
			"which it would create them, after filling in and checking what the API server would. No cluster is needed: whatever\n" +
			"the operator would read from one counts as empty, except volume claims that a graph expects to find, which count as\n" +
			"found.\n\n" +
			"Exit code 0 means that all is well, 1 that something in the files has to be changed (one line each on standard\n" +
			"error, naming the field; nothing is printed on standard output), 2 that the command line was not understood.",
		Example: renderExamples,
		Args:    noArguments,
		RunE:    func(*cobra.Command, []string) error { return o.run(streams) },
	}
	o.bind(cmd)
	f := cmd.Flags()
	f.StringVar(&o.orchestrator, "orchestrator", "", "what runs the pods: "+strings.Join(orchestrators(), ", ")+
		"; without it, the operator's own rule decides")
	f.StringVarP(&o.output, "output", "o", outputYAML, "output format: "+strings.Join(outputs(), ", "))
	return cmd
}

func orchestrators() []string {
	return []string{string(offline.Deployment), string(offline.LWS), string(offline.Grove)}
}

func (o *renderOptions) run(streams genericiooptions.IOStreams) error {
	if err := o.check(); err != nil {
		return err
	}
	operator, problems, err := o.operator()
	if err != nil {
		return err
	}
	operator.Orchestrator = offline.Orchestrator(o.orchestrator)
	files, err := o.read(streams.In)
	if err != nil {
		return err
	}
	var documents []offline.Document
	for _, f := range files {
		more, errs := offline.Read(f)
		documents, problems = append(documents, more...), append(problems, errs...)
	}
	objects, errs := offline.Objects(documents, operator)
	problems = append(problems, errs...)
	if len(problems) > 0 {
		return complain(streams.ErrOut, problems)
	}
	if len(documents) == 0 {
		return fmt.Errorf("nothing to render in %s", strings.Join(o.files, ", "))
	}
	return write(streams.Out, o.output, objects)
}

// check refuses command lines that make no sense.
func (o *renderOptions) check() error {
	if err := o.sources.check("render"); err != nil {
		return err
	}
	if !slices.Contains(outputs(), o.output) {
		return usagef("--output %q is not one of %s", o.output, strings.Join(outputs(), ", "))
	}
	if o.orchestrator != "" && !slices.Contains(orchestrators(), o.orchestrator) {
		return usagef("--orchestrator %q is not one of %s", o.orchestrator, strings.Join(orchestrators(), ", "))
	}
	return nil
}
