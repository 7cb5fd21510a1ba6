// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/dynamo-operator/dynamo-operator/internal/admission"
	"github.com/dynamo-operator/dynamo-operator/internal/offline"
)

const lintExamples = `  # Everything that is wrong with a manifest, before it is applied
  kubectl dynamo lint -f graph.yaml

  # A repository, for a cluster with Grove and without InferencePools; warnings fail as well
  kubectl dynamo lint -R -f deploy/ --capabilities grove,kai --strict

  # For another program
  kubectl dynamo lint -f graph.yaml -o json`

// outputText is for people.
const outputText = "text"

// lintOptions are the flags of lint.
type lintOptions struct {
	sources

	known  bool // which APIs the cluster has
	strict bool
	output string
}

func lintCommand(streams genericiooptions.IOStreams) *cobra.Command {
	var o lintOptions
	cmd := &cobra.Command{
		Use:   "lint -f FILE",
		Short: "Say what is wrong with the manifests in a file, and what may be",
		Long: "Judge the manifests in a file by everything that they meet on their way: unknown and mistyped fields, the\n" +
			"definitions of our kinds with their rules, the rules of the operator's webhook, and what the operator refuses to\n" +
			"make anything of. Warnings are about what is allowed and hardly meant, notes about what is good to know. No\n" +
			"cluster is needed. What is not ours is passed over.\n\n" +
			"Without --capabilities nothing is refused for an API that the cluster may not have.\n\n" +
			"Exit code 0 means that there are no errors, 1 that something in the files has to be changed, 2 that the command\n" +
			"line was not understood.",
		Example: lintExamples,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.known = cmd.Flags().Changed("capabilities")
			return o.run(streams)
		},
	}
	o.bind(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.strict, "strict", false, "let warnings fail as errors do")
	f.StringVarP(&o.output, "output", "o", outputText, "output format: "+strings.Join(lintOutputs(), ", "))
	return cmd
}

func lintOutputs() []string { return []string{outputText, outputJSON} }

func (o *lintOptions) run(streams genericiooptions.IOStreams) error {
	if err := o.check("lint"); err != nil {
		return err
	}
	if !slices.Contains(lintOutputs(), o.output) {
		return usagef("--output %q is not one of %s", o.output, strings.Join(lintOutputs(), ", "))
	}
	operator, problems, err := o.operator()
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return complain(streams.ErrOut, problems)
	}
	files, err := o.read(streams.In)
	if err != nil {
		return err
	}
	report := offline.Lint(files, o.cluster(operator))
	if report.Objects+len(report.Findings) == 0 {
		return fmt.Errorf("nothing to lint in %s", strings.Join(o.files, ", "))
	}
	if err := o.write(streams, report); err != nil {
		return err
	}
	if report.Count(admission.Refusal) > 0 || o.strict && report.Count(admission.Warning) > 0 {
		return errSaid
	}
	return nil
}

// cluster is the operator in the cluster that the user told of. One that nothing is known of can run everything.
func (o *lintOptions) cluster(operator offline.Operator) offline.Operator {
	switch serves := &operator.Settings.Serves; {
	case !o.known:
		serves.LWS = true
	case serves.InferencePool:
		operator.InferencePools = admission.PresenceServed
	default:
		operator.InferencePools = admission.PresenceAbsent
	}
	return operator
}

func (o *lintOptions) write(streams genericiooptions.IOStreams, report offline.Report) error {
	if o.output == outputJSON {
		return written(writeFindings(streams.Out, report))
	}
	for _, p := range report.Findings {
		place := p.Source
		if p.Line > 0 {
			place = fmt.Sprintf("%s:%d", p.Source, p.Line)
		}
		parts := []string{place, string(p.Level)}
		if p.Object != "" {
			parts = append(parts, p.Object)
		}
		say(streams.Out, "%s", strings.Join(append(parts, p.Text()), ": "))
	}
	say(streams.ErrOut, "%s: %s, %s, %s", count(report.Objects, "object"), count(report.Count(admission.Refusal), "error"),
		count(report.Count(admission.Warning), "warning"), count(report.Count(admission.Note), "note"))
	return nil
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// finding is a problem as other programs read it.
type finding struct {
	Level    admission.Level `json:"level"`
	Rule     string          `json:"rule"`
	File     string          `json:"file"`
	Document int             `json:"document,omitempty"`
	Line     int             `json:"line,omitempty"`
	Object   string          `json:"object,omitempty"`
	Field    string          `json:"field,omitempty"`
	Message  string          `json:"message"`
}

func writeFindings(out io.Writer, report offline.Report) error {
	findings := make([]finding, 0, len(report.Findings))
	for _, p := range report.Findings {
		findings = append(findings, finding{
			Level: p.Level, Rule: p.Rule, File: p.Source, Document: p.Document, Line: p.Line, Object: p.Object, Field: p.Field(),
			Message: strings.TrimPrefix(p.Text(), p.Field()+": "),
		})
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "    ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(struct {
		Objects  int       `json:"objects"`
		Findings []finding `json:"findings"`
	}{report.Objects, findings})
}
