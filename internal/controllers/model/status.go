// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/statusio"
)

type modelStatus = v1alpha1.DynamoModelStatus

// notLoaded begins the message of an endpoint that failed to do what it was asked for.
const notLoaded = "not loaded: "

// Status is the status of a model after a pass. It is computed whole.
func Status(m *v1alpha1.DynamoModel, seen Seen, now metav1.Time) modelStatus {
	next := modelStatus{ObservedGeneration: m.Generation}
	set := conditions.NewSet(m.Generation, m.Status.Conditions, now)
	if len(seen.Problems) > 0 {
		message := seen.Problems.ToAggregate().Error()
		set.Put(v1alpha1.ConditionValid, metav1.ConditionFalse, conditions.ValidationFailed, message)
		set.Put(v1alpha1.ConditionReady, metav1.ConditionFalse, conditions.ValidationFailed, message)
		set.Stall(conditions.ValidationFailed, message)
		next.Conditions = set.Sorted()
		return next
	}
	set.Put(v1alpha1.ConditionValid, metav1.ConditionTrue, conditions.ValidationPassed, "The spec is valid")
	for _, e := range seen.Endpoints {
		if e.Terminating {
			continue
		}
		info := endpoint(m, seen, e)
		next.Endpoints = append(next.Endpoints, info)
		next.TotalEndpoints++
		if info.Ready {
			next.ReadyEndpoints++
		}
	}
	behind := fmt.Sprintf("Base model %s is behind %s", m.Spec.BaseModelName, plural(seen.Services, "Service"))
	found := verdict{metav1.ConditionTrue, conditions.ServicesFound, behind}
	if seen.Services == 0 {
		found = verdict{metav1.ConditionFalse, conditions.NoServicesFound, nobodyServes(m)}
	}
	set.Put(v1alpha1.ConditionServicesFound, found.status, found.reason, found.message)
	ready := endpointsReady(m, seen, next)
	set.Put(v1alpha1.ConditionEndpointsReady, ready.status, ready.reason, ready.message)
	set.Put(v1alpha1.ConditionReady, ready.status, ready.reason, ready.message)
	if ready.reason == conditions.ModelNameTaken {
		set.Stall(ready.reason, ready.message)
	}
	next.Conditions = set.Sorted()
	return next
}

// verdict is what a condition says.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
}

func nobodyServes(m *v1alpha1.DynamoModel) string {
	return fmt.Sprintf("No service of a graph in this namespace has modelRef.name %s", m.Spec.BaseModelName)
}

// endpointsReady judges all endpoints together.
func endpointsReady(m *v1alpha1.DynamoModel, seen Seen, next modelStatus) verdict {
	total, ready := next.TotalEndpoints, next.ReadyEndpoints
	switch {
	case seen.Holder != "":
		return verdict{metav1.ConditionFalse, conditions.ModelNameTaken,
			fmt.Sprintf("DynamoModel %s has the name %s on %s already: delete one of them, or give this one another modelName",
				seen.Holder, m.Spec.ModelName, m.Spec.BaseModelName)}
	case total == 0 && seen.Services == 0:
		return verdict{metav1.ConditionFalse, conditions.NoEndpoints, nobodyServes(m)}
	case total == 0:
		return verdict{metav1.ConditionFalse, conditions.NoEndpoints, fmt.Sprintf("No pod serves base model %s", m.Spec.BaseModelName)}
	case ready < total:
		return verdict{metav1.ConditionFalse, conditions.EndpointsNotReady, fmt.Sprintf("%d of %d endpoints are ready%s", ready, total, causes(next))}
	case IsAdapter(m):
		return verdict{metav1.ConditionTrue, conditions.AllEndpointsReady, "The adapter is on " + plural(total, "endpoint")}
	}
	return verdict{metav1.ConditionTrue, conditions.EndpointsDiscovered, "The model is served by " + plural(total, "endpoint")}
}

