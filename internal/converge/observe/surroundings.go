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
	world, err := s.pullSecrets(ctx, c.Namespace, &c.Spec.DynamoComponentDeploymentSharedSpec)
	if err == nil && input.FromDeployment(c, s.Settings, nil).Discovery() != names.DiscoveryKubernetes {
		world.Account, err = s.markedAccount(ctx, c.Namespace)
	}
	return world, err
}

// OfService returns what the pods of a service on Grove need from their namespace.
func (s Surroundings) OfService(ctx context.Context, g *v1alpha1.DynamoGraphDeployment, service string) (input.World, error) {
	return s.pullSecrets(ctx, g.Namespace, g.Spec.Services[service])
}

func (s Surroundings) pullSecrets(ctx context.Context, namespace string, spec *v1alpha1.DynamoComponentDeploymentSharedSpec) (input.World, error) {
	var world input.World
	image := mainImage(spec)
	if image == "" || spec.Annotations[names.AnnotationNoPullSecretDiscovery] == names.True {
		return world, nil
	}
	var err error
	world.PullSecrets, err = PullSecrets(ctx, s.Cache, namespace, image)
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

func mainImage(spec *v1alpha1.DynamoComponentDeploymentSharedSpec) string {
	if spec == nil || spec.ExtraPodSpec == nil || spec.ExtraPodSpec.MainContainer == nil {
		return ""
	}
	return spec.ExtraPodSpec.MainContainer.Image
}
