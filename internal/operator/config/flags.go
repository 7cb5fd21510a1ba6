// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"flag"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// reserved are the flags whose features come with later releases, and the defaults that they have in the reference.
var reserved = map[string]string{
	"dgdr-profiling-cluster-role-name":  "",
	"checkpoint-storage-type":           "pvc",
	"checkpoint-signal-host-path":       "",
	"checkpoint-criu-timeout":           "21600",
	"checkpoint-pvc-name":               "checkpoint-storage",
	"checkpoint-pvc-base-path":          "/checkpoints",
	"checkpoint-s3-uri":                 "",
	"checkpoint-s3-credentials-secret":  "",
	"checkpoint-oci-uri":                "",
	"checkpoint-oci-credentials-secret": "",
	"checkpoint-init-container-image":   "busybox:latest",
}

// reservedSwitches are further ones, which need no value and are off.
var reservedSwitches = []string{"virtual-service-supports-https", "checkpoint-enabled"}

// bind declares every flag on the set, and returns the configuration that parsing it fills and the name of the file.
func bind(flags *flag.FlagSet) (*Config, *string) {
	c := &Config{OperatorConfiguration: Defaults(), Zap: zap.Options{Development: true}}
	bindTo(flags, c)
	bindReserved(flags)
	file := flags.String("config", "", "file of kind OperatorConfiguration; flags that are given win over it")
	return c, file
}

// bindTo declares the flags that stand for members of the configuration. What the configuration says is their default.
func bindTo(flags *flag.FlagSet, c *Config) {
	bindProcess(flags, c)
	bindRendering(flags, c)
	c.Zap.BindFlags(flags)
}

// bindProcess declares what concerns the operator itself.
func bindProcess(flags *flag.FlagSet, c *Config) {
	text := func(into *string, name, usage string) { flags.StringVar(into, name, *into, usage) }
	toggle := func(into *bool, name, usage string) { flags.BoolVar(into, name, *into, usage) }
	text(&c.Metrics.BindAddress, "metrics-bind-address", "address of the metrics listener, 0 for none")
	toggle(&c.Metrics.Secure, "metrics-secure", "serve metrics over TLS, to those who may read them")
	text(&c.HealthProbeBindAddress, "health-probe-bind-address", "address of /healthz and /readyz, 0 for none")
	toggle(&c.TLS.EnableHTTP2, "enable-http2", "offer HTTP/2 on TLS listeners")
	toggle(&c.Webhooks.Enabled, "enable-webhooks", "serve admission webhooks")
	toggle(&c.LeaderElection.Enabled, "leader-elect", "work only while holding the leader election Lease")
	text(&c.LeaderElection.ID, "leader-election-id", "name of the leader election Lease")
	text(&c.LeaderElection.Namespace, "leader-election-namespace", "namespace of the leader election Lease, empty for the operator's own")
	text(&c.RestrictedNamespace, "restrictedNamespace", "the only namespace to work in, empty for all")
	scope := &c.NamespaceScope
	flags.DurationVar(&scope.LeaseDuration.Duration, "namespace-scope-lease-duration", scope.LeaseDuration.Duration,
		"how long the claim on the restricted namespace lasts")
	flags.DurationVar(&scope.RenewInterval.Duration, "namespace-scope-lease-renew-interval", scope.RenewInterval.Duration,
		"how often that claim is renewed")
	text(&c.OperatorVersion, "operator-version", "version shown in leases and stamped on new graphs")
}

// bindRendering declares what concerns the objects that the operator makes.
func bindRendering(flags *flag.FlagSet, c *Config) {
	text := func(into *string, name, usage string) { flags.StringVar(into, name, *into, usage) }
	text(&c.NATSAddress, "natsAddr", "address of NATS, given to pods as NATS_SERVER")
	text(&c.EtcdAddress, "etcdAddr", "addresses of etcd, given to pods as ETCD_ENDPOINTS; keys of deleted components are deleted there")
	text(&c.ModelExpressURL, "model-express-url", "given to pods as MODEL_EXPRESS_URL")
	text(&c.PrometheusEndpoint, "prometheus-endpoint", "given to pods as PROMETHEUS_ENDPOINT")
	text(&c.DiscoveryBackend, "discovery-backend", "how components find each other: kubernetes or etcd")
	text(&c.IstioVirtualServiceGateway, "istio-virtual-service-gateway", "Istio gateway of VirtualServices, empty for none")
	text(&c.Ingress.ClassName, "ingress-controller-class-name", "class of Ingresses of frontends that name none")
	text(&c.Ingress.TLSSecretName, "ingress-controller-tls-secret-name", "TLS Secret of such Ingresses")
	text(&c.Ingress.HostSuffix, "ingress-host-suffix", "domain of such Ingresses")
	text(&c.PlannerClusterRoleName, "planner-cluster-role-name", "ClusterRole of planners (cluster-wide mode)")
	text(&c.EPPClusterRoleName, "epp-cluster-role-name", "ClusterRole of endpoint pickers (cluster-wide mode)")
	text(&c.MPIRunSSHSecret.Name, "mpi-run-ssh-secret-name", "Secret with the ssh key pair of mpirun, made when the first graph needs it")
	text(&c.MPIRunSSHSecret.Namespace, "mpi-run-ssh-secret-namespace", "namespace of that Secret, empty for the operator's own")
	flags.DurationVar(&c.GroveTerminationDelay.Duration, "grove-termination-delay", c.GroveTerminationDelay.Duration,
		"how long Grove tolerates a gang below its minimum, 0 for Grove's own default")
}

func bindReserved(flags *flag.FlagSet) {
	const usage = "accepted; its feature is not part of this release yet"
	for name, value := range reserved {
		flags.String(name, value, usage)
	}
	for _, name := range reservedSwitches {
		flags.Bool(name, false, usage)
	}
}

// reservedOf are the reserved flags that were given, sorted. A switch that was turned off asks for nothing.
func reservedOf(flags *flag.FlagSet) []string {
	var given []string
	flags.Visit(func(f *flag.Flag) {
		_, valued := reserved[f.Name]
		if valued || slices.Contains(reservedSwitches, f.Name) && f.Value.String() == "true" {
			given = append(given, f.Name)
		}
	})
	return given
}
