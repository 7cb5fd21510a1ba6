// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ComputeDynamoNamespace returns the Dynamo namespace of a component: the shared one when it asks for it, otherwise
// one of its own graph. Workers register under it, so changing the rule would split a running graph in two.
func ComputeDynamoNamespace(global bool, k8sNamespace, graph string) string {
	if global {
		return GlobalDynamoNamespace
	}
	return k8sNamespace + "-" + graph
}

// stateOf turns a readiness answer into the string metrics are labelled with.
func stateOf(ready bool) string {
	if ready {
		return StateReady
	}
	return StateNotReady
}

// stateOrUnknown gives objects that were not looked at yet a label of their own in metrics.
func stateOrUnknown(state string) string {
	if state == "" {
		return StateUnknown
	}
	return state
}

// GetNumberOfNodes returns how many nodes one replica spans. A multinode block without a count means the schema
// default, so that a manifest read from a file and one read from the API server agree.
func (s *DynamoComponentDeploymentSharedSpec) GetNumberOfNodes() int32 {
	if s == nil || s.Multinode == nil {
		return 1
	}
	if s.Multinode.NodeCount == 0 {
		return DefaultNodeCount
	}
	return s.Multinode.NodeCount
}

// IsMultinode reports whether one replica spans more than one node.
func (s *DynamoComponentDeploymentSharedSpec) IsMultinode() bool {
	return s.GetNumberOfNodes() > 1
}

// IsLoRA reports whether the model is a LoRA. Case is ignored, because objects may predate the schema's enum.
func (m *DynamoModel) IsLoRA() bool {
	return strings.EqualFold(m.Spec.ModelType, ModelTypeLoRA)
}

// GetReadyEndpoints returns the endpoints that are ready, in status order.
func (m *DynamoModel) GetReadyEndpoints() []EndpointInfo {
	var ready []EndpointInfo
	for _, endpoint := range m.Status.Endpoints {
		if endpoint.Ready {
			ready = append(ready, endpoint)
		}
	}
	return ready
}

// HasEndpoints reports whether any endpoint was found.
func (m *DynamoModel) HasEndpoints() bool {
	return len(m.Status.Endpoints) > 0
}

// HasReadyEndpoints reports whether at least one endpoint is ready.
func (m *DynamoModel) HasReadyEndpoints() bool {
	return m.Status.ReadyEndpoints > 0
}

// IsReady reports whether every endpoint found is ready, and why not otherwise.
func (m *DynamoModel) IsReady() (bool, string) {
	switch {
	case m.Status.TotalEndpoints == 0:
		return false, "no endpoints found"
	case m.Status.ReadyEndpoints == 0:
		return false, "no endpoint is ready"
	case m.Status.ReadyEndpoints < m.Status.TotalEndpoints:
		return false, "some endpoints are not ready"
	}
	return true, ""
}

// GetState returns the metric label of the model.
func (m *DynamoModel) GetState() string {
	ready, _ := m.IsReady()
	return stateOf(ready)
}

// IsReady reports whether the component is available, and why not otherwise.
func (d *DynamoComponentDeployment) IsReady() (bool, string) {
	if meta.IsStatusConditionTrue(d.Status.Conditions, ConditionAvailable) {
		return true, ""
	}
	return false, "condition Available is not True"
}

// GetState returns the metric label of the component.
func (d *DynamoComponentDeployment) GetState() string {
	ready, _ := d.IsReady()
	return stateOf(ready)
}

// GetServiceStatuses returns the replica status keyed by service name, the shape a graph reports. It is never nil.
func (d *DynamoComponentDeployment) GetServiceStatuses() map[string]ServiceReplicaStatus {
	statuses := map[string]ServiceReplicaStatus{}
	if d.Status.Service != nil {
		statuses[d.Spec.ServiceName] = *d.Status.Service
	}
	return statuses
}

// GetParentGraphDeploymentName returns the name of the graph that owns the component, or nothing when no graph does.
func (d *DynamoComponentDeployment) GetParentGraphDeploymentName() string {
	for _, owner := range d.OwnerReferences {
		if owner.Kind == KindDynamoGraphDeployment {
			return owner.Name
		}
	}
	return ""
}

// GetParentGraphDeploymentNamespace returns the namespace of the owning graph; owners live beside what they own.
func (d *DynamoComponentDeployment) GetParentGraphDeploymentNamespace() string {
	return d.Namespace
}

// ComputeDynamoNamespace returns the Dynamo namespace of the component.
func (d *DynamoComponentDeployment) ComputeDynamoNamespace() string {
	return ComputeDynamoNamespace(d.Spec.GlobalDynamoNamespace, d.Namespace, d.GetParentGraphDeploymentName())
}

// IsFrontendComponent reports whether the component is the HTTP entry of its graph.
func (d *DynamoComponentDeployment) IsFrontendComponent() bool {
	return d.Spec.ComponentType == ComponentTypeFrontend
}

