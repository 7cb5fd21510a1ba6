// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Values of DynamoModelSpec.ModelType.
const (
	ModelTypeBase    = "base"
	ModelTypeLoRA    = "lora"
	ModelTypeAdapter = "adapter"
)

// DynamoModelSpec says which model is served and, for a LoRA, where its weights are.
//
// +kubebuilder:validation:XValidation:rule="!has(self.modelType) || self.modelType != 'lora' || has(self.source)",fieldPath=".source",message="a lora needs a source"
// +kubebuilder:validation:XValidation:rule="!has(self.modelType) || self.modelType != 'lora' || !has(self.source) || self.source.uri.startsWith('s3://') || self.source.uri.startsWith('hf://')",fieldPath=".source.uri",message="the source of a lora begins with s3:// or hf://"
type DynamoModelSpec struct {
	// Full identifier of the model, for example "Qwen/Qwen3-0.6B". For a LoRA it is also the name workers load it under.
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="name the model"
	// +required
	ModelName string `json:"modelName"`

	// Base model whose serving pods are looked up. It must equal modelRef.name of the services that serve it.
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="name the base model"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="baseModelName cannot be changed: create another model"
	// +required
	BaseModelName string `json:"baseModelName"`

	// Category of the model. A lora is loaded into the workers of its base model; base and adapter are only tracked.
	// +kubebuilder:validation:Enum=base;lora;adapter
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="modelType cannot be changed: create another model"
	// +kubebuilder:default=base
	// +optional
	ModelType string `json:"modelType,omitempty"`

	// Where the weights are. Needed when modelType is lora.
	// +optional
	Source *ModelSource `json:"source,omitempty"`
}

// ModelSource locates model weights.
type ModelSource struct {
	// Location of the weights: "s3://bucket/path" or "hf://organisation/repository".
	// +required
	URI string `json:"uri"`
}

// EndpointInfo is one pod that may serve the model.
type EndpointInfo struct {
	// Base URL the operator calls, for example "http://10.0.0.7:9090".
	// +required
	Address string `json:"address"`

	// Pod behind the address.
	// +optional
	PodName string `json:"podName,omitempty"`

	// True once this endpoint has the LoRA from its present source. For other types, true while its pod is ready.
	// +required
	Ready bool `json:"ready"`

	// Adapters that this model has brought to this endpoint, or is about to: the present one, and those of earlier names until
	// they are gone. They are recorded before anything is loaded.
	// +optional
	Adapters []EndpointAdapter `json:"adapters,omitempty"`

	// Why the endpoint is not ready, from its latest answer.
	// +optional
	Message string `json:"message,omitempty"`
}

// EndpointAdapter is an adapter that an endpoint has, or may have.
type EndpointAdapter struct {
	// Name that it is loaded under.
	// +required
	Name string `json:"name"`

	// Source that it is from, if it is there.
	// +required
	URI string `json:"uri"`
}

// DynamoModelStatus reports where the model was found.
type DynamoModelStatus struct {
	// Endpoints found for the base model.
	// +optional
	Endpoints []EndpointInfo `json:"endpoints,omitempty"`

	// Number of endpoints that are ready.
	// +required
	ReadyEndpoints int `json:"readyEndpoints"`

	// Number of endpoints found.
	// +required
	TotalEndpoints int `json:"totalEndpoints"`

	// What the operator last concluded about the model.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Generation of the spec this status describes, -1 before the first look.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// DynamoModel makes a model, or a LoRA on top of one, known to the workers that serve its base model.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=dynamomodels,singular=dynamomodel,shortName=dm,scope=Namespaced
// +kubebuilder:printcolumn:name="BaseModel",type=string,JSONPath=`.spec.baseModelName`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.modelType`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyEndpoints`
// +kubebuilder:printcolumn:name="Total",type=integer,JSONPath=`.status.totalEndpoints`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DynamoModel struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Model to track or load.
	// +optional
	Spec DynamoModelSpec `json:"spec,omitzero"`

	// Endpoints found so far.
	// +optional
	// +default={"observedGeneration":-1,"readyEndpoints":0,"totalEndpoints":0}
	Status DynamoModelStatus `json:"status,omitzero"`
}

// DynamoModelList is a list of DynamoModel.
//
// +kubebuilder:object:root=true
type DynamoModelList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DynamoModel `json:"items"`
}
