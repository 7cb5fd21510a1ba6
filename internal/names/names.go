// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package names knows every name, label, annotation and port of the wire contract. Nothing else builds a name: a
// child that is called differently tomorrow is an orphan today.
package names

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// FieldManager owns every field the operator applies to its children.
const FieldManager = "dynamo-operator"

// FieldManagerReference owns what the reference writes: it names no manager, so that the server takes the name of its program.
const FieldManagerReference = "manager"

// FieldManagerScaling owns the replicas that a scaling adapter hands to a service of a graph. It has a name of its own, so
// that a user whose apply meets it reads who set the number.
const FieldManagerScaling = "dynamo-scaling"

// Labels of the wire contract, and one of our own.
const (
	LabelSelector         = "nvidia.com/selector"
	LabelGraph            = "nvidia.com/dynamo-graph-deployment-name"
	LabelComponent        = "nvidia.com/dynamo-component"
	LabelDynamoNamespace  = "nvidia.com/dynamo-namespace"
	LabelComponentType    = "nvidia.com/dynamo-component-type"
	LabelSubComponentType = "nvidia.com/dynamo-sub-component-type"
	LabelBaseModelHash    = "nvidia.com/dynamo-base-model-hash"
	LabelMetricsEnabled   = "nvidia.com/metrics-enabled"
	LabelManagedBy        = "nvidia.com/managed-by"
	LabelTargetType       = "nvidia.com/dynamo-deployment-target-type"
	LabelComponentPod     = "nvidia.com/dynamo-component-pod"

	// LabelRole and LabelInstance tell the pods of a replica of several nodes apart: by task, and by replica.
	LabelRole     = "role"
	LabelInstance = "instance-id"

	// LabelQueue is where KAI reads which queue a pod waits in.
	LabelQueue = "kai.scheduler/queue"

	// LabelDiscoveryBackend and LabelDiscoveryEnabled mark Services in which workers look for each other.
	LabelDiscoveryBackend = "nvidia.com/dynamo-discovery-backend"
	LabelDiscoveryEnabled = "nvidia.com/dynamo-discovery-enabled"

	LabelAppManagedBy = "app.kubernetes.io/managed-by"
	LabelAppComponent = "app.kubernetes.io/component"
	LabelAppName      = "app.kubernetes.io/name"

	// LabelApplied is on every child and on no pod: the informer caches select by it, so that memory grows with
	// what the operator made and not with what else lives in the cluster.
	LabelApplied = "nvidia.com/applied-by"
)

// Annotations of the wire contract, and one of our own.
const (
	AnnotationDiscoveryBackend      = "nvidia.com/dynamo-discovery-backend"
	AnnotationEnableMetrics         = "nvidia.com/enable-metrics"
	AnnotationEnableGrove           = "nvidia.com/enable-grove"
	AnnotationQueue                 = "nvidia.com/kai-scheduler-queue"
	AnnotationReconcile             = "nvidia.com/reconcile"
	AnnotationDisruptionBudget      = "nvidia.com/pod-disruption-budget"
	AnnotationBaseModel             = "nvidia.com/dynamo-base-model"
	AnnotationRestartAt             = "nvidia.com/restartAt"
	AnnotationStrategy              = "nvidia.com/deployment-strategy"
	AnnotationMaxSurge              = "nvidia.com/deployment-rolling-update-max-surge"
	AnnotationMaxUnavailable        = "nvidia.com/deployment-rolling-update-max-unavailable"
	AnnotationDebugMode             = "nvidia.com/enable-debug-mode"
	AnnotationStealingTrafficDebug  = "nvidia.com/enable-stealing-traffic-debug-mode"
	AnnotationDebugPodGetsTraffic   = "nvidia.com/enable-debug-pod-receive-production-traffic"
	AnnotationNoPullSecretDiscovery = "nvidia.com/disable-image-pull-secret-discovery"

	// AnnotationAppliedHash carries "v1:" and the SHA-256 of what was last applied. A child that has the hash of
	// today's intent needs no request, also after a restart of the operator.
	AnnotationAppliedHash = "nvidia.com/applied-hash"

	// AnnotationReferenceHash and AnnotationReferenceGeneration are the marks of the reference on what it has written.
	AnnotationReferenceHash       = "nvidia.com/last-applied-hash"
	AnnotationReferenceGeneration = "nvidia.com/last-applied-generation"

	// AnnotationRetainClaims on a graph makes the claims it creates outlive it.
	AnnotationRetainClaims = "nvidia.com/retain-pvcs"

	// AnnotationSurroundings records on a workload what was found around it when its pods were rendered.
	AnnotationSurroundings = "nvidia.com/surroundings"

	// AnnotationOriginVersion is stamped on a new graph: the operator that saw it first. A later release can keep the old
	// rendering for old graphs by it.
	AnnotationOriginVersion = "nvidia.com/dynamo-operator-origin-version"

	// AnnotationRotateAuthority on the Secret of the webhooks' authority, with the value "now", has a new one made.
	AnnotationRotateAuthority = "nvidia.com/rotate-ca"

	// AnnotationScope is on the Lease of a restricted operator: what the holder says about itself.
	AnnotationScope = "nvidia.com/namespace-scope"

	// AnnotationReleasedTo is on the same Lease: the holder to whom the cluster-wide operator has let the namespace go.
	AnnotationReleasedTo = "nvidia.com/released-to"

	// AnnotationGang is where Volcano reads to which PodGroup a pod belongs.
	AnnotationGang = "scheduling.k8s.io/group-name"

	// SwitchPrefix is shared by all annotations that steer the operator. They stay off pods: copying a switch would
	// roll pods for a change that means nothing to them.
	SwitchPrefix = "nvidia.com/"
)

