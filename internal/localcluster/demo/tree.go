// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// showTrees prints each graph with everything that hangs on it.
func (s *show) showTrees(ctx context.Context, graphs []client.ObjectKey) error {
	s.line("")
	for _, key := range graphs {
		objects, err := s.listNamespace(ctx, key.Namespace)
		if err != nil {
			return err
		}
		for _, object := range objects {
			if object.GetKind() == graphKind && object.GetName() == key.Name {
				writeTree(s.Out, object, groupByOwner(objects))
			}
		}
	}
	return nil
}

// listNamespace returns every object in a namespace that the cluster can list, whatever its kind, except events.
func (s *show) listNamespace(ctx context.Context, namespace string) ([]*unstructured.Unstructured, error) {
	kinds, err := s.listableKinds()
	if err != nil {
		return nil, err
	}
	quiet := rest.CopyConfig(s.Config)
	quiet.WarningHandler = rest.NoWarnings{} // listing everything includes kinds that are on their way out
	api, err := dynamic.NewForConfig(quiet)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	seen := map[types.UID]bool{}
	var objects []*unstructured.Unstructured
	for _, kind := range kinds {
		list, err := api.Resource(kind).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s in %s: %w", kind.Resource, namespace, err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			if !seen[object.GetUID()] { // some kinds are served by two API groups
				seen[object.GetUID()] = true
				objects = append(objects, object)
			}
		}
	}
	return objects, nil
}

func (s *show) listableKinds() ([]schema.GroupVersionResource, error) {
	api, err := discovery.NewDiscoveryClientForConfig(s.Config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	lists, err := api.ServerPreferredNamespacedResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("ask the cluster for its kinds: %w", err)
	}
	var kinds []schema.GroupVersionResource
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("API group %q: %w", list.GroupVersion, err)
		}
		for _, resource := range list.APIResources {
			if slices.Contains(resource.Verbs, "list") && resource.Kind != "Event" {
				kinds = append(kinds, version.WithResource(resource.Name))
			}
		}
	}
	return kinds, nil
}

// groupByOwner files each object under its controller, or under its first owner when nobody controls it.
func groupByOwner(objects []*unstructured.Unstructured) map[types.UID][]*unstructured.Unstructured {
	children := map[types.UID][]*unstructured.Unstructured{}
	for _, object := range objects {
		owner := metav1.GetControllerOf(object)
		if owners := object.GetOwnerReferences(); owner == nil && len(owners) > 0 {
			owner = &owners[0]
		}
		if owner != nil {
			children[owner.UID] = append(children[owner.UID], object)
		}
	}
	for _, siblings := range children {
		slices.SortFunc(siblings, func(a, b *unstructured.Unstructured) int {
			return cmp.Or(cmp.Compare(a.GetKind(), b.GetKind()), cmp.Compare(a.GetName(), b.GetName()))
		})
	}
	return children
}

// writeTree draws root and everything below it.
func writeTree(out io.Writer, root *unstructured.Unstructured, children map[types.UID][]*unstructured.Unstructured) {
	_, _ = fmt.Fprintln(out, label(root))
	drawn := map[types.UID]bool{root.GetUID(): true}
	var draw func(parent types.UID, indent string)
	draw = func(parent types.UID, indent string) {
		for i, child := range children[parent] {
			branch, below := "|-- ", "|   "
			if i == len(children[parent])-1 {
				branch, below = "`-- ", "    "
			}
			_, _ = fmt.Fprintln(out, indent+branch+label(child))
			if !drawn[child.GetUID()] { // owners can form a circle when somebody writes them by hand
				drawn[child.GetUID()] = true
				draw(child.GetUID(), indent+below)
			}
		}
	}
	draw(root.GetUID(), "")
}

func label(object *unstructured.Unstructured) string {
	text := object.GetKind() + " " + object.GetName()
	if note := summary(object); note != "" {
		text += "  " + note
	}
	return text
}

// summary says in a few words how an object is doing.
func summary(object *unstructured.Unstructured) string {
	switch object.GetKind() {
	case "Pod":
		phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
		node, _, _ := unstructured.NestedString(object.Object, "spec", "nodeName")
		return strings.TrimSpace(phase + " " + node)
	case "Deployment", "StatefulSet", "ReplicaSet", "LeaderWorkerSet":
		wanted, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
		ready, _, _ := unstructured.NestedInt64(object.Object, "status", "readyReplicas")
		return fmt.Sprintf("%d/%d ready", ready, wanted)
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, entry := range conditions {
		condition, ok := entry.(map[string]any)
		if !ok || condition["type"] != "Ready" {
			continue
		}
		if condition["status"] == "True" {
			return "ready"
		}
		return "not ready"
	}
	return ""
}
