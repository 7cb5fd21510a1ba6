// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
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
	files        []string
	recursive    bool
	namespace    string
	config       string
	orchestrator string
	capabilities []string
	output       string
}

func renderCommand(streams genericiooptions.IOStreams) *cobra.Command {
	var o renderOptions
	cmd := &cobra.Command{
		Use:   "render -f FILE",
		Short: "Print every object the operator would create for the graphs and components in a file",
		Long: "Print every object the operator would create for the graphs, components and models in a file, in the order in\n" +
			"which it would create them. No cluster is needed: whatever the operator would read from one counts as empty,\n" +
			"except volume claims that a graph expects to find, which count as found.\n\n" +
			"Exit code 0 means that all is well, 1 that something in the files has to be changed (one line each on standard\n" +
			"error, naming the field; nothing is printed on standard output), 2 that the command line was not understood.",
		Example: renderExamples,
		Args:    noArguments,
		RunE:    func(*cobra.Command, []string) error { return o.run(streams) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVarP(&o.files, "filename", "f", nil, "file or directory with manifests, - for standard input")
	f.BoolVarP(&o.recursive, "recursive", "R", false, "also read the directories below those of -f")
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of objects that name none (default \"default\")")
	f.StringVar(&o.config, "config", "", "the operator's configuration file; without it, the defaults of its flags")
	f.StringVar(&o.orchestrator, "orchestrator", "", "what runs the pods: "+strings.Join(orchestrators(), ", ")+
		"; without it, the operator's own rule decides")
	f.StringSliceVar(&o.capabilities, "capabilities", nil, "APIs that the cluster has: "+strings.Join(capabilities(), ", "))
	f.StringVarP(&o.output, "output", "o", outputYAML, "output format: "+strings.Join(outputs(), ", "))
	return cmd
}

func orchestrators() []string {
	return []string{string(offline.Deployment), string(offline.LWS), string(offline.Grove)}
}

func capabilities() []string {
	return []string{"grove", "lws", "volcano", "kai", "istio", "inferencepool", "monitoring"}
}

func (o *renderOptions) run(streams genericiooptions.IOStreams) error {
	if err := o.check(); err != nil {
		return err
	}
	operator, problems, err := o.operator()
	if err != nil {
		return err
	}
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
		for _, p := range problems {
			say(streams.ErrOut, "%s", p.Error())
		}
		return errSaid
	}
	if len(documents) == 0 {
		return fmt.Errorf("nothing to render in %s", strings.Join(o.files, ", "))
	}
	return write(streams.Out, o.output, objects)
}

// check refuses command lines that make no sense.
func (o *renderOptions) check() error {
	if len(o.files) == 0 {
		return usagef("say what to render with -f FILE")
	}
	if !slices.Contains(outputs(), o.output) {
		return usagef("--output %q is not one of %s", o.output, strings.Join(outputs(), ", "))
	}
	for _, c := range o.capabilities {
		if !slices.Contains(capabilities(), c) {
			return usagef("--capabilities %q is not one of %s", c, strings.Join(capabilities(), ", "))
		}
	}
	if o.orchestrator != "" && !slices.Contains(orchestrators(), o.orchestrator) {
		return usagef("--orchestrator %q is not one of %s", o.orchestrator, strings.Join(orchestrators(), ", "))
	}
	return nil
}

// operator is the operator that is played.
func (o *renderOptions) operator() (offline.Operator, []offline.Problem, error) {
	operator, problems := offline.DefaultOperator(), []offline.Problem(nil)
	if o.config != "" {
		content, err := os.ReadFile(o.config)
		if err != nil {
			return offline.Operator{}, nil, err
		}
		operator, problems = offline.Configured(o.config, content)
	}
	operator.Orchestrator = offline.Orchestrator(o.orchestrator)
	for _, name := range o.capabilities {
		operator.Settings.Serves.Add(name) // those that change nothing that is rendered are not among them
	}
	return operator, problems, nil
}
