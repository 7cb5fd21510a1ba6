// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DynamoComponentDeploymentSpec is a component with the engine it runs.
//
// +kubebuilder:validation:XValidation:rule="has(self.backendFramework) == has(oldSelf.backendFramework) && (!has(self.backendFramework) || self.backendFramework == oldSelf.backendFramework)",fieldPath=".backendFramework",message="backendFramework cannot be changed: create another component"
type DynamoComponentDeploymentSpec struct {
	// Engine of the component.
	// +kubebuilder:validation:Enum=sglang;vllm;trtllm
	// +optional
	BackendFramework string `json:"backendFramework,omitempty"`

	DynamoComponentDeploymentSharedSpec `json:",inline"`
}

// DynamoComponentDeploymentStatus reports how the workload of the component is.
type DynamoComponentDeploymentStatus struct {
	// Generation of the spec that was last applied, or found impossible to apply.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// What the operator last concluded about the component. The list is always present, even when empty.
	// +required
	Conditions []metav1.Condition `json:"conditions"`

	// Labels that select the pods of the component. Not filled at present.
	// +optional
	PodSelector map[string]string `json:"podSelector,omitempty"`

	// Replicas of the workload.
	// +optional
	Service *ServiceReplicaStatus `json:"service,omitempty"`
}

// DynamoComponentDeployment runs one component of a graph. Graphs create these objects; edit the graph instead.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=dynamocomponentdeployments,singular=dynamocomponentdeployment,shortName=dcd,scope=Namespaced
// +kubebuilder:printcolumn:name="DynamoComponent",type=string,JSONPath=`.spec.dynamoComponent`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=='Available')].status`
// +kubebuilder:printcolumn:name="Backend",type=string,JSONPath=`.spec.backendFramework`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DynamoComponentDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What the component runs.
	// +optional
	Spec DynamoComponentDeploymentSpec `json:"spec,omitzero"`

	// How the component is.
	// +optional
	Status DynamoComponentDeploymentStatus `json:"status,omitzero"`
}

// DynamoComponentDeploymentList is a list of DynamoComponentDeployment.
//
// +kubebuilder:object:root=true
type DynamoComponentDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DynamoComponentDeployment `json:"items"`
}