// GetDynamoDeploymentConfig returns the legacy JSON configuration of the component, or nil when it has none.
func (d *DynamoComponentDeployment) GetDynamoDeploymentConfig() []byte {
	for _, env := range d.Spec.Envs {
		if env.Name == DeploymentConfigEnv {
			return []byte(env.Value)
		}
	}
	return nil
}

// SetDynamoDeploymentConfig stores the legacy JSON configuration where GetDynamoDeploymentConfig finds it.
// A reference to another object in that variable is dropped: Kubernetes refuses a variable with both.
func (d *DynamoComponentDeployment) SetDynamoDeploymentConfig(config []byte) {
	for i := range d.Spec.Envs {
		if d.Spec.Envs[i].Name == DeploymentConfigEnv {
			d.Spec.Envs[i].Value = string(config)
			d.Spec.Envs[i].ValueFrom = nil
			return
		}
	}
	d.Spec.Envs = append(d.Spec.Envs, corev1.EnvVar{Name: DeploymentConfigEnv, Value: string(config)})
}

// IsMultinode reports whether one replica of the component spans more than one node.
func (d *DynamoComponentDeployment) IsMultinode() bool {
	return d.Spec.IsMultinode()
}

// GetNumberOfNodes returns how many nodes one replica of the component spans.
func (d *DynamoComponentDeployment) GetNumberOfNodes() int32 {
	return d.Spec.GetNumberOfNodes()
}

// MarshalJSON writes an empty list for missing conditions. The schema requires the list, and the API server drops a
// null and then refuses the status for the missing member.
func (s DynamoComponentDeploymentStatus) MarshalJSON() ([]byte, error) {
	type wire DynamoComponentDeploymentStatus
	out := wire(s)
	if out.Conditions == nil {
		out.Conditions = []metav1.Condition{}
	}
	return json.Marshal(out)
}

// SetState stores the summary of the graph.
func (g *DynamoGraphDeployment) SetState(state string) {
	g.Status.State = state
}

// GetState returns the metric label of the graph.
func (g *DynamoGraphDeployment) GetState() string {
	return stateOrUnknown(g.Status.State)
}

// AddStatusCondition replaces the condition of the same type, or appends it. The transition time moves only when the
// status of the condition changes; it is taken from the condition, or from the clock when it has none.
func (g *DynamoGraphDeployment) AddStatusCondition(condition metav1.Condition) {
	meta.SetStatusCondition(&g.Status.Conditions, condition)
}

// HasAnyMultinodeService reports whether some service of the graph spans more than one node.
func (g *DynamoGraphDeployment) HasAnyMultinodeService() bool {
	for _, service := range g.Spec.Services {
		if service.IsMultinode() {
			return true
		}
	}
	return false
}

// GetDynamoNamespaceForService returns the Dynamo namespace of a service of the graph.
func (g *DynamoGraphDeployment) GetDynamoNamespaceForService(service *DynamoComponentDeploymentSharedSpec) string {
	global := service != nil && service.GlobalDynamoNamespace
	return ComputeDynamoNamespace(global, g.Namespace, g.Name)
}

// HasEPPService reports whether the graph has an endpoint picker.
func (g *DynamoGraphDeployment) HasEPPService() bool {
	_, _, found := g.GetEPPService()
	return found
}

// GetEPPService returns the endpoint picker of the graph. With several it is the first by name, so that every caller
// and every pass picks the same one.
func (g *DynamoGraphDeployment) GetEPPService() (string, *DynamoComponentDeploymentSharedSpec, bool) {
	for _, name := range slices.Sorted(maps.Keys(g.Spec.Services)) {
		service := g.Spec.Services[name]
		if service != nil && service.ComponentType == ComponentTypeEPP {
			return name, service, true
		}
	}
	return "", nil, false
}

// GetState returns the metric label of the request.
func (r *DynamoGraphDeploymentRequest) GetState() string {
	return stateOrUnknown(r.Status.State)
}

// AddStatusCondition replaces the condition of the same type, or appends it. The transition time moves only when the
// status of the condition changes; it is taken from the condition, or from the clock when it has none.
func (r *DynamoGraphDeploymentRequest) AddStatusCondition(condition metav1.Condition) {
	meta.SetStatusCondition(&r.Status.Conditions, condition)
}

// IsReady reports whether autoscalers can work with the adapter, and why not otherwise.
func (a *DynamoGraphDeploymentScalingAdapter) IsReady() (bool, string) {
	switch {
	case a.Status.Selector == "":
		return false, "selector is not set"
	case a.Status.Replicas == 0:
		return false, "no replicas"
	}
	return true, ""
}

// GetState returns the metric label of the adapter.
func (a *DynamoGraphDeploymentScalingAdapter) GetState() string {
	ready, _ := a.IsReady()
	return stateOf(ready)
}

// GetObservedGeneration is the generation that the status is about.
func (d *DynamoComponentDeployment) GetObservedGeneration() int64 { return d.Status.ObservedGeneration }

// GetObservedGeneration is the generation that the status is about.
func (g *DynamoGraphDeployment) GetObservedGeneration() int64 { return g.Status.ObservedGeneration }
