// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demo deploys a graph on a local cluster and tells the story of it becoming ready.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
)

const (
	// fieldManager owns what the demo applies.
	fieldManager = "dynamo-demo"
	// graphKind is the kind whose readiness the demo waits for.
	graphKind = "DynamoGraphDeployment"
	// lookInterval is how often the graphs are looked at; people do not read faster.
	lookInterval = 200 * time.Millisecond
)

// ErrNotReady says that the graphs did not become ready; why has been written to Options.Out.
var ErrNotReady = errors.New("the graph did not become ready")

// Options say what to deploy and where.
type Options struct {
	Config *rest.Config
	// File holds the manifests; objects without a namespace go to Namespace.
	File      string
	Namespace string
	Timeout   time.Duration
	// OperatorLog is shown when things go wrong.
	OperatorLog string
	// Alive, if set, fails once there is no use in waiting, for example because the operator has ended.
	Alive func(context.Context) error
	// Out receives the story and its end.
	Out io.Writer
	// Now is the clock.
	Now func() time.Time
}

// show is one run of the demo.
type show struct {
	Options
	api   client.Client
	begin time.Time
}

// Run deploys the file, waits for its graphs and shows what was made of them.
func Run(ctx context.Context, o Options) error {
	objects, err := readManifest(o.File)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("register types: %w", err)
	}
	api, err := client.New(o.Config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	s := &show{Options: o, api: api, begin: o.Now()}
	graphs, err := s.deploy(ctx, objects)
	if err != nil {
		return err
	}
	if err := s.awaitReady(ctx, graphs); err != nil {
		s.explainFailure(ctx, graphs)
		return err
	}
	return s.showTrees(ctx, graphs)
}

func readManifest(path string) ([]*unstructured.Unstructured, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open manifest: %w", err)
	}
	defer func() { _ = file.Close() }()
	objects, err := localcluster.DecodeManifest(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, object := range objects {
		if object.GetKind() == graphKind {
			return objects, nil
		}
	}
	return nil, fmt.Errorf("%s holds no %s to wait for", path, graphKind)
}

// deploy applies the namespace and the objects and returns the keys of the graphs among them.
func (s *show) deploy(ctx context.Context, objects []*unstructured.Unstructured) ([]client.ObjectKey, error) {
	namespace := &unstructured.Unstructured{}
	namespace.SetAPIVersion("v1")
	namespace.SetKind("Namespace")
	namespace.SetName(s.Namespace)
	var graphs []client.ObjectKey
	for _, object := range objects {
		if err := s.place(object); err != nil {
			return nil, err
		}
		if object.GetKind() == graphKind {
			graphs = append(graphs, client.ObjectKeyFromObject(object))
		}
	}
	s.say("applying %s in namespace %s", s.File, s.Namespace)
	return graphs, localcluster.ApplyObjects(ctx, s.Config, fieldManager, append([]*unstructured.Unstructured{namespace}, objects...))
}

// place gives an object that lives in a namespace but names none the namespace of the demo.
func (s *show) place(object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := s.api.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return fmt.Errorf("the cluster does not know %s: %w", kind, err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace && object.GetNamespace() == "" {
		object.SetNamespace(s.Namespace)
	}
	return nil
}

// say writes one line of the story with the time that has passed.
func (s *show) say(format string, args ...any) {
	elapsed := s.Now().Sub(s.begin).Round(100 * time.Millisecond)
	_, _ = fmt.Fprintf(s.Out, "%6.1fs  %s\n", elapsed.Seconds(), fmt.Sprintf(format, args...))
}
