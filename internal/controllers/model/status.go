// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"slices"
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
		next.Endpoints = left(m) // nobody is called, and what they have they keep
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
	next.Endpoints = append(next.Endpoints, missing(m, seen)...)
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
	switch {
	case e.Problem != "":
		info.Message = e.Problem
	case !e.Ready:
		info.Message = "the pod is not ready"
	}
	if !IsAdapter(m) {
		info.Ready = info.Message == ""
		return info
	}
	info.Adapters = records(m, seen, e)
	if info.Message != "" || seen.Holder != "" || m.Spec.Source == nil {
		return info
	}
	info.Ready, info.Message = serving(m, seen, e)
	for _, a := range info.Adapters {
		if a.Name != m.Spec.ModelName {
			info.Ready = false
			if problem := seen.Known[target(e, a.Name)].Problem; problem != "" {
				info.Message = fmt.Sprintf("still has the adapter as %s: %s", a.Name, problem)
			}
		}
	}
	return info
}

// serving tells whether an endpoint that can be called serves the adapter, or why not.
func serving(m *v1alpha1.DynamoModel, seen Seen, e observe.Endpoint) (bool, string) {
	known, looked := seen.Known[target(e, m.Spec.ModelName)]
	switch {
	case !looked || known.Unsure:
		// Until it says otherwise, an endpoint is what it was when it was last looked at.
		was := entryOf(m, e)
		if was.Ready && recordedURI(m, e, m.Spec.ModelName) != m.Spec.Source.URI {
			return false, ""
		}
		return was.Ready, was.Message
	case known.Problem != "":
		return false, notLoaded + known.Problem
	case known.Waits:
		return false, "has the adapter from another source and waits for its turn"
	}
	// What is known may be about what was wanted a moment ago.
	return known.Settled && known.Loaded && known.URI == m.Spec.Source.URI, ""
}

// left are the endpoints that have an adapter of a model at which nobody looks.
func left(m *v1alpha1.DynamoModel) []v1alpha1.EndpointInfo {
	var all []v1alpha1.EndpointInfo
	for _, e := range m.Status.Endpoints {
		if adapters := adaptersOf(m, e); len(adapters) > 0 {
			e.Ready, e.Message, e.Adapters = false, "", adapters
			all = append(all, e)
		}
	}
	return all
}

// missing are the endpoints with an adapter whose pods are there, but behind no Service at the moment. They do not count, and what
// they have is not forgotten.
func missing(m *v1alpha1.DynamoModel, seen Seen) []v1alpha1.EndpointInfo {
	behind := map[string]bool{}
	for _, e := range seen.Endpoints {
		behind[e.PodName] = true
	}
	var all []v1alpha1.EndpointInfo
	for _, e := range left(m) {
		if !behind[e.PodName] && seen.Pods[e.PodName] {
			e.Message = "the pod is behind no Service of the base model"
			all = append(all, e)
		}
	}
	return all
}

// records are the adapters that an endpoint has, or may have. A source is recorded when the endpoint is known to have nothing of
// the name, which is before it is loaded, and stays until it is known to be gone. Where another model has the name, what is there
// is that one's.
func records(m *v1alpha1.DynamoModel, seen Seen, e observe.Endpoint) []v1alpha1.EndpointAdapter {
	var next []v1alpha1.EndpointAdapter
	main := v1alpha1.EndpointAdapter{Name: m.Spec.ModelName}
	for _, a := range recorded(m, e) {
		known := seen.Known[target(e, a.Name)]
		switch {
		case a.Name == m.Spec.ModelName:
			main.URI = a.URI
		case !known.Absent || !known.Settled:
			next = append(next, a)
		}
	}
	if m.Spec.Source != nil && seen.Known[target(e, m.Spec.ModelName)].Absent {
		main.URI = m.Spec.Source.URI
	}
	if main.URI != "" && seen.Holder == "" {
		next = append(next, main)
	}
	return next
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

// isTransition tells whether something changed that others wait for: what endpoints have, or are about to.
func isTransition(before, after modelStatus) bool {
	all := func(s modelStatus) (adapters []v1alpha1.EndpointAdapter) {
		for _, e := range s.Endpoints {
			adapters = append(append(adapters, v1alpha1.EndpointAdapter{Name: e.PodName}), e.Adapters...)
		}
		return adapters
	}
	return !slices.Equal(all(before), all(after))
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
