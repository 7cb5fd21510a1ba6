// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the wire types of API group nvidia.com, version v1alpha1.
//
// The package is types and markers first: the markers are the only source of the CustomResourceDefinitions, and the
// few methods here are pure and answer questions about one object alone. It imports nothing but the standard library
// and Kubernetes type packages, so that a client can use it without pulling in a controller.
//
// +kubebuilder:object:generate=true
// +groupName=nvidia.com
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of every kind in this package.
const GroupName = "nvidia.com"

// Kind names, as they appear in manifests and owner references.
const (
	KindDynamoModel                         = "DynamoModel"
	KindDynamoComponentDeployment           = "DynamoComponentDeployment"
	KindDynamoGraphDeployment               = "DynamoGraphDeployment"
	KindDynamoCheckpoint                    = "DynamoCheckpoint"
	KindDynamoGraphDeploymentRequest        = "DynamoGraphDeploymentRequest"
	KindDynamoGraphDeploymentScalingAdapter = "DynamoGraphDeploymentScalingAdapter"
	KindDynamoWorkerMetadata                = "DynamoWorkerMetadata"
)

// GroupVersion is the group and version every kind in this package is served under.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// AddToScheme registers all kinds of this package, and their lists, in a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	builder := runtime.NewSchemeBuilder(addKnownTypes)
	return builder.AddToScheme(scheme)
}

// Resource qualifies a plural resource name with the group, the form API errors use.
func Resource(resource string) schema.GroupResource {
	return GroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&DynamoModel{}, &DynamoModelList{},
		&DynamoComponentDeployment{}, &DynamoComponentDeploymentList{},
		&DynamoGraphDeployment{}, &DynamoGraphDeploymentList{},
		&DynamoCheckpoint{}, &DynamoCheckpointList{},
		&DynamoGraphDeploymentRequest{}, &DynamoGraphDeploymentRequestList{},
		&DynamoGraphDeploymentScalingAdapter{}, &DynamoGraphDeploymentScalingAdapterList{},
		&DynamoWorkerMetadata{}, &DynamoWorkerMetadataList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
