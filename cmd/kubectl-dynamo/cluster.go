// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// clusterOptions say which cluster a command talks to and as whom, with the flags of kubectl. They are those of client-go; the ones of
// cli-runtime would bring kustomize and a cache on disk along for the same.
type clusterOptions struct {
	kubeconfig string
	overrides  clientcmd.ConfigOverrides
}

func (o *clusterOptions) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "file that says how to reach the cluster; without it, $KUBECONFIG or ~/.kube/config")
	clientcmd.BindOverrideFlags(&o.overrides, f, clientcmd.RecommendedConfigOverrideFlags(""))
	f.Lookup("namespace").Usage = "namespace; without it, that of the context"
}

// namespace is the one that the command line names, if it names one.
func (o *clusterOptions) namespace() string { return o.overrides.Context.Namespace }

// connect returns how to reach the cluster, and the namespace to work in.
func (o *clusterOptions) connect() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &o.overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("find the cluster: %w; set KUBECONFIG or --kubeconfig", err)
	}
	// Commands ask a dozen questions at once and are done.
	config.QPS, config.Burst = -1, 0
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("find the namespace: %w", err)
	}
	return config, namespace, nil
}
