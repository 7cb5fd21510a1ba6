// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Values of DynamoGraphDeploymentRequestStatus.State. An empty state means the request was not looked at yet.
const (
	RequestStatePending           = "Pending"
	RequestStateProfiling         = "Profiling"
	RequestStateDeploying         = "Deploying"
	RequestStateReady             = "Ready"
	RequestStateDeploymentDeleted = "DeploymentDeleted"
	RequestStateFailed            = "Failed"
)

// DefaultProfilingConfigMapKey is the data key read when a request names a ConfigMap without a key.
const DefaultProfilingConfigMapKey = "disagg.yaml"

// ConfigMapKeySelector picks one key of a ConfigMap in the namespace of the request.
// It is not the core type of the same name: here the name is required and the key has a default.
type ConfigMapKeySelector struct {
	// Name of the ConfigMap.
	// +required
	Name string `json:"name"`

	// Data key that holds the manifest.
	// +kubebuilder:default=disagg.yaml
	// +optional
	Key string `json:"key,omitempty"`
}

// ProfilingConfigSpec configures the profiling Job.
//
// +kubebuilder:validation:XValidation:rule="has(self.config)",fieldPath=".config",message="say what to profile for: give at least the service level targets"
type ProfilingConfigSpec struct {
	// Configuration handed to the profiler, for example service level targets, hardware and search limits.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Config *apiextensionsv1.JSON `json:"config,omitempty"`

	// ConfigMap with a DynamoGraphDeployment manifest the profiler starts from.
	// +optional
	ConfigMapRef *ConfigMapKeySelector `json:"configMapRef,omitempty"`

	// Image of the profiler.
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="name the image of the profiler"
	// +required
	ProfilerImage string `json:"profilerImage"`

	// Claim that receives the profiling artefacts. Without one they are lost with the Job.
	// +optional
	OutputPVC string `json:"outputPVC,omitempty"`

	// Resources of the profiler container.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// Tolerations of the profiler pod.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// DeploymentOverridesSpec changes metadata and worker image of the graph a request creates.
type DeploymentOverridesSpec struct {
	// Name of the graph. The generated manifest decides when it is empty.
	// +optional
	Name string `json:"name,omitempty"`

	// Namespace of the graph. The namespace of the request is used when it is empty.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Labels added to the graph. They win over labels set by the operator.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations added to the graph.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// Image of the workers, used for profiling and in the graph.
	// +optional
	WorkersImage string `json:"workersImage,omitempty"`
}

// DynamoGraphDeploymentRequestSpec names a model and the targets a deployment of it must meet.
type DynamoGraphDeploymentRequestSpec struct {
	// Model to deploy, for example "Qwen/Qwen3-0.6B".
	// +required
	Model string `json:"model"`

	// Engine to deploy it with.
	// +kubebuilder:validation:Enum=vllm;sglang;trtllm
	// +required
	Backend string `json:"backend"`

	// Deploy simulated engines that need no GPU.
	// +kubebuilder:default=false
	// +optional
	UseMocker bool `json:"useMocker,omitempty"`

	// Let the profiler read GPU facts from nodes. Only an operator that serves the whole cluster allows it.
	// +kubebuilder:default=false
	// +optional
	EnableGPUDiscovery bool `json:"enableGpuDiscovery,omitempty"`

	// How to profile.
	// +required
	ProfilingConfig ProfilingConfigSpec `json:"profilingConfig"`

	// Create the generated graph when profiling is done.
	// +kubebuilder:default=false
	// +optional
	AutoApply bool `json:"autoApply,omitempty"`

	// Changes to the graph that autoApply creates.
	// +optional
	DeploymentOverrides *DeploymentOverridesSpec `json:"deploymentOverrides,omitempty"`
}

// DeploymentStatus tracks the graph that was created for a request.
type DeploymentStatus struct {
	// Name of the graph.
	// +optional
	Name string `json:"name,omitempty"`

	// Namespace of the graph.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// State of the graph, as in its own status.
	// +optional
	State string `json:"state,omitempty"`

	// True once the graph was created; it is never created twice.
	// +optional
	Created bool `json:"created,omitempty"`
}

// DynamoGraphDeploymentRequestStatus reports how far the request is and what came out of it.
type DynamoGraphDeploymentRequestStatus struct {
	// Step the request has reached: Pending, Profiling, Deploying, Ready, DeploymentDeleted or Failed.
	// +optional
	State string `json:"state,omitempty"`

	// Engine of the request, for display.
	// +optional
	Backend string `json:"backend,omitempty"`

	// Generation of the spec that is being worked on, -1 before the first look. Later edits are ignored.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// What the operator last concluded about the request.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Where the profiling results are, for example "configmap/dgdr-output-example".
	// +optional
	ProfilingResults string `json:"profilingResults,omitempty"`

	// Generated DynamoGraphDeployment, complete and ready to be applied.
	// +kubebuilder:validation:EmbeddedResource
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	GeneratedDeployment *runtime.RawExtension `json:"generatedDeployment,omitempty"`

	// Graph created for the request when autoApply is set.
	// +optional
	Deployment *DeploymentStatus `json:"deployment,omitempty"`
}

// DynamoGraphDeploymentRequest asks for a deployment of a model that meets given targets; profiling finds its shape.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=dynamographdeploymentrequests,singular=dynamographdeploymentrequest,shortName=dgdr,scope=Namespaced
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.model`
// +kubebuilder:printcolumn:name="Backend",type=string,JSONPath=`.status.backend`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="DGD-State",type=string,JSONPath=`.status.deployment.state`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DynamoGraphDeploymentRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Model, engine and targets.
	// +optional
	Spec DynamoGraphDeploymentRequestSpec `json:"spec,omitzero"`

	// Progress and result.
	// +optional
	// +default={"observedGeneration":-1}
	Status DynamoGraphDeploymentRequestStatus `json:"status,omitzero"`
}

// DynamoGraphDeploymentRequestList is a list of DynamoGraphDeploymentRequest.
//
// +kubebuilder:object:root=true
type DynamoGraphDeploymentRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DynamoGraphDeploymentRequest `json:"items"`
}
