// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config is what the operator is told at its start: one versioned file, the flags of the reference over it, and
// a judgement of all of it at once.
package config

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/dynamo-operator/dynamo-operator/api/config/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/internal/strict"
)

// Config is the operator's configuration.
type Config struct {
	v1alpha1.OperatorConfiguration

	Zap zap.Options

	// SharedProcess is for programs that run several operators at once: names in metrics are then not unique.
	SharedProcess bool
	// PollAPIs is for programs that cannot wait as long as a restricted operator does until it looks for optional APIs again, 0
	// for its own pause.
	PollAPIs time.Duration
	// DialWorkers is for programs that run workers where the addresses of pods do not lead to them, nil for the network.
	DialWorkers func(ctx context.Context, network, address string) (net.Conn, error)

	// Reserved are flags that are accepted because command lines of the reference carry them, and that nothing of this
	// release reads yet. The start names those that were set.
	Reserved []string
}

// Load reads a command line, and the file that it names. Flags win over the file. It returns flag.ErrHelp when somebody
// asked for help.
func Load(flags *flag.FlagSet, args []string, read func(string) ([]byte, error)) (*Config, error) {
	given, file := bind(flags)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if rest := flags.Args(); len(rest) > 0 {
		return nil, fmt.Errorf("%q is not a flag; a switch is turned off with --name=false", rest[0])
	}
	given.Reserved = reservedOf(flags)
	if *file == "" {
		return given, nil
	}
	content, err := read(*file)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	fromFile, errs, err := Decode(content)
	if err == nil {
		err = errs.ToAggregate()
	}
	if err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", *file, err)
	}
	c := &Config{OperatorConfiguration: *fromFile, Zap: zap.Options{Development: true}, Reserved: given.Reserved}
	over := flag.NewFlagSet("", flag.ContinueOnError)
	bindTo(over, c)
	_ = logging(over, c.Logging) // Judge tells of what does not fit, together with everything else
	var failed []error
	flags.Visit(func(f *flag.Flag) {
		if over.Lookup(f.Name) != nil {
			failed = append(failed, over.Set(f.Name, f.Value.String()))
		}
	})
	return c, errors.Join(failed...)
}

// Decode reads a configuration file. What it does not mention has its default. The error is about text that cannot be
// read at all, the list about members that do not fit.
func Decode(content []byte) (*v1alpha1.OperatorConfiguration, field.ErrorList, error) {
	members, err := strict.Parse(content)
	if err != nil {
		return nil, nil, err
	}
	for _, header := range []struct{ key, want string }{
		{"kind", v1alpha1.KindOperatorConfiguration},
		{"apiVersion", v1alpha1.GroupVersion.String()},
	} {
		if members[header.key] != header.want {
			return nil, field.ErrorList{field.NotSupported(field.NewPath(header.key), members[header.key], []string{header.want})}, nil
		}
	}
	c := Defaults()
	if errs := strict.Decode(members, &c); len(errs) > 0 {
		return nil, errs, nil
	}
	return &c, nil, nil
}

// Defaults are what an operator does that was told nothing.
func Defaults() v1alpha1.OperatorConfiguration {
	after := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	return v1alpha1.OperatorConfiguration{
		OperatorVersion:        "unknown",
		DiscoveryBackend:       names.DiscoveryKubernetes,
		GroveTerminationDelay:  after(15 * time.Minute),
		MPIRunSSHSecret:        v1alpha1.SecretReference{Name: "mpi-run-ssh-secret"},
		HealthProbeBindAddress: ":8081",
		Metrics:                v1alpha1.MetricsConfiguration{BindAddress: ":8080"},
		TLS:                    v1alpha1.TLSConfiguration{MinVersion: "1.2"},
		Webhooks: v1alpha1.WebhookConfiguration{
			Port:                        9443,
			ServiceName:                 names.WebhookService,
			ValidatingConfigurationName: names.ValidatingConfiguration,
			MutatingConfigurationName:   names.MutatingConfiguration,
			DrainPeriod:                 after(5 * time.Second),
			Certificates: v1alpha1.CertificateConfiguration{
				Source:            v1alpha1.CertificatesSelfManaged,
				Directory:         "/tmp/k8s-webhook-server/serving-certs",
				SecretName:        names.WebhookAuthority,
				AuthorityValidity: after(365 * 24 * time.Hour),
				LeafValidity:      after(7 * 24 * time.Hour),
				SettlePeriod:      after(10 * time.Second),
			},
		},
		// A standby looks every 1 to 2.2 s, counts from the look that showed the last renewal and learns by another that the time is up:
		// 16.4 s after a kill at the latest.
		LeaderElection: v1alpha1.LeaderElectionConfiguration{
			LeaseDuration: after(12 * time.Second), RenewDeadline: after(8 * time.Second), RetryPeriod: after(time.Second),
		},
		NamespaceScope: v1alpha1.NamespaceScopeConfiguration{LeaseDuration: after(30 * time.Second), RenewInterval: after(10 * time.Second)},
		Tracing:        v1alpha1.TracingConfiguration{SamplingRatePerMillion: 1_000_000},
	}
}

