// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"

	grovev1alpha1 "github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/apis"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/config"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/scope"
)

// cacheOptions keep memory proportional to what the operator made: children are selected by our label, pods by one of
// the component they belong to, and fields that nothing reads are dropped on arrival.
func cacheOptions(c *config.Config) cache.Options {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{names.LabelApplied: names.OperatorName})}
	opts := cache.Options{
		DefaultTransform:            observe.Lean,
		ReaderFailOnMissingInformer: true,
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.Deployment{}: ours, &corev1.Service{}: ours, &corev1.ServiceAccount{}: ours, &corev1.ConfigMap{}: ours,
			&rbacv1.Role{}: ours, &rbacv1.RoleBinding{}: ours, &networkingv1.Ingress{}: ours, &policyv1.PodDisruptionBudget{}: ours,
			&lwsv1.LeaderWorkerSet{}: ours, &grovev1alpha1.PodCliqueSet{}: ours,
			// Claims of others are looked for by name, but nothing of them is read.
			&corev1.PersistentVolumeClaim{}: {Transform: observe.MetadataOfClaim},
			&corev1.Pod{}:                   {Label: having(names.LabelComponent), Transform: observe.FoldPod},
			&discoveryv1.EndpointSlice{}:    {Label: having(names.LabelBaseModelHash), Transform: observe.FoldSlice},
			&appsv1.ControllerRevision{}:    {Label: having(lwsv1.SetNameLabelKey), Transform: observe.FoldRevision},
			&grovev1alpha1.PodClique{}:      {Transform: observe.FoldClique},
			&corev1.Secret{}:                secrets(c, ours.Label),
			&coordinationv1.Lease{}:         scope.Selected(),
		},
	}
	if c.RestrictedNamespace != "" {
		opts.DefaultNamespaces = map[string]cache.Config{c.RestrictedNamespace: {}}
		return opts
	}
	// Definitions belong to the whole cluster; all that is read of them is that they changed.
	opts.ByObject[apis.Definition()] = cache.ByObject{Transform: observe.NameAlone}
	return opts
}

// secrets are the operator's own, and the original of the key pair of mpirun, which a user may have made.
func secrets(c *config.Config, ours labels.Selector) cache.ByObject {
	s := c.Settings(Environment)
	namespace := c.RestrictedNamespace
	if namespace == "" {
		namespace = cache.AllNamespaces
	}
	of := map[string]cache.Config{namespace: {LabelSelector: ours}}
	// An operator of one namespace may have no rights in another; it reads the original there when it needs it.
	if s.SSHSecret != "" && s.SSHSecretNamespace != "" && (s.ClusterWide || s.SSHSecretNamespace == c.RestrictedNamespace) {
		of[s.SSHSecretNamespace] = cache.Config{FieldSelector: fields.OneTermEqualSelector("metadata.name", s.SSHSecret)}
	}
	return cache.ByObject{Namespaces: of}
}

// having selects what carries a label, whatever its value.
func having(label string) labels.Selector {
	r, err := labels.NewRequirement(label, selection.Exists, nil)
	if err != nil {
		return labels.Nothing() // the labels are constants of ours
	}
	return labels.NewSelector().Add(*r)
}

// +kubebuilder:rbac:groups="",resources=secrets,verbs=list;watch

// registrySecrets is a cache of its own for pull secrets, because one cache selects the objects of a kind in one way.
func registrySecrets(mgr manager.Manager, c *config.Config) (cache.Cache, error) {
	opts := cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(), ReaderFailOnMissingInformer: true,
		ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {
			Field:     fields.OneTermEqualSelector("type", string(corev1.SecretTypeDockerConfigJson)),
			Transform: observe.FoldPullSecret,
		}},
	}
	if c.RestrictedNamespace != "" {
		opts.DefaultNamespaces = map[string]cache.Config{c.RestrictedNamespace: {}}
	}
	registry, err := cache.New(mgr.GetConfig(), opts)
	if err != nil {
		return nil, fmt.Errorf("set up the cache of registry secrets: %w", err)
	}
	return registry, mgr.Add(registry)
}

// newCache makes a cache that takes options for kinds whose API is not there yet.
func newCache(api *rest.Config, opts cache.Options) (cache.Cache, error) {
	opts.Mapper = hopefulMapper{opts.Mapper}
	return cache.New(api, opts)
}
