// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// clusterOptions say which cluster a command talks to, as for kubectl.
type clusterOptions struct {
	kubeconfig string
	context    string
	namespace  string
}

func (o *clusterOptions) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "file that says how to reach the cluster; without it, $KUBECONFIG or ~/.kube/config")
	f.StringVar(&o.context, "context", "", "context of that file to use")
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace; without it, that of the context")
}

// connect returns how to reach the cluster, and the namespace to work in.
func (o *clusterOptions) connect() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.context}
	overrides.Context.Namespace = o.namespace
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
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
