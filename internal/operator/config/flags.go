// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"flag"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// reserved are the flags whose features come with later releases.
var reserved = map[string]bool{
	"dgdr-profiling-cluster-role-name":  true,
	"checkpoint-storage-type":           true,
	"checkpoint-signal-host-path":       true,
	"checkpoint-criu-timeout":           true,
	"checkpoint-pvc-name":               true,
	"checkpoint-pvc-base-path":          true,
	"checkpoint-s3-uri":                 true,
	"checkpoint-s3-credentials-secret":  true,
	"checkpoint-oci-uri":                true,
	"checkpoint-oci-credentials-secret": true,
	"checkpoint-init-container-image":   true,
	"virtual-service-supports-https":    true,
	"checkpoint-enabled":                true,
}

// reservedSwitches are those of them that need no value.
var reservedSwitches = map[string]bool{"virtual-service-supports-https": true, "checkpoint-enabled": true}

// bind declares every flag on the set, and returns the configuration that parsing it fills and the name of the file.
func bind(flags *flag.FlagSet) (*Config, *string) {
	c := &Config{OperatorConfiguration: Defaults(), Zap: zap.Options{Development: true}}
	bindTo(flags, c)
	bindReserved(flags, c)
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

func bindReserved(flags *flag.FlagSet, c *Config) {
	const usage = "accepted; its feature is not part of this release yet"
	note := func(name string) func(string) error {
		return func(string) error {
			c.Reserved = append(c.Reserved, name)
			return nil
		}
	}
	for name := range reserved {
		if !reservedSwitches[name] {
			flags.Func(name, usage, note(name))
			continue
		}
		flags.BoolFunc(name, usage, func(text string) error {
			on, err := strconv.ParseBool(text)
			if err != nil || !on {
				return err
			}
			return note(name)(text)
		})
	}
}
