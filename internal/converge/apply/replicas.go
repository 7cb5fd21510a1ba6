// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/tally"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

const (
	// afterConflict is how soon a graph that turned out to be newer is looked at again. The pause grows with the time for
	// which the cache has been behind, up to lastConflict.
	afterConflict = 50 * time.Millisecond
	lastConflict  = 4 * time.Second
)

// graphKind is the kind of which Replicas writes one field.
var graphKind = schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.KindDynamoGraphDeployment}

// Replicas hands the number of an adapter to a service of a graph, which must have that service. It sends that one field,
// and the version of the graph it was decided on: a graph that was deleted is not made again, and a service that was taken
// out does not come back. That the graph is newer is no failure but a reason to look again.
func (a *Applier) Replicas(
	ctx context.Context, adapter client.Object, graph *v1alpha1.DynamoGraphDeployment, service string, replicas int32,
) Result {
	key := recent.KeyOf(graphKind, graph)
	if ptr.Deref(graph.Spec.Services[service].Replicas, 1) == replicas {
		a.memory.failing(adapter.GetUID(), false, a.clock.Now())
		return Result{Live: Children{key: graph}}
	}
	answer, err := a.patchReplicas(ctx, graph, service, replicas)
	failingFor := a.memory.failing(adapter.GetUID(), err != nil, a.clock.Now())
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return Result{Wake: min(max(afterConflict, failingFor), lastConflict)}
	case err != nil:
		err = fmt.Errorf("set replicas of service %s of %s: %w", service, key, err)
		return Result{Failures: []Failure{{Key: key, Err: err}}, failingFor: failingFor}
	}
	a.Tally.Wrote(ctx, key.Kind, tally.Scaled)
	a.recent.Wrote(key, answer)
	return Result{Live: Children{key: answer}}
}

func (a *Applier) patchReplicas(
	ctx context.Context, graph *v1alpha1.DynamoGraphDeployment, service string, replicas int32,
) (*v1alpha1.DynamoGraphDeployment, error) {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": graph.ResourceVersion},
		"spec":     map[string]any{"services": map[string]any{service: map[string]any{"replicas": replicas}}},
	})
	if err != nil {
		return nil, err
	}
	answer := graph.DeepCopy()
	return answer, a.writer.Patch(ctx, answer, client.RawPatch(types.MergePatchType, body), client.FieldOwner(names.FieldManagerScaling))
}
