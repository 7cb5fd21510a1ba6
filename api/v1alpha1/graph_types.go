// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Values of DynamoGraphDeploymentStatus.State.
const (
	GraphStatePending    = "pending"
	GraphStateSuccessful = "successful"
	GraphStateFailed     = "failed"
)

// RestartStrategyType says in which order services restart.
//
// +kubebuilder:validation:Enum=Sequential;Parallel
type RestartStrategyType string

// Restart strategies.
const (
	RestartStrategyTypeSequential RestartStrategyType = "Sequential"
	RestartStrategyTypeParallel   RestartStrategyType = "Parallel"
)

// RestartPhase is the step a restart has reached.
type RestartPhase string

// Phases of a restart.
const (
	RestartPhasePending    RestartPhase = "Pending"
	RestartPhaseRestarting RestartPhase = "Restarting"
	RestartPhaseCompleted  RestartPhase = "Completed"
	RestartPhaseFailed     RestartPhase = "Failed"
)

// PVC is a volume claim services of the graph mount by name.
//
// +kubebuilder:validation:XValidation:rule="!has(self.create) || self.create == false || (has(self.size) && has(self.storageClass) && has(self.volumeAccessMode))",message="size, storageClass and volumeAccessMode are needed when create is true"
// +kubebuilder:validation:XValidation:rule="size(self.name) > 0",fieldPath=".name",message="name the claim"
// +kubebuilder:validation:XValidation:rule="!has(self.create) || !self.create || !has(self.storageClass) || !has(self.volumeAccessMode) || (size(self.storageClass) > 0 && size(self.volumeAccessMode) > 0)",message="storageClass and volumeAccessMode must not be empty when create is true"
type PVC struct {
	// Create the claim. Otherwise it must exist already. A created claim is deleted with the graph.
	// +optional
	Create *bool `json:"create,omitempty"`

	// Name of the claim.
	// +required
	Name *string `json:"name,omitempty"`

	// Storage class of a created claim.
	// +optional
	StorageClass string `json:"storageClass,omitempty"`

	// Capacity of a created claim, for example "100Gi".
	// +optional
	Size resource.Quantity `json:"size,omitzero"`

	// Access mode of a created claim, for example "ReadWriteMany".
	// +optional
	VolumeAccessMode corev1.PersistentVolumeAccessMode `json:"volumeAccessMode,omitempty"`
}

// RestartStrategy says how services restart.
//
// +kubebuilder:validation:XValidation:rule="!has(self.order) || size(self.order) == 0 || !has(self.type) || self.type != 'Parallel'",fieldPath=".order",message="a parallel restart has no order: remove it, or restart sequentially"
type RestartStrategy struct {
	// Sequential restarts one service after another, Parallel all at once.
	// +kubebuilder:default=Sequential
	// +optional
	Type RestartStrategyType `json:"type,omitempty"`

	// Order of a sequential restart; it names every service once. Alphabetical when empty.
	// +kubebuilder:validation:MaxItems=25
	// +optional
	Order []string `json:"order,omitempty"`
}

// Restart asks for a restart of the graph.
type Restart struct {
	// Any text. A value not seen before starts a restart.
	// +kubebuilder:validation:MinLength=1
	// +required
	ID string `json:"id"`

	// How to restart. Sequential, in alphabetical order, when not given.
	// +optional
	Strategy *RestartStrategy `json:"strategy,omitempty"`
}