// ScopeLease is the Lease by which a restricted operator claims its namespace.
const ScopeLease = "dynamo-operator-namespace-scope"

// ScopeHolder is the identity of one instance of a restricted operator. What follows the version tells instances apart.
func ScopeHolder(version, host, unique string) string {
	return "namespace-restricted-operator-" + version + "_" + host + "_" + unique
}

// Finalizer holds a component until its keys are gone from etcd. Nothing else has it: an object that leaves nothing behind
// goes without the operator.
const Finalizer = "nvidia.com/finalizer"

// Values used with the labels above.
const (
	OperatorName = "dynamo-operator"
	True         = "true"
	False        = "false"
	RBAC         = "rbac"
	Debug        = "debug"
	Paused       = "paused"
	Leader       = "leader"
	Worker       = "worker"
)

// Schedulers that place the pods of a group together or not at all.
const (
	VolcanoScheduler = "volcano"
	KAIScheduler     = "kai-scheduler"
	DefaultQueue     = "dynamo"
)

// Discovery back ends.
const (
	DiscoveryKubernetes = "kubernetes"
	DiscoveryEtcd       = "etcd"
)

// Ports by name and number.
const (
	PortHTTP       = "http"
	PortHTTPNumber = 8000

	PortSystem       = "system"
	PortSystemNumber = 9090

	PortMetrics              = "metrics"
	PortPlannerMetricsNumber = 9085

	PortGRPC             = "grpc"
	PortGRPCNumber       = 9002
	PortGRPCHealth       = "grpc-health"
	PortGRPCHealthNumber = 9003
)

// Accounts that all graphs of a namespace share.
const (
	PlannerAccount = "planner-serviceaccount"
	EPPAccount     = "epp-serviceaccount"
)

// PlannerUser is how the API server calls the planners of a namespace.
func PlannerUser(namespace string) string {
	return "system:serviceaccount:" + namespace + ":" + PlannerAccount
}

// EPPConfigFile is the file in which an endpoint picker reads its configuration, and the key of its ConfigMap.
const EPPConfigFile = "epp-config-dynamo.yaml"

// Keys of the Secret with the key pair of mpirun.
const (
	SSHPrivateKey = "private.key"
	SSHPublicKey  = "private.key.pub"
)

// What the operator is installed with where nobody chose other names.
const (
	WebhookService          = "dynamo-operator-webhook-service"
	WebhookAuthority        = "dynamo-operator-webhook-ca"
	ValidatingConfiguration = "dynamo-operator-validating"
	MutatingConfiguration   = "dynamo-operator-mutating"
)

