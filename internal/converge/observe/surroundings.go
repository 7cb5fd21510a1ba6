// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// Surroundings reads what a component finds in its namespace.
type Surroundings struct {
	// Cache holds registry secrets, folded to their hosts.
	Cache client.Reader
	// API is uncached. It is asked only for components that do not use the account the operator makes for them, so a
	// watch of all accounts of a cluster would cost more than it saves.
	API      client.Reader
	Settings input.Settings
}

// World returns what the component's pods need from their namespace.
func (s Surroundings) World(ctx context.Context, c *v1alpha1.DynamoComponentDeployment) (input.World, error) {
	var world input.World
	var err error
	if image := mainImage(c); image != "" && c.Spec.Annotations[names.AnnotationNoPullSecretDiscovery] != names.True {
		if world.PullSecrets, err = PullSecrets(ctx, s.Cache, c.Namespace, image); err != nil {
			return world, err
		}
	}
	if input.FromDeployment(c, s.Settings, nil).Discovery() != names.DiscoveryKubernetes {
		world.Account, err = s.markedAccount(ctx, c.Namespace)
	}
	return world, err
}

// markedAccount is the first account, by name, that carries the mark for component pods.
func (s Surroundings) markedAccount(ctx context.Context, namespace string) (string, error) {
	var accounts corev1.ServiceAccountList
	err := s.API.List(ctx, &accounts, client.InNamespace(namespace), client.MatchingLabels{names.LabelComponentPod: names.True})
	if err != nil {
		return "", fmt.Errorf("list accounts for component pods: %w", err)
	}
	marked := make([]string, 0, len(accounts.Items))
	for _, a := range accounts.Items {
		marked = append(marked, a.Name)
	}
	if len(marked) == 0 {
		return "", nil
	}
	return slices.Min(marked), nil
}

func mainImage(c *v1alpha1.DynamoComponentDeployment) string {
	if c.Spec.ExtraPodSpec == nil || c.Spec.ExtraPodSpec.MainContainer == nil {
		return ""
	}
	return c.Spec.ExtraPodSpec.MainContainer.Image
}
