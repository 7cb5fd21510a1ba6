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

// OperatorConfiguration is what the operator is told about itself and its surroundings. Where a member stands for a
// command-line flag, a flag that is given wins.
type OperatorConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// RestrictedNamespace is the only namespace to work in. Empty means all, and that the operator makes the accounts of
	// planners and endpoint pickers itself. Flag --restrictedNamespace.
	RestrictedNamespace string `json:"restrictedNamespace,omitempty"`

	// IgnoredNamespaces are patterns, with * for any text, of namespaces that an operator of all namespaces leaves alone.
	IgnoredNamespaces []string `json:"ignoredNamespaces,omitempty"`

	// OperatorVersion is shown in leases and stamped on new graphs. By default it is that of the build.
	// Flag --operator-version.
	OperatorVersion string `json:"operatorVersion,omitempty"`

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

	// PlannerClusterRoleName is the ClusterRole of planners. The shipped role lets the operator hand out
	// dynamo-operator-planner; another name has to be added to its rule for bind. Flag --planner-cluster-role-name.
	PlannerClusterRoleName string `json:"plannerClusterRoleName,omitempty"`

	// EPPClusterRoleName is the ClusterRole of endpoint pickers, to which the same applies with dynamo-operator-epp. Flag --epp-cluster-role-name.
	EPPClusterRoleName string `json:"eppClusterRoleName,omitempty"`

	// GroveTerminationDelay is how long Grove tolerates a gang below its minimum; 0s leaves it to Grove. The default is
	// 15m. Flag --grove-termination-delay.
	GroveTerminationDelay metav1.Duration `json:"groveTerminationDelay,omitzero"`

	// MPIRunSSHSecret is where the ssh key pair of mpirun is kept.
	MPIRunSSHSecret SecretReference `json:"mpiRunSSHSecret,omitzero"`

	// Webhooks are how objects are judged on admission.
	Webhooks WebhookConfiguration `json:"webhooks,omitzero"`

	// Metrics are how the operator can be measured.
	Metrics MetricsConfiguration `json:"metrics,omitzero"`

	// HealthProbeBindAddress is where /healthz and /readyz are served, 0 for nowhere. The default is :8081.
	// Flag --health-probe-bind-address.
	HealthProbeBindAddress string `json:"healthProbeBindAddress,omitempty"`

	// TLS is what the listeners for webhooks and metrics have in common.
	TLS TLSConfiguration `json:"tls,omitzero"`

	// LeaderElection decides which of several replicas works.
	LeaderElection LeaderElectionConfiguration `json:"leaderElection,omitzero"`

	// NamespaceScope is how an operator of one namespace keeps those of all namespaces out of it.
	NamespaceScope NamespaceScopeConfiguration `json:"namespaceScope,omitzero"`

	// Tracing sends a trace of every pass to a collector.
	Tracing TracingConfiguration `json:"tracing,omitzero"`

	// Logging is how the operator speaks.
	Logging LoggingConfiguration `json:"logging,omitzero"`
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

// WebhookConfiguration is how objects are judged on admission. Without webhooks the schemas and the controllers judge.
type WebhookConfiguration struct {
	// Enabled serves the webhooks. Flag --enable-webhooks.
	Enabled bool `json:"enabled,omitempty"`

	// BindAddress is the address to listen on, empty for all of the machine's.
	BindAddress string `json:"bindAddress,omitempty"`

	// Port is the port to listen on. The default is 9443.
	Port int32 `json:"port,omitempty"`

	// ClientURL is where the API server finds the webhooks of an operator that runs outside the cluster, such as
	// https://127.0.0.1:9443. Empty means through the Service that the webhook configurations name.
	ClientURL string `json:"clientURL,omitempty"`

	// ServiceName is the Service in front of the webhooks, in the operator's namespace. Certificates are made out to it.
	ServiceName string `json:"serviceName,omitempty"`

	// ValidatingConfigurationName and MutatingConfigurationName are the objects that tell the API server of the webhooks.
	// The operator keeps the certificate authority in them up to date, unless the certificates come from files.
	ValidatingConfigurationName string `json:"validatingConfigurationName,omitempty"`
	MutatingConfigurationName   string `json:"mutatingConfigurationName,omitempty"`

	// DrainPeriod is how long a replica that was told to end goes on answering, so that clients can turn to another.
	DrainPeriod metav1.Duration `json:"drainPeriod,omitzero"`

	// Certificates are where the certificates come from.
	Certificates CertificateConfiguration `json:"certificates,omitzero"`

	// ReplicaWriters are further users, by their full names such as system:serviceaccount:team:scaler, who may change
	// the replicas of services that a scaling adapter owns.
	ReplicaWriters []string `json:"replicaWriters,omitempty"`
}

// Where certificates come from.
const (
	// CertificatesSelfManaged are made and rotated by the operator.
	CertificatesSelfManaged = "self-managed"
	// CertificatesFiles are mounted, for example from a Secret of cert-manager, and read again when they change.
	CertificatesFiles = "files"
)