// causes names the first few endpoints that are not ready.
func causes(s modelStatus) string {
	why := map[string]string{}
	for _, e := range s.Endpoints {
		if !e.Ready && e.Message != "" {
			why[e.PodName] = e.Message
		}
	}
	if len(why) == 0 {
		return ""
	}
	return "; " + conditions.Summary(why)
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// endpoint is what the status says of one endpoint.
func endpoint(m *v1alpha1.DynamoModel, seen Seen, e observe.Endpoint) v1alpha1.EndpointInfo {
	info := v1alpha1.EndpointInfo{Address: e.Address, PodName: e.PodName}
	was := recorded(m, e)
	switch {
	case e.Problem != "":
		info.Message = e.Problem
	case !e.Ready:
		info.Message = "the pod is not ready"
	}
	if !IsAdapter(m) || seen.Holder != "" {
		info.Ready = info.Message == ""
		if seen.Holder != "" {
			info.Ready, info.Message = false, ""
		}
		return info
	}
	if info.Message != "" {
		info.LoadedName, info.LoadedURI = was.LoadedName, was.LoadedURI // what it had will be looked for
		return info
	}
	return loaded(m, seen, e, was)
}

// loaded is what the status says of an endpoint that adapters are loaded into.
func loaded(m *v1alpha1.DynamoModel, seen Seen, e observe.Endpoint, was v1alpha1.EndpointInfo) v1alpha1.EndpointInfo {
	info := v1alpha1.EndpointInfo{Address: e.Address, PodName: e.PodName}
	known := seen.Known[target(e, m.Spec.ModelName)]
	if known.Unsure {
		return was // until it says otherwise
	}
	info.Ready = known.Settled && known.Loaded
	if known.Loaded {
		info.LoadedName, info.LoadedURI = m.Spec.ModelName, known.URI
	}
	switch {
	case known.Problem != "":
		info.Message = notLoaded + known.Problem
	case known.Waits:
		info.Message = "has the adapter from another source and waits for its turn"
	}
	if was.LoadedName == "" || was.LoadedName == m.Spec.ModelName {
		return info
	}
	if old := seen.Known[target(e, was.LoadedName)]; !old.Settled {
		info.LoadedName, info.LoadedURI, info.Ready = was.LoadedName, was.LoadedURI, false
		if old.Problem != "" {
			info.Message = fmt.Sprintf("still has the adapter as %s: %s", was.LoadedName, old.Problem)
		}
	}
	return info
}

// Events are what users should hear of a change of status, which is transitions only.
func Events(m *v1alpha1.DynamoModel, next modelStatus) []statusio.Event {
	was, is := m.Status.Conditions, next.Conditions
	if valid := conditions.Find(is, v1alpha1.ConditionValid); valid.Status == metav1.ConditionFalse {
		old := conditions.Find(was, v1alpha1.ConditionValid)
		if old != nil && old.Status == valid.Status && old.ObservedGeneration == valid.ObservedGeneration {
			return nil
		}
		return []statusio.Event{warning(conditions.ValidationFailed, valid.Message)}
	}
	var events []statusio.Event
	ready, old := conditions.Find(is, v1alpha1.ConditionEndpointsReady), conditions.Find(was, v1alpha1.ConditionEndpointsReady)
	if !isFailing(m.Status) && isFailing(next) {
		events = append(events, warning("PartialEndpointFailure", ready.Message))
	}
	if old != nil && old.Reason == ready.Reason {
		return events
	}
	return append(events, verdictEvents(ready, old)...)
}

func warning(reason, note string) statusio.Event {
	return statusio.Event{Type: corev1.EventTypeWarning, Reason: reason, Action: "Reconcile", Note: note}
}

// verdictEvents tell of a verdict about the endpoints that differs from the last one.
func verdictEvents(ready, old *metav1.Condition) []statusio.Event {
	switch ready.Reason {
	case conditions.AllEndpointsReady:
		return []statusio.Event{{Type: corev1.EventTypeNormal, Reason: "EndpointsReady", Action: "Load", Note: ready.Message}}
	case conditions.EndpointsDiscovered:
		return []statusio.Event{{Type: corev1.EventTypeNormal, Reason: ready.Reason, Action: "Reconcile", Note: ready.Message}}
	case conditions.NoEndpoints:
		return []statusio.Event{warning("NoEndpointsFound", ready.Message)}
	case conditions.ModelNameTaken:
		return []statusio.Event{warning(ready.Reason, ready.Message)}
	case conditions.EndpointsNotReady:
		if old != nil && old.Status == metav1.ConditionTrue && old.ObservedGeneration == ready.ObservedGeneration {
			return []statusio.Event{warning(ready.Reason, ready.Message)}
		}
	}
	return nil
}

// isFailing tells whether some endpoint failed to do what it was asked for.
func isFailing(s modelStatus) bool {
	for _, e := range s.Endpoints {
		if strings.HasPrefix(e.Message, notLoaded) {
			return true
		}
	}
	return false
}
