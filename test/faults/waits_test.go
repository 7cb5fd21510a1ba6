// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// patience bounds the wait for the end of a story. What takes milliseconds on an idle machine takes seconds beside others.
const patience = 90 * time.Second

func refused(t *testing.T, ns string) {
	t.Helper()
	g := &v1alpha1.DynamoGraphDeployment{}
	harness.Eventually(t, patience, "the graph is refused", func() (bool, string) {
		if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "chat"}, g); err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Reason == conditions.ValidationFailed, fmt.Sprint(c)
	})
}

func gone(t *testing.T, ns, name string, object client.Object) {
	t.Helper()
	harness.Eventually(t, patience, name+" is gone", func() (bool, string) {
		err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, object)
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}

// scaledAsWanted waits until an adapter reports what it was asked for and its graph is ready with it.
func scaledAsWanted(t *testing.T, ns string) {
	t.Helper()
	harness.Eventually(t, patience, "the adapter reports its replicas", func() (bool, string) {
		a := &v1alpha1.DynamoGraphDeploymentScalingAdapter{}
		if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "chat-decode"}, a); err != nil {
			return false, err.Error()
		}
		return a.Status.Replicas == a.Spec.Replicas && a.Status.ObservedGeneration == a.Generation, fmt.Sprint(a.Status)
	})
	ready(t, ns)
}