// InferenceGroup is the API group of InferencePools.
const InferenceGroup = "inference.networking.k8s.io"

// Pieces of a pod that other programs look for by name.
const (
	MainContainer       = "main"
	SharedMemoryVolume  = "shared-memory"
	SharedMemoryPath    = "/dev/shm"
	DefaultSharedMemory = "8Gi"
	VLLMCachePath       = "/root/.cache/vllm"
	DefaultFSGroup      = 1000
	GPUResource         = "nvidia.com/gpu"
)

// Component names a graph's component and everything that stands for it one to one: its DynamoComponentDeployment,
// Deployment and Service.
func Component(graph, service string) string {
	return graph + "-" + strings.ToLower(service)
}

// Group names one replica of a component of several nodes: its LeaderWorkerSet and PodGroup.
func Group(component string, index int32) string { return fmt.Sprintf("%s-%d", component, index) }

// ComponentOfGroup is the component that a group is a replica of.
func ComponentOfGroup(group string) string { return group[:max(strings.LastIndexByte(group, '-'), 0)] }

// IndexOfGroup is the number of a group among the replicas of its component.
func IndexOfGroup(group string) int32 {
	index, err := strconv.ParseInt(group[strings.LastIndexByte(group, '-')+1:], 10, 32)
	if err != nil {
		return 0 // not a name that Group makes
	}
	return int32(index)
}

// Clique names a service in its graph's PodCliqueSet.
func Clique(service string) string { return strings.ToLower(service) }

// LeaderClique names the clique of the one pod that leads each replica of a service of several nodes.
func LeaderClique(service string) string { return Clique(service) + "-ldr" }

// WorkerClique names the clique of the other pods of each replica.
func WorkerClique(service string) string { return Clique(service) + "-wkr" }

// GroveReplica names what Grove makes of a clique or scaling group: a PodCliqueSet of ours has exactly one replica.
func GroveReplica(graph, service string) string { return graph + "-0-" + Clique(service) }

// DiscoveryKeys begins every key under which the processes of a component are found in etcd. It ends in a slash, so that
// "decode" is not the beginning of "decode2".
func DiscoveryKeys(dynamoNamespace, service string) string {
	return "/" + dynamoNamespace + "/components/" + service + "/"
}

// DiscoveryAccount names the ServiceAccount under which a graph's pods find each other.
func DiscoveryAccount(graph string) string { return graph + "-k8s-service-discovery" }

// LabelValue makes a name fit a label: one that is too long keeps a readable beginning and ends in a hash of the whole.
func LabelValue(name string) string {
	const longest = 63
	if len(name) <= longest {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	end := "-" + hex.EncodeToString(sum[:])[:8]
	return strings.TrimRight(name[:longest-len(end)], "-_.") + end
}

// DiscoveryRole names the Role of DiscoveryAccount.
func DiscoveryRole(graph string) string { return DiscoveryAccount(graph) + "-role" }

// DiscoveryBinding names the RoleBinding of DiscoveryAccount.
func DiscoveryBinding(graph string) string { return DiscoveryAccount(graph) + "-binding" }

// Binding names the RoleBinding of a shared account.
func Binding(account string) string { return account + "-binding" }

// EPPConfig names the ConfigMap of a graph's endpoint picker.
func EPPConfig(graph string) string { return graph + "-epp-config" }

// Pool names a graph's InferencePool.
func Pool(graph string) string { return graph + "-pool" }

// DebugWorkload names the second Deployment and the Service of a component that is being debugged.
func DebugWorkload(component string) string { return component + "-d" }

// ProductionService names the Service of the pods that are not being debugged.
func ProductionService(component string) string { return component + "-p" }

// ModelHash is the form in which a model name fits a label: eight hexadecimal digits of its SHA-256.
func ModelHash(model string) string {
	sum := sha256.Sum256([]byte(model))
	return hex.EncodeToString(sum[:])[:8]
}

// ModelService names the headless Service over all pods that serve a base model.
func ModelService(model string) string { return "dynamo-model-" + ModelHash(model) }
