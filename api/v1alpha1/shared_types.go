// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Engines, the values of every backendFramework field and of DynamoGraphDeploymentRequestSpec.Backend.
const (
	BackendFrameworkVLLM   = "vllm"
	BackendFrameworkSGLang = "sglang"
	BackendFrameworkTRTLLM = "trtllm"
)

// Component types the operator knows. Any other value is a generic component.
const (
	ComponentTypeFrontend = "frontend"
	ComponentTypeWorker   = "worker"
	ComponentTypePrefill  = "prefill"
	ComponentTypeDecode   = "decode"
	ComponentTypePlanner  = "planner"
	ComponentTypeEPP      = "epp"
)

// State strings the GetState methods return. They label metrics and are not stored.
const (
	StateReady    = "ready"
	StateNotReady = "not_ready"
	StateUnknown  = "unknown"
)

const (
	// GlobalDynamoNamespace is the Dynamo namespace of components that ask for the global one.
	GlobalDynamoNamespace = "dynamo"
	// DeploymentConfigEnv is the environment variable that carries the legacy JSON configuration of a component.
	DeploymentConfigEnv = "DYN_DEPLOYMENT_CONFIG"
	// DefaultNodeCount is the number of nodes of a multi-node component that does not say how many it needs.
	DefaultNodeCount int32 = 2
)

// Condition types the wire contract names.
const (
	ConditionReady                = "Ready"
	ConditionAvailable            = "Available"
	ConditionPaused               = "Paused"
	ConditionStalled              = "Stalled"
	ConditionContested            = "Contested"
	ConditionHostConflict         = "HostConflict"
	ConditionValid                = "Valid"
	ConditionDynamoComponentReady = "DynamoComponentReady"
	ConditionEndpointsReady       = "EndpointsReady"
	ConditionServicesFound        = "ServicesFound"
	ConditionValidation           = "Validation"
	ConditionProfiling            = "Profiling"
	ConditionSpecGenerated        = "SpecGenerated"
	ConditionDeploymentReady      = "DeploymentReady"
	ConditionJobCreated           = "JobCreated"
	ConditionJobCompleted         = "JobCompleted"
	ConditionTarAvailable         = "TarAvailable"
	ConditionSuspect              = "Suspect"
)

// ComponentKind is the kind of the workload behind a service.
//
// +kubebuilder:validation:Enum=PodClique;PodCliqueScalingGroup;Deployment;LeaderWorkerSet
type ComponentKind string

// Kinds of workloads.
const (
	ComponentKindPodClique             ComponentKind = "PodClique"
	ComponentKindPodCliqueScalingGroup ComponentKind = "PodCliqueScalingGroup"
	ComponentKindDeployment            ComponentKind = "Deployment"
	ComponentKindLeaderWorkerSet       ComponentKind = "LeaderWorkerSet"
)

// CheckpointMode says who creates the checkpoint a service starts from.
//
// +kubebuilder:validation:Enum=Auto;Manual
type CheckpointMode string

// Checkpoint modes.
const (
	CheckpointModeAuto   CheckpointMode = "Auto"
	CheckpointModeManual CheckpointMode = "Manual"
)

// ResourceItem is one set of resource amounts. Amounts are text, so numbers must be quoted in YAML.
type ResourceItem struct {
	// CPU, for example "4" or "500m".
	// +optional
	CPU string `json:"cpu,omitempty"`

	// Memory, for example "32Gi".
	// +optional
	Memory string `json:"memory,omitempty"`

	// Number of GPUs, per node for multi-node components.
	// +optional
	GPU string `json:"gpu,omitempty"`

	// Resource name of the GPU. "nvidia.com/gpu" when empty.
	// +optional
	GPUType string `json:"gpuType,omitempty"`

	// Amounts of further resources by resource name.
	// +optional
	Custom map[string]string `json:"custom,omitempty"`
}