// CertificateConfiguration is where the certificates of the webhooks come from.
type CertificateConfiguration struct {
	// Source is self-managed, which is the default, or files.
	Source string `json:"source,omitempty"`

	// Directory holds tls.crt and tls.key, if the source is files.
	Directory string `json:"directory,omitempty"`

	// SecretName is the Secret that keeps the authority, in the operator's namespace, if the source is self-managed.
	SecretName string `json:"secretName,omitempty"`

	// AuthorityValidity is how long an authority lives, 8760h by default, and LeafValidity how long a certificate, 168h by
	// default. Both are renewed when two thirds have passed.
	AuthorityValidity metav1.Duration `json:"authorityValidity,omitzero"`
	LeafValidity      metav1.Duration `json:"leafValidity,omitzero"`

	// SettlePeriod is how long API servers may take to learn of a new authority before it is used.
	SettlePeriod metav1.Duration `json:"settlePeriod,omitzero"`
}

// MetricsConfiguration is how the operator can be measured.
type MetricsConfiguration struct {
	// BindAddress is where /metrics is served, 0 for nowhere. The default is :8080. Flag --metrics-bind-address.
	BindAddress string `json:"bindAddress,omitempty"`

	// Secure serves metrics over TLS, to those who may read them. Flag --metrics-secure.
	Secure bool `json:"secure,omitempty"`

	// BearerTokenFile holds the token that readers have to show. Empty leaves it to the API server who they are and
	// whether they may get /metrics, which an operator of one namespace may not ask.
	BearerTokenFile string `json:"bearerTokenFile,omitempty"`

	// CertificateDirectory holds tls.crt and tls.key. Empty means a certificate that nobody can verify.
	CertificateDirectory string `json:"certificateDirectory,omitempty"`
}

// TLSConfiguration is what listeners have in common.
type TLSConfiguration struct {
	// MinVersion is 1.2, which is the default, or 1.3.
	MinVersion string `json:"minVersion,omitempty"`

	// EnableHTTP2 offers HTTP/2. Flag --enable-http2.
	EnableHTTP2 bool `json:"enableHTTP2,omitempty"`
}

// LeaderElectionConfiguration decides which of several replicas works.
type LeaderElectionConfiguration struct {
	// Enabled makes a replica work only while it holds the Lease. Flag --leader-elect.
	Enabled bool `json:"enabled,omitempty"`

	// ID is the name of the Lease. The shipped role is for dynamo.nvidia.com, the reference's; another has to be added to it.
	// Flag --leader-election-id.
	ID string `json:"id,omitempty"`

	// Namespace is where the Lease is, empty for the operator's own. Flag --leader-election-namespace.
	Namespace string `json:"namespace,omitempty"`

	// LeaseDuration is how long others wait for a leader that says nothing, 12s by default. RenewDeadline is how long a
	// leader tries to renew before it gives up, 8s by default; RetryPeriod is how often it is tried, 1s by default: a successor
	// of a leader that ended well waits for up to twice that.
	LeaseDuration metav1.Duration `json:"leaseDuration,omitzero"`
	RenewDeadline metav1.Duration `json:"renewDeadline,omitzero"`
	RetryPeriod   metav1.Duration `json:"retryPeriod,omitzero"`
}

// NamespaceScopeConfiguration is how an operator of one namespace keeps those of all namespaces out of it.
type NamespaceScopeConfiguration struct {
	// Disabled says that there is no operator of all namespaces, so that nothing has to be claimed. Two operators would
	// both work in the namespace if there is one all the same.
	Disabled bool `json:"disabled,omitempty"`

	// LeaseDuration is how long the claim lasts, 30s by default. Flag --namespace-scope-lease-duration.
	LeaseDuration metav1.Duration `json:"leaseDuration,omitzero"`

	// RenewInterval is how often it is renewed, 10s by default. Flag --namespace-scope-lease-renew-interval.
	RenewInterval metav1.Duration `json:"renewInterval,omitzero"`
}

// TracingConfiguration sends traces to a collector.
type TracingConfiguration struct {
	// Endpoint is the collector's OTLP address, such as http://collector:4318. Empty sends nothing.
	Endpoint string `json:"endpoint,omitempty"`

	// SamplingRatePerMillion is how many of a million passes are traced. The default is all of them.
	SamplingRatePerMillion int32 `json:"samplingRatePerMillion,omitempty"`
}

// LoggingConfiguration is how the operator speaks. Each member is the flag --zap- of the same name.
type LoggingConfiguration struct {
	// Development is for people who read along: coloured levels, stack traces with warnings. Flag --zap-devel.
	Development *bool `json:"development,omitempty"`

	// Level is debug, info, error, panic or a number. Flag --zap-log-level.
	Level string `json:"level,omitempty"`

	// Encoder is json or console. Flag --zap-encoder.
	Encoder string `json:"encoder,omitempty"`

	// StacktraceLevel is the level from which on stack traces are written. Flag --zap-stacktrace-level.
	StacktraceLevel string `json:"stacktraceLevel,omitempty"`

	// TimeEncoding is epoch, millis, nano, iso8601, rfc3339 or rfc3339nano. Flag --zap-time-encoding.
	TimeEncoding string `json:"timeEncoding,omitempty"`
}
