// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DynamoWorkerMetadataSpec carries what a worker publishes about itself.
type DynamoWorkerMetadataSpec struct {
	// Discovery payload of the worker, such as its endpoints and model cards. It is stored as sent.
	// Whole numbers beyond 9223372036854775807 lose digits in Kubernetes; write them as strings.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +required
	Data apiextensionsv1.JSON `json:"data"`
}

// DynamoWorkerMetadata is written by a worker pod, carries the name of that pod and is owned by it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=dynamoworkermetadatas,singular=dynamoworkermetadata,shortName=dwm,scope=Namespaced
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DynamoWorkerMetadata struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What the worker publishes.
	// +optional
	Spec DynamoWorkerMetadataSpec `json:"spec,omitzero"`
}

// DynamoWorkerMetadataList is a list of DynamoWorkerMetadata.
//
// +kubebuilder:object:root=true
type DynamoWorkerMetadataList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DynamoWorkerMetadata `json:"items"`
}