// DynamoGraphDeploymentSpec describes an inference graph: its services and what they share.
//
// +kubebuilder:validation:XValidation:rule="has(self.services) && size(self.services) > 0",fieldPath=".services",message="name at least one service"
// +kubebuilder:validation:XValidation:rule="has(self.backendFramework) == has(oldSelf.backendFramework) && (!has(self.backendFramework) || self.backendFramework == oldSelf.backendFramework)",fieldPath=".backendFramework",message="backendFramework cannot be changed: create another graph"
// +kubebuilder:validation:XValidation:rule="!has(self.restart) || !has(self.restart.strategy) || !has(self.restart.strategy.order) || size(self.restart.strategy.order) == 0 || (has(self.restart.strategy.type) && self.restart.strategy.type == 'Parallel') || (has(self.services) && size(self.restart.strategy.order) == size(self.services) && self.services.all(name, name in self.restart.strategy.order))",fieldPath=".restart.strategy.order",message="the order of a restart names every service once, and nothing else"
type DynamoGraphDeploymentSpec struct {
	// Volume claims the services mount.
	// +kubebuilder:validation:MaxItems=100
	// +optional
	PVCs []PVC `json:"pvcs,omitempty"`

	// Services of the graph by name, for example a frontend and its workers.
	// +kubebuilder:validation:MaxProperties=25
	// +kubebuilder:validation:XValidation:rule="size(oldSelf) == 0 || (self.all(name, name in oldSelf) && oldSelf.all(name, name in self))",message="services cannot be added, removed or renamed on a graph that exists: create another graph, or set replicas to 0"
	// +kubebuilder:validation:XValidation:rule="self.all(name, !(name in oldSelf) || has(self[name].multinode) == has(oldSelf[name].multinode))",message="a service cannot be moved between one node and several: create another graph"
	// +optional
	Services map[string]*DynamoComponentDeploymentSharedSpec `json:"services,omitempty"`

	// Environment variables of all services. A variable of the same name in a service wins.
	// +optional
	Envs []corev1.EnvVar `json:"envs,omitempty"`

	// Engine of the workers.
	// +kubebuilder:validation:Enum=sglang;vllm;trtllm
	// +optional
	BackendFramework string `json:"backendFramework,omitempty"`

	// Set or change restart.id to restart the graph.
	// +optional
	Restart *Restart `json:"restart,omitempty"`
}

// RestartStatus reports how far a restart is.
type RestartStatus struct {
	// Restart request being worked on, or the last one finished.
	// +optional
	ObservedID string `json:"observedID,omitempty"`

	// Step of the restart: Pending, Restarting, Completed or Failed.
	// +optional
	Phase RestartPhase `json:"phase,omitempty"`

	// Services that are restarting now.
	// +optional
	InProgress []string `json:"inProgress,omitempty"`
}

// ServiceCheckpointStatus reports which checkpoint a service starts from.
type ServiceCheckpointStatus struct {
	// Name of the DynamoCheckpoint.
	// +optional
	CheckpointName string `json:"checkpointName,omitempty"`

	// Hash of the checkpoint identity.
	// +optional
	IdentityHash string `json:"identityHash,omitempty"`

	// True when new pods of the service start from the checkpoint.
	// +optional
	Ready bool `json:"ready,omitempty"`

	// Why the checkpoint cannot be used yet.
	// +optional
	Message string `json:"message,omitempty"`
}

// DynamoGraphDeploymentStatus reports how the services of the graph are.
type DynamoGraphDeploymentStatus struct {
	// Summary of the graph: pending, successful or failed.
	// +optional
	State string `json:"state,omitempty"`

	// What the operator last concluded about the graph.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Replicas by service.
	// +optional
	Services map[string]ServiceReplicaStatus `json:"services,omitempty"`

	// Progress of the last restart.
	// +optional
	Restart *RestartStatus `json:"restart,omitempty"`

	// Checkpoint by service, for services that use one.
	// +optional
	Checkpoints map[string]ServiceCheckpointStatus `json:"checkpoints,omitempty"`

	// Generation of the spec this status describes, -1 before the first look.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// DynamoGraphDeployment runs an inference graph: frontends, workers, planners and what connects them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=dynamographdeployments,singular=dynamographdeployment,shortName=dgd,scope=Namespaced
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Backend",type=string,JSONPath=`.spec.backendFramework`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DynamoGraphDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Services and what they share.
	// +optional
	Spec DynamoGraphDeploymentSpec `json:"spec,omitzero"`

	// How the services are.
	// +optional
	// +default={"observedGeneration":-1}
	Status DynamoGraphDeploymentStatus `json:"status,omitzero"`
}

// DynamoGraphDeploymentList is a list of DynamoGraphDeployment.
//
// +kubebuilder:object:root=true
type DynamoGraphDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DynamoGraphDeployment `json:"items"`
}
