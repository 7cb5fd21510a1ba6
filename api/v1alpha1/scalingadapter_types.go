// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DynamoGraphDeploymentServiceRef points at one service of a graph in the same namespace.
type DynamoGraphDeploymentServiceRef struct {
	// Name of the DynamoGraphDeployment.
	// +kubebuilder:validation:MinLength=1
	// +required
	Name string `json:"name"`

	// Key of the service in spec.services of that graph, in its original case.
	// +kubebuilder:validation:MinLength=1
	// +required
	ServiceName string `json:"serviceName"`
}

// DynamoGraphDeploymentScalingAdapterSpec is the replica count an autoscaler or a planner asks for.
type DynamoGraphDeploymentScalingAdapterSpec struct {
	// Replicas wanted. This is what the scale subresource writes.
	// +kubebuilder:validation:Minimum=0
	// +required
	Replicas int32 `json:"replicas"`

	// Service that is scaled.
	// +required
	DGDRef DynamoGraphDeploymentServiceRef `json:"dgdRef"`
}

// DynamoGraphDeploymentScalingAdapterStatus is what the scale subresource reads back.
type DynamoGraphDeploymentScalingAdapterStatus struct {
	// Replicas of the service that are there, as the graph counts them.
	// +optional
	Replicas int32 `json:"replicas"`

	// Label selector of the pods of the service, in text form, for autoscalers that read pod metrics.
	// +optional
	Selector string `json:"selector,omitempty"`

	// Last time the adapter changed the graph.
	// +optional
	LastScaleTime *metav1.Time `json:"lastScaleTime,omitempty"`

	// What the operator last concluded about the adapter.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Generation of the spec this status describes, -1 before the first look.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// DynamoGraphDeploymentScalingAdapter gives one service of a graph a scale subresource, so that autoscalers can drive it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=dynamographdeploymentscalingadapters,singular=dynamographdeploymentscalingadapter,shortName=dgdsa,scope=Namespaced
// +kubebuilder:printcolumn:name="DGD",type=string,JSONPath=`.spec.dgdRef.name`
// +kubebuilder:printcolumn:name="SERVICE",type=string,JSONPath=`.spec.dgdRef.serviceName`
// +kubebuilder:printcolumn:name="REPLICAS",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type DynamoGraphDeploymentScalingAdapter struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Service and replica count.
	// +optional
	Spec DynamoGraphDeploymentScalingAdapterSpec `json:"spec,omitzero"`

	// Result of the last synchronisation with the graph.
	// +optional
	// +default={"observedGeneration":-1}
	Status DynamoGraphDeploymentScalingAdapterStatus `json:"status,omitzero"`
}

// DynamoGraphDeploymentScalingAdapterList is a list of DynamoGraphDeploymentScalingAdapter.
//
// +kubebuilder:object:root=true
type DynamoGraphDeploymentScalingAdapterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DynamoGraphDeploymentScalingAdapter `json:"items"`
}
