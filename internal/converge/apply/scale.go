// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/tally"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// Scale asks for another number of replicas of something that another controller made out of a child of owner. It is
// asked once for each state that is seen: the cache shows the answer later.
func (a *Applier) Scale(ctx context.Context, owner client.Object, key recent.Key, live client.Object, replicas int32) error {
	want := fmt.Sprintf("replicas=%d", replicas)
	if seen := a.memory.get(owner.GetUID(), key); seen.sameObject(live, want) && seen.version == live.GetResourceVersion() {
		return nil
	}
	target, ok := live.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("copy %s", key)
	}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := a.writer.SubResource("scale").Patch(ctx, target, patch, client.FieldOwner(names.FieldManager)); err != nil {
		return fmt.Errorf("scale %s to %d: %w", key, replicas, err)
	}
	a.Tally.Wrote(ctx, key.Kind, tally.Scaled)
	a.memory.put(owner.GetUID(), key, want, live)
	return nil
}
