// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DynamoCheckpointPhase is the step a checkpoint has reached.
//
// +kubebuilder:validation:Enum=Pending;Creating;Ready;Failed
type DynamoCheckpointPhase string

// Phases of a checkpoint. Ready and Failed are final.
const (
	DynamoCheckpointPhasePending  DynamoCheckpointPhase = "Pending"
	DynamoCheckpointPhaseCreating DynamoCheckpointPhase = "Creating"
	DynamoCheckpointPhaseReady    DynamoCheckpointPhase = "Ready"
	DynamoCheckpointPhaseFailed   DynamoCheckpointPhase = "Failed"
)

// DynamoCheckpointStorageType is the kind of storage that holds a checkpoint.
//
// +kubebuilder:validation:Enum=pvc;s3;oci
type DynamoCheckpointStorageType string

// Storage types of a checkpoint.
const (
	DynamoCheckpointStorageTypePVC DynamoCheckpointStorageType = "pvc"
	DynamoCheckpointStorageTypeS3  DynamoCheckpointStorageType = "s3"
	DynamoCheckpointStorageTypeOCI DynamoCheckpointStorageType = "oci"
)

// DynamoCheckpointIdentity is everything that decides whether two checkpoints are interchangeable.
type DynamoCheckpointIdentity struct {
	// Model identifier, for example "meta-llama/Llama-2-7b-hf".
	// +required
	Model string `json:"model"`

	// Engine the checkpoint was taken from.
	// +kubebuilder:validation:Enum=vllm;sglang;trtllm
	// +required
	BackendFramework string `json:"backendFramework"`

	// Version of the Dynamo platform. Leave it empty to share the checkpoint between versions.
	// +optional
	DynamoVersion string `json:"dynamoVersion,omitempty"`

	// Tensor parallel degree.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:default=1
	// +optional
	TensorParallelSize int32 `json:"tensorParallelSize,omitempty"`

	// Pipeline parallel degree.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:default=1
	// +optional
	PipelineParallelSize int32 `json:"pipelineParallelSize,omitempty"`

	// Numeric type of the weights, for example "float16".
	// +optional
	Dtype string `json:"dtype,omitempty"`

	// Context length in tokens.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaxModelLen int32 `json:"maxModelLen,omitempty"`

	// Any further engine settings that make a checkpoint different.
	// +optional
	ExtraParameters map[string]string `json:"extraParameters,omitempty"`
}

// DynamoCheckpointJobConfig describes the Job that produces a checkpoint.
type DynamoCheckpointJobConfig struct {
	// Pod that runs the workload to be captured. Its first container is the one that is captured.
	// +required
	PodTemplateSpec corev1.PodTemplateSpec `json:"podTemplateSpec"`

	// Seconds after which an unfinished Job is stopped.
	// +kubebuilder:default=3600
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// Number of times a failed pod of the Job is tried again.
	// +kubebuilder:default=3
	// +optional
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`

	// Seconds a finished Job is kept.
	// +kubebuilder:default=300
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// DynamoCheckpointSpec says what is captured and how.
type DynamoCheckpointSpec struct {
	// What the checkpoint contains. It cannot be changed after creation.
	// +required
	Identity DynamoCheckpointIdentity `json:"identity"`

	// How the checkpoint is produced.
	// +required
	Job DynamoCheckpointJobConfig `json:"job"`
}

// DynamoCheckpointStatus reports how far the checkpoint is and where it lies.
type DynamoCheckpointStatus struct {
	// Step the checkpoint has reached.
	// +optional
	Phase DynamoCheckpointPhase `json:"phase,omitempty"`

	// Hash of spec.identity, 16 hexadecimal digits.
	// +optional
	IdentityHash string `json:"identityHash,omitempty"`

	// Directory the finished checkpoint lies in.
	// +optional
	Location string `json:"location,omitempty"`

	// Kind of storage that holds the checkpoint.
	// +optional
	StorageType DynamoCheckpointStorageType `json:"storageType,omitempty"`

	// Job that produces, or produced, the checkpoint.
	// +optional
	JobName string `json:"jobName,omitempty"`

	// Time the checkpoint became ready.
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`

	// Why the checkpoint failed.
	// +optional
	Message string `json:"message,omitempty"`

	// What the operator last concluded about the checkpoint.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Digest of the environment the checkpoint was taken in, kept to notice when it no longer fits.
	// +optional
	Fingerprint string `json:"fingerprint,omitempty"`

	// Generation of the spec this status describes, -1 before the first look.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// DynamoCheckpoint is a captured, ready-to-serve worker process that later pods start from.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=dynamocheckpoints,singular=dynamocheckpoint,shortName=dckpt,scope=Namespaced
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec.identity) || self.spec.identity == oldSelf.spec.identity",message="spec.identity cannot be changed; create another DynamoCheckpoint instead"
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.identity.model`
// +kubebuilder:printcolumn:name="Backend",type=string,JSONPath=`.spec.identity.backendFramework`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Hash",type=string,JSONPath=`.status.identityHash`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DynamoCheckpoint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is captured and how.
	// +optional
	Spec DynamoCheckpointSpec `json:"spec,omitzero"`

	// Progress and result of the capture.
	// +optional
	// +default={"observedGeneration":-1}
	Status DynamoCheckpointStatus `json:"status,omitzero"`
}

// DynamoCheckpointList is a list of DynamoCheckpoint.
//
// +kubebuilder:object:root=true
type DynamoCheckpointList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DynamoCheckpoint `json:"items"`
}
