// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// somebody is who cannot be told from the object.
const somebody = "somebody"

// wavering is told of a child whose content changes to and fro with what is wanted of it: its owner is what is fought over.
const wavering = "what is wanted of it changes to and fro"

// patient tells how long a correction has to wait, 0 for not at all. Content that the child did not have is no correction.
func (a *Applier) patient(ctx context.Context, owner client.Object, intent Intent, live client.Object, seen state) time.Duration {
	now := a.clock.Now()
	isBack := a.isBack(owner, intent, seen, now)
	isDrift := isCorrection(intent, seen)
	if !isDrift && !isBack {
		return 0
	}
	wait, unnamed := a.brake.wait(intent.Key, intent.Hash, now)
	switch {
	case !unnamed:
	case isDrift:
		a.brake.name(intent.Key, intent.Hash, a.opponent(ctx, intent, live))
	case wait > lookAgain: // what is held for less is nothing to tell of: an autoscaler in two minds
		a.brake.name(intent.Key, "", wavering)
	}
	return wait
}

// isCorrection tells whether a child has this content as far as anybody knows. What several owners share, each of them changes until
// all have heard of each other: that is no fight.
func isCorrection(intent Intent, seen state) bool {
	return seen.uid != "" && seen.hash == intent.Hash && !intent.belongs.IsShared()
}

// isBack tells whether a child had this content within the last minute, and another since, and nobody who may said so.
func (a *Applier) isBack(owner client.Object, intent Intent, seen state, now time.Time) bool {
	return seen.uid != "" && !intent.belongs.IsShared() && a.brake.isBack(intent.Key, word(owner), intent.Hash, now)
}

// word stands for what the controller of an owner wants of it: the hash that it left there, which nobody else renews.
func word(owner client.Object) string {
	if metav1.GetControllerOf(owner) == nil {
		return ""
	}
	return cmp.Or(owner.GetAnnotations()[names.AnnotationAppliedHash], unmarked)
}

// unmarked is the word of an owner that somebody took the hash from: its controller has not said anything else.
const unmarked = "unmarked"

// contest adds to a result with whom the children of a stage are being fought over.
func (a *Applier) contest(stage []Intent, result *Result) {
	for _, intent := range stage {
		with, left := a.brake.fighting(intent.Key, intent.Hash, a.clock.Now())
		if with == "" {
			continue
		}
		if result.Contested == nil {
			result.Contested = map[string]string{}
		}
		result.Contested[intent.Key.String()] = with
		result.wakeBy(left) // that it is over is told, too
	}
}

// opponent says who changes a child and what, as far as the object tells. Caches do not keep who manages which field, so it is
// read: once in a fight.
func (a *Applier) opponent(ctx context.Context, intent Intent, live client.Object) string {
	if live == nil {
		return somebody + " keeps deleting it, or taking its labels"
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(intent.gvk)
	if err := a.reader.Get(ctx, intent.Key.NamespacedName, object); err != nil {
		return somebody + " keeps changing it" // who it is helps, but is not worth an error
	}
	body, err := intent.body()
	if err != nil {
		return somebody + " keeps changing it"
	}
	manager, field := rival(object.GetManagedFields(), body)
	if field == "" {
		return manager + " keeps changing it"
	}
	return fmt.Sprintf("%s keeps changing %s, which is set here", manager, field)
}

// rival returns the manager who has a field that the intent sets, and the field; or else whoever wrote last.
func rival(managed []metav1.ManagedFieldsEntry, intent map[string]any) (manager, field string) {
	manager = somebody
	var last time.Time
	for _, m := range managed {
		if m.Manager == names.FieldManager || m.Subresource == "status" || m.FieldsV1 == nil {
			continue
		}
		fields := map[string]any{}
		if json.Unmarshal([]byte(m.FieldsV1.GetRawString()), &fields) != nil {
			continue
		}
		if path, found := overlap(fields, intent); found {
			return m.Manager, path
		}
		if m.Time != nil && m.Time.After(last) && !builtIn[m.Manager] {
			manager, last = m.Manager, m.Time.Time
		}
	}
	return manager, ""
}

// overlap returns the first field in a set of managed fields that an intent sets, too.
func overlap(fields map[string]any, intent any) (path string, found bool) {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		value, step := descend(key, intent)
		if step == "" {
			continue
		}
		inner, _ := fields[key].(map[string]any)
		if len(inner) == 0 {
			return step, true
		}
		if rest, found := overlap(inner, value); found {
			return join(step, rest), true
		}
	}
	return "", false
}

func join(step, rest string) string {
	if strings.HasPrefix(rest, "[") {
		return step + rest
	}
	return step + "." + rest
}

// descend follows one step of a managed field, "f:name" into an object or "k:{key}" into a list. The step is empty where there
// is nothing.
func descend(key string, intent any) (value any, step string) {
	kind, name, _ := strings.Cut(key, ":")
	switch in := intent.(type) {
	case map[string]any:
		if value, ok := in[name]; ok && kind == "f" {
			return value, name
		}
	case []any:
		var members map[string]any
		if kind != "k" || json.Unmarshal([]byte(name), &members) != nil {
			return nil, ""
		}
		for _, element := range in {
			if m, ok := element.(map[string]any); ok && isMeant(members, m) {
				return element, "[" + identity(members) + "]"
			}
		}
	}
	return nil, ""
}

// isMeant tells whether an element is the one with these members. Of those that the server fills in it may have none.
func isMeant(members, element map[string]any) bool {
	for name, value := range members {
		if is, has := element[name]; has && !containedIn("", name, value, is) {
			return false
		}
	}
	return true
}

// identity names an element of a list by the values of its key.
func identity(members map[string]any) string {
	var values []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		values = append(values, fmt.Sprint(members[name]))
	}
	return strings.Join(values, " ")
}