// Resources is what a component asks of its nodes.
type Resources struct {
	// Amounts that are reserved.
	// +optional
	Requests *ResourceItem `json:"requests,omitempty"`

	// Amounts that cannot be exceeded. GPUs are counted here.
	// +optional
	Limits *ResourceItem `json:"limits,omitempty"`

	// Dynamic resource allocation claims of the pod the main container uses.
	// +optional
	Claims []corev1.ResourceClaim `json:"claims,omitempty"`
}

// Autoscaling is accepted for old manifests and ignored.
type Autoscaling struct {
	// Ignored.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// Ignored.
	// +optional
	MinReplicas int `json:"minReplicas,omitempty"`

	// Ignored.
	// +optional
	MaxReplicas int `json:"maxReplicas,omitempty"`

	// Ignored.
	// +optional
	Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior,omitempty"`

	// Ignored.
	// +optional
	Metrics []autoscalingv2.MetricSpec `json:"metrics,omitempty"`
}

// VolumeMount mounts a volume claim into the main container.
//
// +kubebuilder:validation:XValidation:rule="(has(self.useAsCompilationCache) && self.useAsCompilationCache) || (has(self.mountPoint) && size(self.mountPoint) > 0)",fieldPath=".mountPoint",message="say where to mount the claim, or set useAsCompilationCache"
type VolumeMount struct {
	// Name of the claim.
	// +required
	Name string `json:"name"`

	// Path in the container. Needed unless useAsCompilationCache is set.
	// +optional
	MountPoint string `json:"mountPoint,omitempty"`

	// Keep compiled kernels of the engine on this volume. For vllm mountPoint then has a default.
	// +kubebuilder:default=false
	// +optional
	UseAsCompilationCache bool `json:"useAsCompilationCache,omitempty"`
}

// IngressTLSSpec says which certificate serves the host.
type IngressTLSSpec struct {
	// Secret with the certificate.
	// +optional
	SecretName string `json:"secretName,omitempty"`
}

// IngressSpec publishes a component outside the cluster.
//
// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || !self.enabled || (has(self.host) && size(self.host) > 0)",fieldPath=".host",message="an enabled ingress needs a host"
type IngressSpec struct {
	// Publish the component.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// First part of the host name. Needed when enabled.
	// +optional
	Host string `json:"host,omitempty"`

	// Use an Istio VirtualService instead of an Ingress.
	// +optional
	UseVirtualService bool `json:"useVirtualService,omitempty"`

	// Istio gateway of the VirtualService.
	// +optional
	VirtualServiceGateway *string `json:"virtualServiceGateway,omitempty"`

	// Text put directly before host.
	// +optional
	HostPrefix *string `json:"hostPrefix,omitempty"`

	// Annotations of the Ingress or VirtualService.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// Labels of the Ingress or VirtualService.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Serve the host with TLS.
	// +optional
	TLS *IngressTLSSpec `json:"tls,omitempty"`

	// Domain put after host. "local" when not given.
	// +optional
	HostSuffix *string `json:"hostSuffix,omitempty"`

	// Ingress class of the Ingress.
	// +optional
	IngressControllerClassName *string `json:"ingressControllerClassName,omitempty"`
}

// ModelReference names the model a component serves.
type ModelReference struct {
	// Base model identifier. DynamoModels find the component by it.
	// +required
	Name string `json:"name"`

	// Revision of the model, for information.
	// +optional
	Revision string `json:"revision,omitempty"`
}

// SharedMemorySpec sizes the memory file system at /dev/shm.
//
// +kubebuilder:validation:XValidation:rule="(has(self.disabled) && self.disabled) || has(self.size)",fieldPath=".size",message="give a size, or set disabled"
type SharedMemorySpec struct {
	// Leave /dev/shm as the container runtime makes it.
	// +optional
	Disabled bool `json:"disabled,omitempty"`

	// Size of /dev/shm, for example "16Gi". 8Gi when sharedMemory is not given.
	// +optional
	Size resource.Quantity `json:"size,omitzero"`
}