// logging hands what the file says about logging to the flags that understand it, and returns what they do not.
func logging(flags *flag.FlagSet, l v1alpha1.LoggingConfiguration) field.ErrorList {
	var errs field.ErrorList
	development := ""
	if l.Development != nil {
		development = strconv.FormatBool(*l.Development)
	}
	for _, row := range []struct{ key, flag, value string }{
		{"development", "zap-devel", development},
		{"level", "zap-log-level", l.Level},
		{"encoder", "zap-encoder", l.Encoder},
		{"stacktraceLevel", "zap-stacktrace-level", l.StacktraceLevel},
		{"timeEncoding", "zap-time-encoding", l.TimeEncoding},
	} {
		if row.value == "" {
			continue
		}
		if err := flags.Set(row.flag, row.value); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("logging", row.key), row.value, err.Error()))
		}
	}
	return errs
}

const (
	// OwnNamespaceVariable tells in which namespace the operator runs.
	OwnNamespaceVariable = "POD_NAMESPACE"

	// debuggerImageVariable overrides the image of the debug container.
	debuggerImageVariable = "INTERNAL_IMAGES_DEBUGGER"

	// defaultDebuggerImage has a Python and a shell, which is what people look for there.
	defaultDebuggerImage = "python:3.12-slim"
)

// OwnNamespace is where the operator keeps what is its own. It is empty for one that runs outside the cluster and was
// not told.
func (c *Config) OwnNamespace(environment func(string) string) string {
	return cmp.Or(environment(OwnNamespaceVariable), c.RestrictedNamespace)
}

// ElectionNamespace is where the leader election Lease is.
func (c *Config) ElectionNamespace(environment func(string) string) string {
	return cmp.Or(c.LeaderElection.Namespace, c.OwnNamespace(environment))
}

// Settings are what the configuration says about rendering, together with what the environment adds.
func (c *Config) Settings(environment func(string) string) input.Settings {
	return input.Settings{
		ClusterWide:           c.RestrictedNamespace == "",
		NATSAddress:           c.NATSAddress,
		EtcdAddress:           c.EtcdAddress,
		ModelExpressURL:       c.ModelExpressURL,
		PrometheusEndpoint:    c.PrometheusEndpoint,
		DiscoveryBackend:      c.DiscoveryBackend,
		IstioGateway:          c.IstioVirtualServiceGateway,
		IngressClass:          c.Ingress.ClassName,
		IngressTLSSecret:      c.Ingress.TLSSecretName,
		IngressHostSuffix:     c.Ingress.HostSuffix,
		PlannerClusterRole:    c.PlannerClusterRoleName,
		EPPClusterRole:        c.EPPClusterRoleName,
		GroveTerminationDelay: c.GroveTerminationDelay.Duration,
		SSHSecret:             c.MPIRunSSHSecret.Name,
		SSHSecretNamespace:    cmp.Or(c.MPIRunSSHSecret.Namespace, c.OwnNamespace(environment)),
		DebuggerImage:         cmp.Or(environment(debuggerImageVariable), defaultDebuggerImage),
	}
}
