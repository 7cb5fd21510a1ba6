// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/config/crd"
	"github.com/dynamo-operator/dynamo-operator/internal/dump"
)

// dumpExamples is indented by two spaces, as kubectl does.
const dumpExamples = `  # Keep everything, and restore it into another cluster
  kubectl dynamo dump > backup.yaml
  kubectl --context other apply --server-side -f backup.yaml

  # Only one namespace
  kubectl dynamo dump -n team-a`

// dumpOptions are the flags of dump.
type dumpOptions struct {
	clusterOptions

	output string
}

func dumpCommand(streams genericiooptions.IOStreams) *cobra.Command {
	var o dumpOptions
	cmd := &cobra.Command{
		Use:   "dump",
		Short: "Print every graph, component, model and request of a cluster, fit to be applied again",
		Long: "Print all objects of nvidia.com as one List that kubectl applies, of all namespaces or of one. What the cluster and the\n" +
			"operator add is left out: status, identity, and objects that these or their pods made, which come back with them.\n" +
			"Objects that a controller of somebody else made are left out, too, and named on standard error: they come back with\n" +
			"what made them. Namespaces, Secrets, ConfigMaps and claims that graphs refer to are not part of it and have to be\n" +
			"there first. Requests that are restored begin anew: they profile again.\n\n" +
			"Exit code 0 means that all is well, 1 that the cluster could not be read, 2 that the command line was not understood.",
		Example: dumpExamples,
		Args:    noArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), streams) },
	}
	o.bind(cmd)
	f := cmd.Flags()
	f.Lookup("namespace").Usage = "only this namespace; without it, all"
	f.StringVarP(&o.output, "output", "o", outputYAML, "output format: "+strings.Join(dumpOutputs(), ", "))
	return cmd
}

func dumpOutputs() []string { return []string{outputYAML, outputJSON} }

func (o *dumpOptions) run(ctx context.Context, streams genericiooptions.IOStreams) error {
	if !slices.Contains(dumpOutputs(), o.output) {
		return usagef("--output %q is not one of %s", o.output, strings.Join(dumpOutputs(), ", "))
	}
	config, _, err := o.connect()
	if err != nil {
		return err
	}
	if err := namespaceExists(ctx, config, o.namespace()); err != nil {
		return err
	}
	found, err := everything(ctx, config, o.namespace())
	if err != nil {
		return err
	}
	kept, foreign := dump.Objects(found)
	for _, object := range foreign {
		controller := metav1.GetControllerOfNoCopy(object)
		say(streams.ErrOut, "left out: %s %s/%s, which %s %s made and has to make again",
			object.GetKind(), object.GetNamespace(), object.GetName(), controller.Kind, controller.Name)
	}
	var printer printers.ResourcePrinter = &printers.YAMLPrinter{}
	if o.output == outputJSON {
		printer = &printers.JSONPrinter{}
	}
	return written(printer.PrintObj(listOf(kept), streams.Out))
}

// namespaceExists refuses a namespace that is not there: an empty backup of a name with a mistake in it would be found out too late. Who
// may not look at namespaces is believed.
func namespaceExists(ctx context.Context, config *rest.Config, name string) error {
	if name == "" {
		return nil
	}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if _, err := core.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no namespace %q", name)
	}
	return nil
}

// everything reads all objects of our group. A kind that the cluster does not serve has no objects.
func everything(ctx context.Context, config *rest.Config, namespace string) ([]*unstructured.Unstructured, error) {
	api, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	definitions, err := crd.All()
	if err != nil {
		return nil, err
	}
	var found []*unstructured.Unstructured
	served := false
	for _, d := range definitions {
		resource := api.Resource(v1alpha1.GroupVersion.WithResource(d.Spec.Names.Plural)).Namespace(namespace)
		pages := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, opts)
		})
		err := pages.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
			if u, ok := o.(*unstructured.Unstructured); ok {
				found = append(found, u)
			}
			return nil
		})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", d.Spec.Names.Plural, err)
		}
		served = true
	}
	if !served {
		return nil, fmt.Errorf("the cluster has no definitions of %s: nothing to dump", v1alpha1.GroupVersion.Group)
	}
	return found, nil
}
