// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package builders makes API objects for tests, one short chain per object. A row of a table derives from a base by
// Clone, so that it shows only what it is about.
package builders

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// Image is the image of every component that does not name its own. Nothing in the tests pulls it.
const Image = "registry.example.com/dynamo:1"

// GraphBuilder builds a DynamoGraphDeployment.
type GraphBuilder struct {
	graph *v1alpha1.DynamoGraphDeployment
}

// Graph starts a graph without services.
func Graph(namespace, name string) *GraphBuilder {
	return &GraphBuilder{&v1alpha1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.DynamoGraphDeploymentSpec{Services: map[string]*v1alpha1.DynamoComponentDeploymentSharedSpec{}},
	}}
}

// TwoComponents is the graph that most tests use: a frontend and a vLLM worker.
func TwoComponents(namespace, name string) *GraphBuilder {
	return Graph(namespace, name).
		Service("Frontend", v1alpha1.ComponentTypeFrontend).
		Service("Decode", v1alpha1.ComponentTypeWorker, Args("python3 -m dynamo.vllm --model acme/tiny-1b"))
}

// ServiceOption changes a service.
type ServiceOption func(*v1alpha1.DynamoComponentDeploymentSharedSpec)

// Service adds a service with one replica.
func (b *GraphBuilder) Service(name, componentType string, opts ...ServiceOption) *GraphBuilder {
	one := int32(1)
	s := &v1alpha1.DynamoComponentDeploymentSharedSpec{
		ComponentType: componentType, Replicas: &one,
		ExtraPodSpec: &v1alpha1.ExtraPodSpec{MainContainer: &corev1.Container{Image: Image}},
	}
	b.graph.Spec.Services[name] = s
	return b.Change(name, opts...)
}

// Change applies options to a service that is there already.
func (b *GraphBuilder) Change(name string, opts ...ServiceOption) *GraphBuilder {
	for _, opt := range opts {
		opt(b.graph.Spec.Services[name])
	}
	return b
}

// Annotation sets an annotation of the graph.
func (b *GraphBuilder) Annotation(key, value string) *GraphBuilder {
	metav1.SetMetaDataAnnotation(&b.graph.ObjectMeta, key, value)
	return b
}

// Env adds a variable for all services.
func (b *GraphBuilder) Env(name, value string) *GraphBuilder {
	b.graph.Spec.Envs = append(b.graph.Spec.Envs, corev1.EnvVar{Name: name, Value: value})
	return b
}

// Clone returns a builder of an independent copy.
func (b *GraphBuilder) Clone() *GraphBuilder { return &GraphBuilder{b.graph.DeepCopy()} }

// Obj returns the graph.
func (b *GraphBuilder) Obj() *v1alpha1.DynamoGraphDeployment { return b.graph }

// Args sets the arguments of the main container.
func Args(args ...string) ServiceOption {
	return func(s *v1alpha1.DynamoComponentDeploymentSharedSpec) { s.ExtraPodSpec.MainContainer.Args = args }
}

// WithImage sets the image of the main container.
func WithImage(image string) ServiceOption {
	return func(s *v1alpha1.DynamoComponentDeploymentSharedSpec) { s.ExtraPodSpec.MainContainer.Image = image }
}

// Replicas sets the number of replicas.
func Replicas(n int32) ServiceOption {
	return func(s *v1alpha1.DynamoComponentDeploymentSharedSpec) { s.Replicas = &n }
}

// Nodes makes every replica span several nodes with one GPU each.
func Nodes(n int32) ServiceOption {
	return func(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
		s.Multinode = &v1alpha1.MultinodeSpec{NodeCount: n}
		s.Resources = &v1alpha1.Resources{Limits: &v1alpha1.ResourceItem{GPU: "1"}}
	}
}
