// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the operator's configuration file: API group config.nvidia.com, version v1alpha1.
//
// The file is never stored in a cluster. It is versioned like an API all the same, so that a file written today is
// either understood or refused by a later release, and never half understood. It is read strictly: a key that is not
// listed here is an error.
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// KindOperatorConfiguration is the kind of the file.
const KindOperatorConfiguration = "OperatorConfiguration"

// GroupVersion is the group and version of the file.
var GroupVersion = schema.GroupVersion{Group: "config.nvidia.com", Version: "v1alpha1"}

// OperatorConfiguration is what the operator is told about its surroundings. Every member stands for a command-line flag
// of the operator and has its default.
type OperatorConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// RestrictedNamespace is the only namespace to work in. Empty means all, and that the operator makes the accounts of
	// planners and endpoint pickers itself. Flag --restrictedNamespace.
	RestrictedNamespace string `json:"restrictedNamespace,omitempty"`

	// NATSAddress is given to pods as NATS_SERVER. Flag --natsAddr.
	NATSAddress string `json:"natsAddress,omitempty"`

	// EtcdAddress is given to pods as ETCD_ENDPOINTS. Flag --etcdAddr.
	EtcdAddress string `json:"etcdAddress,omitempty"`

	// ModelExpressURL is given to pods as MODEL_EXPRESS_URL. Flag --model-express-url.
	ModelExpressURL string `json:"modelExpressURL,omitempty"`

	// PrometheusEndpoint is given to pods as PROMETHEUS_ENDPOINT. Flag --prometheus-endpoint.
	PrometheusEndpoint string `json:"prometheusEndpoint,omitempty"`

	// DiscoveryBackend is how components find each other: kubernetes, which is the default, or etcd.
	// Flag --discovery-backend.
	DiscoveryBackend string `json:"discoveryBackend,omitempty"`

	// Ingress is how frontends that say nothing else are published.
	Ingress IngressConfiguration `json:"ingress,omitzero"`

	// IstioVirtualServiceGateway publishes such frontends through Istio, and allows VirtualServices at all.
	// Flag --istio-virtual-service-gateway.
	IstioVirtualServiceGateway string `json:"istioVirtualServiceGateway,omitempty"`

	// PlannerClusterRoleName is the ClusterRole of planners. Flag --planner-cluster-role-name.
	PlannerClusterRoleName string `json:"plannerClusterRoleName,omitempty"`

	// EPPClusterRoleName is the ClusterRole of endpoint pickers. Flag --epp-cluster-role-name.
	EPPClusterRoleName string `json:"eppClusterRoleName,omitempty"`

	// GroveTerminationDelay is how long Grove tolerates a gang below its minimum; 0s leaves it to Grove.
	// Flag --grove-termination-delay.
	GroveTerminationDelay *metav1.Duration `json:"groveTerminationDelay,omitempty"`

	// MPIRunSSHSecret is where the ssh key pair of mpirun is kept.
	MPIRunSSHSecret SecretReference `json:"mpiRunSSHSecret,omitzero"`
}

// SecretReference names a Secret.
type SecretReference struct {
	// Name is the name of the Secret. Flag --mpi-run-ssh-secret-name.
	Name string `json:"name,omitempty"`

	// Namespace is where the original is. Flag --mpi-run-ssh-secret-namespace.
	Namespace string `json:"namespace,omitempty"`
}

// IngressConfiguration is the Ingress of frontends that say nothing else.
type IngressConfiguration struct {
	// ClassName is the class of the Ingress. Empty publishes nothing. Flag --ingress-controller-class-name.
	ClassName string `json:"className,omitempty"`

	// TLSSecretName is the Secret with the certificate. Flag --ingress-controller-tls-secret-name.
	TLSSecretName string `json:"tlsSecretName,omitempty"`

	// HostSuffix is the domain behind the graph's name. Flag --ingress-host-suffix.
	HostSuffix string `json:"hostSuffix,omitempty"`
}
