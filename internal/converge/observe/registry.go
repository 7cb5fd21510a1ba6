// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// dockerHub is the registry of images that name none.
	dockerHub = "docker.io"

	// hostsAnnotation carries, in the cache only, the registries a pull secret is for.
	hostsAnnotation = "nvidia.com/registry-hosts"
)

// FoldPullSecret reduces a registry secret to its name and the hosts it is for, before it is cached: the operator has no
// use for credentials, so it does not hold them.
func FoldPullSecret(obj any) (any, error) {
	secret, ok := obj.(*corev1.Secret)
	if !ok || secret.Data == nil && secret.Annotations[hostsAnnotation] != "" {
		return obj, nil // informers may fold an object twice
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: secret.Name, Namespace: secret.Namespace, UID: secret.UID, ResourceVersion: secret.ResourceVersion,
		Annotations: map[string]string{hostsAnnotation: strings.Join(registryHosts(secret.Data[corev1.DockerConfigJsonKey]), " ")},
	}}, nil
}

// registryHosts reads the hosts of a Docker configuration. One that cannot be read is for no host.
func registryHosts(config []byte) []string {
	var document struct {
		Auths map[string]json.RawMessage `json:"auths"`
	}
	if err := json.Unmarshal(config, &document); err != nil {
		return nil
	}
	hosts := make([]string, 0, len(document.Auths))
	for key := range document.Auths {
		if !strings.Contains(key, "://") {
			key = "https://" + key
		}
		if u, err := url.Parse(key); err == nil && u.Host != "" {
			hosts = append(hosts, canonicalHost(u.Host))
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// canonicalHost folds the names under which Docker Hub is known.
func canonicalHost(host string) string {
	switch host {
	case "index.docker.io", "registry-1.docker.io":
		return dockerHub
	}
	return host
}

// ImageHost is the registry of an image, by the rule of image references: the first part is a host if it looks like one.
func ImageHost(image string) string {
	first, _, found := strings.Cut(image, "/")
	if found && (strings.ContainsAny(first, ".:") || first == "localhost") {
		return canonicalHost(first)
	}
	return dockerHub
}

// PullSecrets returns the registry secrets of a namespace that are for an image, in the order of their names.
func PullSecrets(ctx context.Context, cache client.Reader, namespace, image string) ([]string, error) {
	var secrets corev1.SecretList
	if err := cache.List(ctx, &secrets, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list registry secrets: %w", err)
	}
	host := ImageHost(image)
	var found []string
	for _, s := range secrets.Items {
		if slices.Contains(strings.Fields(s.Annotations[hostsAnnotation]), host) {
			found = append(found, s.Name)
		}
	}
	slices.Sort(found)
	return found, nil
}