// ExtraPodMetadata is metadata of the pods alone.
type ExtraPodMetadata struct {
	// Annotations added to the pods.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// Labels added to the pods.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// ExtraPodSpec is laid over the pod the operator renders.
type ExtraPodSpec struct {
	*corev1.PodSpec `json:",inline"`

	// Laid over the main container, for example its image, command and args.
	// +optional
	MainContainer *corev1.Container `json:"mainContainer,omitempty"`
}

// MultinodeSpec spreads each replica over several nodes.
type MultinodeSpec struct {
	// Nodes of one replica. GPUs of a replica are nodeCount times the GPU limit.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:default=2
	// +required
	NodeCount int32 `json:"nodeCount,omitempty"`
}

// ScalingAdapter hands the replica count over to an autoscaler.
type ScalingAdapter struct {
	// Create a DynamoGraphDeploymentScalingAdapter that owns replicas from then on.
	// +kubebuilder:default=false
	// +optional
	Enabled bool `json:"enabled,omitempty"`
}

// EPPConfig configures an endpoint picker. Give exactly one of configMapRef and config.
type EPPConfig struct {
	// ConfigMap key that holds the picker configuration.
	// +optional
	ConfigMapRef *corev1.ConfigMapKeySelector `json:"configMapRef,omitempty"`

	// Picker configuration, written to a ConfigMap by the operator.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Config *apiextensionsv1.JSON `json:"config,omitempty"`
}

// ServiceCheckpointConfig makes a service start from a checkpoint.
//
// +kubebuilder:validation:XValidation:rule="!self.enabled || (has(self.checkpointRef) && size(self.checkpointRef) > 0) || (has(self.identity) && has(self.identity.model) && has(self.identity.backendFramework))",message="an enabled checkpoint needs checkpointRef, or identity with model and backendFramework"
type ServiceCheckpointConfig struct {
	// Start pods from a checkpoint when one is ready.
	// +kubebuilder:default=false
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// Auto creates a missing checkpoint, Manual waits for one you create.
	// +kubebuilder:default=Auto
	// +optional
	Mode CheckpointMode `json:"mode,omitempty"`

	// Name of a DynamoCheckpoint in the same namespace. It wins over identity.
	// +optional
	CheckpointRef *string `json:"checkpointRef,omitempty"`

	// What the checkpoint must contain; the checkpoint is found by the hash of it.
	// +optional
	Identity *DynamoCheckpointIdentity `json:"identity,omitempty"`
}

// DynamoComponentDeploymentSharedSpec is one component: a value of spec.services of a graph, or the spec of a
// DynamoComponentDeployment.
//
// +kubebuilder:validation:XValidation:rule="!has(self.componentType) || self.componentType != 'epp' || !has(self.multinode)",fieldPath=".multinode",message="an endpoint picker runs on one node: remove multinode"
// +kubebuilder:validation:XValidation:rule="!has(self.componentType) || self.componentType != 'epp' || !has(self.replicas) || self.replicas == 1",fieldPath=".replicas",message="an endpoint picker has exactly one replica: set replicas to 1, or leave it out"
// +kubebuilder:validation:XValidation:rule="!has(self.componentType) || self.componentType != 'epp' || (has(self.eppConfig) && (has(self.eppConfig.configMapRef) || has(self.eppConfig.config)))",fieldPath=".eppConfig",message="an endpoint picker needs a configuration: give config or configMapRef"
// +kubebuilder:validation:XValidation:rule="!has(self.componentType) || self.componentType != 'epp' || !has(self.eppConfig) || !has(self.eppConfig.configMapRef) || !has(self.eppConfig.config)",fieldPath=".eppConfig",message="give either config or configMapRef, not both"
// +kubebuilder:validation:XValidation:rule="!has(self.componentType) || self.componentType != 'epp' || !has(self.eppConfig) || !has(self.eppConfig.configMapRef) || (has(self.eppConfig.configMapRef.name) && size(self.eppConfig.configMapRef.name) > 0)",fieldPath=".eppConfig",message="name the ConfigMap that holds the configuration of the endpoint picker"
type DynamoComponentDeploymentSharedSpec struct {
	// Annotations of the generated objects. Some keys under nvidia.com/ switch operator behaviour.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// Labels of the generated objects.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Name of the component. In a graph the key of the service always decides.
	// +optional
	ServiceName string `json:"serviceName,omitempty"`

	// Role: frontend, worker, prefill, decode, planner, epp, or any other text for a generic component.
	// +optional
	ComponentType string `json:"componentType,omitempty"`

	// Finer role, for example prefill or decode of a worker.
	// +optional
	SubComponentType string `json:"subComponentType,omitempty"`

	// Deprecated: the operator computes the Dynamo namespace and ignores this value.
	// +optional
	DynamoNamespace *string `json:"dynamoNamespace,omitempty"`

	// Join the Dynamo namespace "dynamo" that all graphs share, instead of the one of the graph.
	// +optional
	GlobalDynamoNamespace bool `json:"globalDynamoNamespace,omitempty"`

	// Resources of the main container.
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// Deprecated: ignored. Use scalingAdapter with an autoscaler of your choice.
	// +optional
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`

	// Environment variables of the main container.
	// +optional
	Envs []corev1.EnvVar `json:"envs,omitempty"`

	// Secret whose keys all become environment variables.
	// +optional
	EnvFromSecret *string `json:"envFromSecret,omitempty"`

	// Volume claims to mount.
	// +optional
	VolumeMounts []VolumeMount `json:"volumeMounts,omitempty"`

	// Publish the component outside the cluster.
	// +optional
	Ingress *IngressSpec `json:"ingress,omitempty"`

	// Model the component serves. It makes the pods discoverable for DynamoModels.
	// +optional
	ModelRef *ModelReference `json:"modelRef,omitempty"`

	// Memory file system at /dev/shm.
	// +optional
	SharedMemory *SharedMemorySpec `json:"sharedMemory,omitempty"`

	// Labels and annotations of the pods alone.
	// +optional
	ExtraPodMetadata *ExtraPodMetadata `json:"extraPodMetadata,omitempty"`

	// Pod fields laid over the generated pod; mainContainer is laid over its main container.
	// +optional
	ExtraPodSpec *ExtraPodSpec `json:"extraPodSpec,omitempty"`

	// Replaces the default liveness probe of the main container.
	// +optional
	LivenessProbe *corev1.Probe `json:"livenessProbe,omitempty"`

	// Replaces the default readiness probe of the main container.
	// +optional
	ReadinessProbe *corev1.Probe `json:"readinessProbe,omitempty"`

	// Number of replicas. 1 when not given.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// Spread each replica over several nodes.
	// +optional
	Multinode *MultinodeSpec `json:"multinode,omitempty"`

	// Let an autoscaler own replicas.
	// +optional
	ScalingAdapter *ScalingAdapter `json:"scalingAdapter,omitempty"`

	// Endpoint picker settings, for componentType epp.
	// +optional
	EPPConfig *EPPConfig `json:"eppConfig,omitempty"`

	// Start pods from a checkpoint.
	// +optional
	Checkpoint *ServiceCheckpointConfig `json:"checkpoint,omitempty"`
}

// ServiceReplicaStatus counts the replicas of the workload behind a service.
type ServiceReplicaStatus struct {
	// Kind of the workload.
	// +required
	ComponentKind ComponentKind `json:"componentKind"`

	// Name of the workload; of the first one when there are several.
	// +required
	ComponentName string `json:"componentName"`

	// Replicas that are not terminated.
	// +kubebuilder:validation:Minimum=0
	// +required
	Replicas int32 `json:"replicas"`

	// Replicas on the newest revision.
	// +kubebuilder:validation:Minimum=0
	// +required
	UpdatedReplicas int32 `json:"updatedReplicas"`

	// Replicas that are ready. Absent for a PodCliqueScalingGroup.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// Replicas that are available. Absent for a PodClique and a LeaderWorkerSet.
	// +kubebuilder:validation:Minimum=0
	// +optional
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`
}
