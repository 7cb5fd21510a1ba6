// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/apis"
)

// Question is what to find out, and where.
type Question struct {
	Config *rest.Config
	// Namespace is where graphs are to run, Install where the operator is to be installed, and Preset how.
	Namespace, Install string
	Preset             Preset
	// Installing tells that who asks is going to install the operator; others only want to run graphs.
	Installing bool
	// Clock is asked if the server does not tell its time.
	Clock clock.PassiveClock
}

// reader gathers facts.
type reader struct {
	Question

	core       kubernetes.Interface
	extensions apiextensions.Interface
	dynamic    dynamic.Interface
	facts      *Facts
}

// Read gathers facts. A fact that may not be read, or cannot, is noted as such; only a server that does not answer is an error.
func Read(ctx context.Context, q Question) (Facts, error) {
	facts := Facts{Namespace: q.Namespace, Preset: q.Preset, Installing: q.Installing, Unread: map[Check]string{}, Now: q.Clock.Now()}
	told := &serverTime{}
	q.Config = rest.CopyConfig(q.Config)
	q.Config.Wrap(told.wrap)
	r := reader{Question: q, facts: &facts}
	var err error
	if r.core, err = kubernetes.NewForConfig(q.Config); err != nil {
		return facts, fmt.Errorf("make a client: %w", err)
	}
	if r.extensions, err = apiextensions.NewForConfig(q.Config); err != nil {
		return facts, fmt.Errorf("make a client for definitions: %w", err)
	}
	if r.dynamic, err = dynamic.NewForConfig(q.Config); err != nil {
		return facts, fmt.Errorf("make a client for graphs: %w", err)
	}
	server, err := r.core.Discovery().ServerVersion()
	if err != nil {
		return facts, fmt.Errorf("ask the API server for its version: %w", err)
	}
	facts.Server = server.GitVersion
	if now, ok := told.last(); ok {
		facts.Now = now
	}
	for _, step := range []struct {
		checks []Check
		read   func(context.Context) error
	}{
		{[]Check{CheckDefinitions}, r.readDefinitions},
		{[]Check{CheckStorage}, r.readStorage},
		{[]Check{CheckGPUs}, r.readNodes},
		{[]Check{CheckMultinode}, r.readAPIs},
		{[]Check{CheckCertManager}, r.readCertManager},
		{[]Check{CheckWebhooks}, r.readWebhooks},
		{[]Check{CheckInstall, CheckUse}, r.readRights},
		{[]Check{CheckOperators}, r.readOperators},
	} {
		if err := step.read(ctx); err != nil {
			for _, check := range step.checks {
				facts.Unread[check] = err.Error()
			}
		}
	}
	return facts, nil
}

func (r reader) readStorage(ctx context.Context) error {
	classes, err := r.core.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, c := range classes.Items {
		r.facts.StorageClasses = append(r.facts.StorageClasses, StorageClass{Name: c.Name, Default: isDefault(c)})
	}
	return nil
}

func isDefault(c storagev1.StorageClass) bool {
	return c.Annotations["storageclass.kubernetes.io/is-default-class"] == names.True
}

func (r reader) readNodes(ctx context.Context) error {
	nodes, err := r.core.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, n := range nodes.Items {
		gpus := n.Status.Allocatable["nvidia.com/gpu"]
		if gpus.IsZero() {
			continue
		}
		r.facts.Nodes = append(r.facts.Nodes, Node{Name: n.Name, GPUs: gpus.Value(), Usable: !n.Spec.Unschedulable && isReady(n)})
	}
	return nil
}

func isReady(n corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (r reader) readAPIs(context.Context) error {
	found, err := apis.Found(r.core.Discovery())
	r.facts.APIs = found
	return err
}

func (r reader) readCertManager(context.Context) error {
	_, err := r.core.Discovery().ServerResourcesForGroupVersion("cert-manager.io/v1")
	r.facts.CertManager = err == nil
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// alive tells whether a lease was renewed in time. One without a duration is nobody's.
func (r reader) alive(renewed *metav1.MicroTime, seconds *int32) bool {
	if renewed == nil || seconds == nil {
		return false
	}
	return r.facts.Now.Sub(renewed.Time) <= time.Duration(*seconds)*time.Second
}
