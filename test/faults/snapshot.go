// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// Snapshot is every object of a namespace by kind and name, without what differs between two runs of the same story.
type Snapshot map[string]map[string]any

// Versions is the resource version of every object of a namespace.
type Versions map[string]string

// notOurs are kinds in which the cluster keeps its own diary.
var notOurs = map[string]bool{"events": true, "leases": true, "endpoints": true, "endpointslices": true}

// World reads whole namespaces.
type World struct {
	api   dynamic.Interface
	kinds []schema.GroupVersionResource
}

// NewWorld discovers every kind that can be listed in a namespace, so that no child can be forgotten by a test.
func NewWorld(config *rest.Config) (*World, error) {
	api, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	finder, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make discovery client: %w", err)
	}
	lists, err := finder.ServerPreferredNamespacedResources()
	if err != nil {
		return nil, fmt.Errorf("discover kinds: %w", err)
	}
	w := &World{api: api}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") && !strings.Contains(r.Name, "/") && !notOurs[r.Name] {
				w.kinds = append(w.kinds, gv.WithResource(r.Name))
			}
		}
	}
	return w, nil
}

// Read returns what is in a namespace.
func (w *World) Read(ctx context.Context, namespace string) (Snapshot, Versions, error) {
	snapshot, versions, _, err := w.Inspect(ctx, namespace, nil)
	return snapshot, versions, err
}

// Some returns some objects of a namespace, by their keys. What is not there is left out.
func (w *World) Some(ctx context.Context, namespace string, keys ...string) (Snapshot, error) {
	some := Snapshot{}
	for _, key := range keys {
		resource, name := split(key)
		at := slices.IndexFunc(w.kinds, func(k schema.GroupVersionResource) bool { return k.Resource == resource })
		if at < 0 {
			return nil, fmt.Errorf("there is no resource %s", resource)
		}
		object, err := w.api.Resource(w.kinds[at]).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", key, err)
		}
		some[maskText(key, namespace)] = mask(*object, namespace)
	}
	return some, nil
}

// Inspect returns what is in a namespace, and what should not be in one that is at rest: objects that are still going, and
// objects whose owner is not there. Resources are those of which there is something, nil for all that there may be.
func (w *World) Inspect(ctx context.Context, namespace string, resources map[string]bool) (Snapshot, Versions, []string, error) {
	snapshot, versions := Snapshot{}, Versions{}
	var left []string
	owners, there := map[string][]metav1.OwnerReference{}, map[types.UID]bool{}
	for _, kind := range w.kinds {
		if resources != nil && !resources[kind.Resource] {
			continue
		}
		list, err := w.api.Resource(kind).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, nil, nil, fmt.Errorf("list %s: %w", kind.Resource, err)
		}
		for _, item := range list.Items {
			key := kind.Resource + "/" + item.GetName()
			versions[key] = item.GetResourceVersion()
			if item.GetDeletionTimestamp() != nil {
				left = append(left, fmt.Sprintf("%s is still going, held by %v", key, item.GetFinalizers()))
			}
			there[item.GetUID()], owners[key] = true, item.GetOwnerReferences()
			snapshot[maskText(key, namespace)] = mask(item, namespace)
		}
	}
	for key, references := range owners {
		for _, r := range references {
			if !there[r.UID] {
				left = append(left, fmt.Sprintf("%s has lost its owner %s %s", key, r.Kind, r.Name))
			}
		}
	}
	return snapshot, versions, left, nil
}

// split takes a key apart.
func split(key string) (resource, name string) {
	resource, name, _ = strings.Cut(key, "/")
	return resource, name
}

// maskedFields differ between two runs and mean nothing: identities, times, addresses the server picked.
var maskedFields = map[string]bool{
	"uid": true, "resourceVersion": true, "creationTimestamp": true, "managedFields": true, "selfLink": true,
	"lastTransitionTime": true, "lastUpdateTime": true, "lastScaleTime": true,
	// Grove's hashes are of templates that name the namespace.
	"grove.io/pod-template-hash": true, "currentPodCliqueSetGenerationHash": true, "currentPodTemplateHash": true, "currentGenerationHash": true,
	"podCliqueSetGenerationHash": true, "podTemplateHash": true, "updateStartedAt": true, "updateEndedAt": true,
}

// addressFields are addresses of Services, or the word that there is none.
var addressFields = map[string]bool{"clusterIP": true, "clusterIPs": true}

func isHeadless(value any) bool {
	if all, ok := value.([]any); ok && len(all) == 1 {
		value = all[0]
	}
	return value == corev1.ClusterIPNone
}

func mask(obj unstructured.Unstructured, namespace string) map[string]any {
	owners := obj.GetOwnerReferences() // a set: who came first means nothing
	slices.SortFunc(owners, func(a, b metav1.OwnerReference) int { return strings.Compare(a.Kind+a.Name, b.Kind+b.Name) })
	if len(owners) > 0 {
		obj.SetOwnerReferences(owners)
	}
	if data, _, _ := unstructured.NestedMap(obj.Object, "data"); obj.GetKind() == "Secret" {
		for key := range data {
			data[key] = "SECRET" // keys are made by chance, but they have to be there
		}
		obj.Object["data"] = data
	}
	masked, _ := maskValue(obj.Object, namespace).(map[string]any)
	return masked
}

func maskValue(value any, namespace string) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, inner := range v {
			switch {
			case maskedFields[key]:
			case addressFields[key] && !isHeadless(inner): // which address it has means nothing, and that it has none does
			case key == names.AnnotationAppliedHash:
				out[key] = "HASH" // it covers the owner's UID, but it has to be there
			default:
				out[key] = maskValue(inner, namespace)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = maskValue(v[i], namespace)
		}
		return out
	case string:
		return maskText(v, namespace)
	}
	return value
}

func maskText(text, namespace string) string { return strings.ReplaceAll(text, namespace, "NAMESPACE") }

// Without returns the snapshot without some more fields, wherever they are.
func (s Snapshot) Without(fields ...string) Snapshot {
	out := Snapshot{}
	for key, object := range s {
		out[key], _ = strip(object, fields).(map[string]any)
	}
	return out
}

func strip(value any, fields []string) any {
	switch v := value.(type) {
	case map[string]any:
		kept := make(map[string]any, len(v))
		for key, inner := range v {
			if !slices.Contains(fields, key) {
				kept[key] = strip(inner, fields)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(v))
		for i := range v {
			kept[i] = strip(v[i], fields)
		}
		return kept
	}
	return value
}
