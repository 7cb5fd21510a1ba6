// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldManager owns what this package writes to the API server.
const fieldManager = "dynamo-local"

// establishTimeout bounds the wait for new resource kinds to be served.
const establishTimeout = time.Minute

//go:embed manifests/users.yaml
var userManifest []byte

// grantBuiltinUsers lets the built-in actors do their work.
func (c *Cluster) grantBuiltinUsers(ctx context.Context) error {
	return c.applyManifest(ctx, userManifest)
}

// applyManifest applies YAML documents as the administrator.
func (c *Cluster) applyManifest(ctx context.Context, manifest []byte) error {
	objects, err := DecodeManifest(bytes.NewReader(manifest))
	if err != nil {
		return err
	}
	config, err := c.RESTConfig(UserAdmin)
	if err != nil {
		return err
	}
	return ApplyObjects(ctx, config, fieldManager, objects)
}

// DecodeManifest reads a stream of YAML or JSON documents and leaves out the empty ones.
func DecodeManifest(stream io.Reader) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(stream, 4096)
	var objects []*unstructured.Unstructured
	for number := 1; ; number++ {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d of the manifest: %w", number, err)
		}
		if len(object.Object) == 0 {
			continue
		}
		if object.GetKind() == "" || object.GetAPIVersion() == "" || object.GetName() == "" {
			return nil, fmt.Errorf("document %d of the manifest lacks apiVersion, kind or metadata.name", number)
		}
		objects = append(objects, object)
	}
}

// ApplyObjects applies objects in order by server-side apply. Fields that someone else set are taken over.
func ApplyObjects(ctx context.Context, config *rest.Config, manager string, objects []*unstructured.Unstructured) error {
	api, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	for _, object := range objects {
		err := api.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(manager), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
		}
	}
	return nil
}

// InstallCRDs applies resource definitions and returns when the API server serves them.
func InstallCRDs(ctx context.Context, config *rest.Config, crds []*apiextensionsv1.CustomResourceDefinition) error {
	objects := make([]*unstructured.Unstructured, len(crds))
	for i, crd := range crds {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
		if err != nil {
			return fmt.Errorf("encode CRD %s: %w", crd.Name, err)
		}
		// The Go type always writes a status, which is not ours to apply.
		delete(content, "status")
		objects[i] = &unstructured.Unstructured{Object: content}
		objects[i].SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	}
	if err := ApplyObjects(ctx, config, fieldManager, objects); err != nil {
		return err
	}
	return awaitEstablished(ctx, config, objects)
}

func awaitEstablished(ctx context.Context, config *rest.Config, crds []*unstructured.Unstructured) error {
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return fmt.Errorf("register CRD types: %w", err)
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	for _, crd := range crds {
		err := poll(ctx, establishTimeout, "CRD "+crd.GetName()+" is not served", func(ctx context.Context) (bool, error) {
			var seen apiextensionsv1.CustomResourceDefinition
			if err := api.Get(ctx, client.ObjectKey{Name: crd.GetName()}, &seen); err != nil {
				return false, fmt.Errorf("get CRD %s: %w", crd.GetName(), err)
			}
			for _, condition := range seen.Status.Conditions {
				if condition.Type == apiextensionsv1.Established {
					return condition.Status == apiextensionsv1.ConditionTrue, nil
				}
			}
			return false, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// poll asks until done, until an error, or until limit has passed, which it reports as what.
func poll(ctx context.Context, limit time.Duration, what string, done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s after %s", what, limit))
	defer cancel()
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		finished, err := done(ctx)
		if finished {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
