// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config reads what the operator is told at its start: the flags of the reference, with their defaults, and a
// judgement of all of them at once.
package config

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// Config is the operator's configuration.
type Config struct {
	MetricsAddress string
	MetricsSecure  bool
	ProbeAddress   string
	EnableHTTP2    bool
	EnableWebhooks bool

	LeaderElect             bool
	LeaderElectionID        string
	LeaderElectionNamespace string

	RestrictedNamespace string
	LeaseDuration       time.Duration
	LeaseRenewInterval  time.Duration
	OperatorVersion     string

	Render input.Settings
	Zap    zap.Options

	// SharedProcess is for programs that run several operators at once: names in metrics are then not unique.
	SharedProcess bool

	// Reserved are flags that are accepted because command lines of the reference carry them, and that nothing of this
	// release reads yet. The start names those that were set.
	Reserved []string
}

// reserved are the flags whose features come with later releases.
var reserved = []string{
	"dgdr-profiling-cluster-role-name",
	"checkpoint-storage-type",
	"checkpoint-signal-host-path",
	"checkpoint-criu-timeout",
	"checkpoint-pvc-name",
	"checkpoint-pvc-base-path",
	"checkpoint-s3-uri",
	"checkpoint-s3-credentials-secret",
	"checkpoint-oci-uri",
	"checkpoint-oci-credentials-secret",
	"checkpoint-init-container-image",
}

