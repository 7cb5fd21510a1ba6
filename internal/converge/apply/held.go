// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
)

// Held finds out what All would do and does nothing of it: for owners that somebody wants to be left alone. It has the
// same form, so that a controller takes one or the other.
func (a *Applier) Held(_ context.Context, owner client.Object, plan Plan, observed Children) Result {
	result := Result{Live: Children{}}
	wanted := map[recent.Key]bool{}
	for _, stage := range plan {
		for _, intent := range stage {
			wanted[intent.Key] = true
			live, wake := a.recent.Newest(intent.Key, observed[intent.Key])
			result.wakeBy(wake)
			if live != nil {
				result.Live[intent.Key] = live
			}
			if a.wouldWrite(owner, intent, live) {
				result.Held = append(result.Held, intent.Key.String())
			}
		}
	}
	for key, cached := range observed {
		if live, _ := a.recent.Newest(key, cached); isSurplus(owner, key, live, wanted) {
			result.Held = append(result.Held, key.String())
		}
	}
	slices.Sort(result.Held)
	return result
}

// wouldWrite tells whether All would send a request for an intent. What cannot be compared would be sent.
func (a *Applier) wouldWrite(owner client.Object, intent Intent, live client.Object) bool {
	if intent.waits && live != nil {
		return false
	}
	switch judge(intent, owner, live, a.memory.get(owner.GetUID(), intent.Key)) {
	case nothing, goneFirst:
		return false
	case unverified:
		same, err := verify(intent, live)
		return err != nil || !same
	default:
		return true
	}
}