// Bind declares every flag on the set and returns the configuration that parsing it fills.
func Bind(flags *flag.FlagSet) *Config {
	c := &Config{Zap: zap.Options{Development: true}}
	flags.StringVar(&c.MetricsAddress, "metrics-bind-address", ":8080", "address of the metrics listener, 0 for none")
	flags.BoolVar(&c.MetricsSecure, "metrics-secure", false, "serve metrics over TLS")
	flags.StringVar(&c.ProbeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz, 0 for none")
	flags.BoolVar(&c.EnableHTTP2, "enable-http2", false, "offer HTTP/2 on TLS listeners")
	flags.BoolVar(&c.EnableWebhooks, "enable-webhooks", false, "serve admission webhooks")
	flags.BoolVar(&c.LeaderElect, "leader-elect", false, "work only while holding the leader election Lease")
	flags.StringVar(&c.LeaderElectionID, "leader-election-id", "", "name of the leader election Lease")
	flags.StringVar(&c.LeaderElectionNamespace, "leader-election-namespace", "", "namespace of the leader election Lease")
	flags.StringVar(&c.RestrictedNamespace, "restrictedNamespace", "", "the only namespace to work in, empty for all")
	flags.DurationVar(&c.LeaseDuration, "namespace-scope-lease-duration", 30*time.Second, "how long the claim on the restricted namespace lasts")
	flags.DurationVar(&c.LeaseRenewInterval, "namespace-scope-lease-renew-interval", 10*time.Second, "how often that claim is renewed")
	flags.StringVar(&c.OperatorVersion, "operator-version", "unknown", "version shown in leases and stamped on graphs")
	flags.StringVar(&c.Render.NATSAddress, "natsAddr", "", "address of NATS, given to pods as NATS_SERVER")
	flags.StringVar(&c.Render.EtcdAddress, "etcdAddr", "",
		"addresses of etcd, given to pods as ETCD_ENDPOINTS; keys of deleted components are deleted there")
	flags.StringVar(&c.Render.ModelExpressURL, "model-express-url", "", "given to pods as MODEL_EXPRESS_URL")
	flags.StringVar(&c.Render.PrometheusEndpoint, "prometheus-endpoint", "", "given to pods as PROMETHEUS_ENDPOINT")
	flags.StringVar(&c.Render.DiscoveryBackend, "discovery-backend", names.DiscoveryKubernetes, "how components find each other: kubernetes or etcd")
	flags.StringVar(&c.Render.IstioGateway, "istio-virtual-service-gateway", "", "Istio gateway of VirtualServices, empty for none")
	flags.StringVar(&c.Render.IngressClass, "ingress-controller-class-name", "", "class of Ingresses of frontends that name none")
	flags.StringVar(&c.Render.IngressTLSSecret, "ingress-controller-tls-secret-name", "", "TLS Secret of such Ingresses")
	flags.StringVar(&c.Render.IngressHostSuffix, "ingress-host-suffix", "", "domain of such Ingresses")
	flags.StringVar(&c.Render.PlannerClusterRole, "planner-cluster-role-name", "", "ClusterRole of planners (cluster-wide mode)")
	flags.StringVar(&c.Render.EPPClusterRole, "epp-cluster-role-name", "", "ClusterRole of endpoint pickers (cluster-wide mode)")
	flags.StringVar(&c.Render.SSHSecret, "mpi-run-ssh-secret-name", "mpi-run-ssh-secret",
		"Secret with the ssh key pair of mpirun, made when the first graph needs it")
	flags.StringVar(&c.Render.SSHSecretNamespace, "mpi-run-ssh-secret-namespace", "", "namespace of that Secret, empty for the operator's own")
	flags.DurationVar(&c.Render.GroveTerminationDelay, "grove-termination-delay", 15*time.Minute,
		"how long Grove tolerates a gang below its minimum, 0 for Grove's own default")
	bindReserved(flags, c)
	c.Zap.BindFlags(flags)
	return c
}

func bindReserved(flags *flag.FlagSet, c *Config) {
	const usage = "accepted; its feature is not part of this release yet"
	note := func(name string) func(string) error {
		return func(string) error {
			c.Reserved = append(c.Reserved, name)
			return nil
		}
	}
	for _, name := range reserved {
		flags.Func(name, usage, note(name))
	}
	for _, name := range []string{"virtual-service-supports-https", "checkpoint-enabled"} {
		flags.BoolFunc(name, usage, func(text string) error {
			on, err := strconv.ParseBool(text)
			if err != nil || !on {
				return err
			}
			return note(name)(text)
		})
	}
}

// ownNamespaceVariable tells in which namespace the operator runs.
const ownNamespaceVariable = "POD_NAMESPACE"

// debuggerImageVariable overrides the image of the debug container.
const debuggerImageVariable = "INTERNAL_IMAGES_DEBUGGER"

// defaultDebuggerImage has a Python and a shell, which is what people look for there.
const defaultDebuggerImage = "python:3.12-slim"

// Settings are what the flags say about rendering, together with what the environment adds.
func (c *Config) Settings(environment func(string) string) input.Settings {
	s := c.Render
	s.ClusterWide = c.RestrictedNamespace == ""
	s.DebuggerImage = environment(debuggerImageVariable)
	if s.DebuggerImage == "" {
		s.DebuggerImage = defaultDebuggerImage
	}
	s.SSHSecretNamespace = cmp.Or(s.SSHSecretNamespace, environment(ownNamespaceVariable), c.RestrictedNamespace)
	return s
}

// Validate returns every problem at once, so that a start fails once and not once per mistake.
func (c *Config) Validate() error {
	var errs []error
	if d := c.Render.DiscoveryBackend; d != names.DiscoveryKubernetes && d != names.DiscoveryEtcd {
		errs = append(errs, fmt.Errorf("--discovery-backend is %q, must be kubernetes or etcd", d))
	}
	if _, err := url.Parse(c.Render.ModelExpressURL); err != nil {
		errs = append(errs, fmt.Errorf("--model-express-url is no URL: %w", err))
	}
	if c.LeaderElect && c.LeaderElectionID == "" {
		errs = append(errs, errors.New("--leader-elect needs --leader-election-id"))
	}
	if c.LeaseDuration <= 0 || c.LeaseRenewInterval <= 0 || c.LeaseRenewInterval >= c.LeaseDuration {
		errs = append(errs, fmt.Errorf("--namespace-scope-lease-renew-interval (%s) must be positive and below --namespace-scope-lease-duration (%s)",
			c.LeaseRenewInterval, c.LeaseDuration))
	}
	if c.EnableWebhooks {
		errs = append(errs, errors.New("--enable-webhooks=true: admission webhooks are not part of this release yet; the CRDs and the controllers validate"))
	}
	return errors.Join(errs...)
}
