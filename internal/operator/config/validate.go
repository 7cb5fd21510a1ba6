// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"flag"
	"net"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/dynamo-operator/dynamo-operator/api/config/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/scope"
)

// flagOf names the flag of a member, for people who gave it by one.
var flagOf = map[string]string{
	"discoveryBackend": "--discovery-backend", "modelExpressURL": "--model-express-url", "restrictedNamespace": "--restrictedNamespace",
	"leaderElection.id": "--leader-election-id", "leaderElection.namespace": "--leader-election-namespace",
	"healthProbeBindAddress":    "--health-probe-bind-address",
	"mpiRunSSHSecret.namespace": "--mpi-run-ssh-secret-namespace", "metrics.bindAddress": "--metrics-bind-address",
	"namespaceScope.leaseDuration": "--namespace-scope-lease-duration",
	"namespaceScope.renewInterval": "--namespace-scope-lease-renew-interval", "mpiRunSSHSecret.name": "--mpi-run-ssh-secret-name",
	"metrics.secure": "--metrics-secure", "groveTerminationDelay": "--grove-termination-delay",
}

// Validate returns every problem at once, so that a start fails once and not once per mistake: those of the configuration, and
// those of the environment that it meets.
func (c *Config) Validate(environment func(string) string) error {
	errs := append(Judge(&c.OperatorConfiguration), c.judgePlace(environment)...)
	for _, e := range errs {
		if name := flagOf[e.Field]; name != "" {
			e.Field += " (" + name + ")"
		}
	}
	return errs.ToAggregate()
}

// judgePlace is about what has to be kept in a namespace that nobody has named.
func (c *Config) judgePlace(environment func(string) string) field.ErrorList {
	var errs field.ErrorList
	own := c.OwnNamespace(environment)
	if c.Webhooks.Enabled && c.Webhooks.Certificates.Source == v1alpha1.CertificatesSelfManaged && own == "" {
		errs = append(errs, field.Required(field.NewPath("webhooks", "certificates", "secretName"),
			"certificates of the operator's own are kept in its namespace, which is not known: set the environment variable "+OwnNamespaceVariable))
	}
	if c.LeaderElection.Enabled && c.ElectionNamespace(environment) == "" {
		errs = append(errs, field.Required(field.NewPath("leaderElection", "namespace"),
			"the operator does not know its own namespace: name one, or set the environment variable "+OwnNamespaceVariable))
	}
	return errs
}

// Judge returns every problem of a configuration.
func Judge(c *v1alpha1.OperatorConfiguration) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, oneOf(field.NewPath("discoveryBackend"), c.DiscoveryBackend, names.DiscoveryKubernetes, names.DiscoveryEtcd)...)
	errs = append(errs, isURL(field.NewPath("modelExpressURL"), c.ModelExpressURL)...)
	if only := c.RestrictedNamespace; only != "" {
		errs = append(errs, isLabel(field.NewPath("restrictedNamespace"), only)...)
	}
	for i, pattern := range c.IgnoredNamespaces {
		if _, err := path.Match(pattern, ""); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("ignoredNamespaces").Index(i), pattern, "must be a name, with * for any text"))
		}
	}
	if c.GroveTerminationDelay.Duration < 0 {
		errs = append(errs, field.Invalid(field.NewPath("groveTerminationDelay"), c.GroveTerminationDelay.Duration.String(), "must not be negative"))
	}
	errs = append(errs, oneOf(field.NewPath("tls", "minVersion"), c.TLS.MinVersion, "1.2", "1.3")...)
	errs = append(errs, judgeLogging(c.Logging)...)
	errs = append(errs, judgeLeases(c)...)
	errs = append(errs, judgeWebhooks(c)...)
	errs = append(errs, judgeMetrics(c)...)
	if c.Tracing.Endpoint != "" {
		errs = append(errs, isWebURL(field.NewPath("tracing", "endpoint"), c.Tracing.Endpoint, "http", "https")...)
	}
	errs = append(errs, isListener(field.NewPath("metrics", "bindAddress"), c.Metrics.BindAddress)...)
	errs = append(errs, isListener(field.NewPath("healthProbeBindAddress"), c.HealthProbeBindAddress)...)
	errs = append(errs, judgePorts(c)...)
	errs = append(errs, judgeSecret(c.MPIRunSSHSecret)...)
	if rate := c.Tracing.SamplingRatePerMillion; rate < 0 || rate > 1_000_000 {
		errs = append(errs, field.Invalid(field.NewPath("tracing", "samplingRatePerMillion"), rate, "must be between 0 and 1000000"))
	}
	return errs
}

func judgeLogging(l v1alpha1.LoggingConfiguration) field.ErrorList {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	(&zap.Options{}).BindFlags(flags)
	return logging(flags, l)
}

// judgePorts finds listeners that leave no room for each other. Addresses that are none are told of elsewhere.
func judgePorts(c *v1alpha1.OperatorConfiguration) field.ErrorList {
	type listener struct {
		at         *field.Path
		host, port string
	}
	var all []listener
	add := func(at *field.Path, address string) {
		if host, port, err := net.SplitHostPort(address); err == nil {
			all = append(all, listener{at, host, port})
		}
	}
	if c.Webhooks.Enabled {
		add(field.NewPath("webhooks", "port"), net.JoinHostPort(c.Webhooks.BindAddress, strconv.Itoa(int(c.Webhooks.Port))))
	}
	add(field.NewPath("metrics", "bindAddress"), c.Metrics.BindAddress)
	add(field.NewPath("healthProbeBindAddress"), c.HealthProbeBindAddress)
	everywhere := func(host string) bool { return host == "" || net.ParseIP(host).IsUnspecified() }
	var errs field.ErrorList
	for i, a := range all {
		for _, b := range all[:i] {
			if a.port == b.port && (a.host == b.host || everywhere(a.host) || everywhere(b.host)) {
				errs = append(errs, field.Invalid(a.at, a.port, "this port is that of "+b.at.String()+" already: give each its own"))
			}
		}
	}
	return errs
}

func judgeSecret(s v1alpha1.SecretReference) field.ErrorList {
	at := field.NewPath("mpiRunSSHSecret")
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Subdomain(s.Name) {
		errs = append(errs, field.Invalid(at.Child("name"), s.Name, problem))
	}
	if s.Namespace != "" {
		errs = append(errs, isLabel(at.Child("namespace"), s.Namespace)...)
	}
	return errs
}

func judgeLeases(c *v1alpha1.OperatorConfiguration) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("leaderElection")
	l := c.LeaderElection
	if l.Enabled && l.ID == "" {
		errs = append(errs, field.Required(at.Child("id"), "leader election needs the name of its Lease; other installations use dynamo.nvidia.com"))
	}
	errs = append(errs, positive(at.Child("retryPeriod"), l.RetryPeriod)...)
	errs = append(errs, below(at.Child("renewDeadline"), l.RenewDeadline, "leaderElection.leaseDuration", l.LeaseDuration)...)
	if l.ID != "" {
		for _, problem := range validation.IsDNS1123Subdomain(l.ID) {
			errs = append(errs, field.Invalid(at.Child("id"), l.ID, problem))
		}
	}
	// The client library adds up to 120 % to each pause, and wants one of them to fit.
	if l.RetryPeriod.Duration*12/10 >= l.RenewDeadline.Duration {
		errs = append(errs, field.Invalid(at.Child("retryPeriod"), l.RetryPeriod.Duration.String(),
			"must be below five sixths of leaderElection.renewDeadline, which is "+l.RenewDeadline.Duration.String()))
	}
	at = field.NewPath("namespaceScope")
	s := c.NamespaceScope
	timing := scope.Timing{Duration: s.LeaseDuration.Duration, Renew: s.RenewInterval.Duration}
	return append(errs, timing.Validate(at.Child("leaseDuration"), at.Child("renewInterval"))...)
}

func judgeWebhooks(c *v1alpha1.OperatorConfiguration) field.ErrorList {
	w := c.Webhooks
	if !w.Enabled {
		return nil
	}
	at := field.NewPath("webhooks")
	var errs field.ErrorList
	for _, problem := range validation.IsValidPortNum(int(w.Port)) {
		errs = append(errs, field.Invalid(at.Child("port"), w.Port, problem))
	}
	errs = append(errs, judgeClientURL(w, at.Child("clientURL"))...)
	errs = append(errs, positive(at.Child("drainPeriod"), w.DrainPeriod)...)
	for i, user := range w.ReplicaWriters {
		if user == "" {
			errs = append(errs, field.Required(at.Child("replicaWriters").Index(i), "give the full name of a user"))
		}
	}
	return append(errs, judgeCertificates(c, at)...)
}

func judgeClientURL(w v1alpha1.WebhookConfiguration, at *field.Path) field.ErrorList {
	if w.ClientURL == "" {
		return nil
	}
	errs := isWebURL(at, w.ClientURL, "https")
	if u, err := url.Parse(w.ClientURL); err == nil && strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "" {
		errs = append(errs, field.Invalid(at, withoutSecrets(w.ClientURL), "must end after its host and port; each webhook has a path of its own"))
	}
	if w.Certificates.Source == v1alpha1.CertificatesFiles {
		errs = append(errs, field.Forbidden(at, "with certificates from files the operator does not write webhook configurations: put the address there"))
	}
	return errs
}

func judgeCertificates(c *v1alpha1.OperatorConfiguration, webhooks *field.Path) field.ErrorList {
	at, s := webhooks.Child("certificates"), c.Webhooks.Certificates
	switch s.Source {
	case v1alpha1.CertificatesFiles:
		if s.Directory == "" {
			return field.ErrorList{field.Required(at.Child("directory"), "say where tls.crt and tls.key are")}
		}
		return nil
	case v1alpha1.CertificatesSelfManaged:
	default:
		return oneOf(at.Child("source"), s.Source, v1alpha1.CertificatesSelfManaged, v1alpha1.CertificatesFiles)
	}
	var errs field.ErrorList
	if c.RestrictedNamespace != "" {
		errs = append(errs, field.Forbidden(at.Child("source"), "an operator of one namespace may not write webhook configurations: "+
			"set it to files, mount a certificate, and have an administrator put its authority into the webhook configuration; or turn webhooks off"))
	}
	for name, value := range map[string]string{"serviceName": c.Webhooks.ServiceName, "validatingConfigurationName": c.Webhooks.ValidatingConfigurationName,
		"mutatingConfigurationName": c.Webhooks.MutatingConfigurationName} {
		if value == "" {
			errs = append(errs, field.Required(webhooks.Child(name), "needed where the operator makes its certificates itself"))
		}
	}
	if s.SecretName == "" {
		errs = append(errs, field.Required(at.Child("secretName"), "needed where the operator makes its certificates itself"))
	}
	errs = append(errs, positive(at.Child("leafValidity"), s.LeafValidity)...)
	errs = append(errs, below(at.Child("leafValidity"), s.LeafValidity, "webhooks.certificates.authorityValidity", s.AuthorityValidity)...)
	if settle := s.SettlePeriod.Duration; settle <= 0 || settle > s.AuthorityValidity.Duration/3 {
		errs = append(errs, field.Invalid(at.Child("settlePeriod"), settle.String(), "must be positive, and a third of authorityValidity at most"))
	}
	return errs
}

func judgeMetrics(c *v1alpha1.OperatorConfiguration) field.ErrorList {
	m, at := c.Metrics, field.NewPath("metrics")
	if m.BearerTokenFile != "" && !m.Secure {
		return field.ErrorList{field.Required(at.Child("secure"), "a token must not travel in the clear: set it to true, or remove bearerTokenFile")}
	}
	if m.Secure && c.RestrictedNamespace != "" && m.BearerTokenFile == "" {
		return field.ErrorList{field.Required(at.Child("bearerTokenFile"),
			"an operator of one namespace may not ask the API server who its callers are: mount a Secret with a token and name its file")}
	}
	return nil
}

func oneOf(at *field.Path, value string, allowed ...string) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, allowed)}
}

func isURL(at *field.Path, value string) field.ErrorList {
	if _, err := url.Parse(value); err != nil {
		return field.ErrorList{field.Invalid(at, withoutSecrets(value), "must be a URL")}
	}
	return nil
}

// isWebURL wants more: somebody sends requests there.
func isWebURL(at *field.Path, value string, schemes ...string) field.ErrorList {
	u, err := url.Parse(value)
	if err != nil || !slices.Contains(schemes, u.Scheme) || u.Hostname() == "" {
		return field.ErrorList{field.Invalid(at, withoutSecrets(value), "must be a URL with a host that begins with "+strings.Join(schemes, ":// or ")+"://")}
	}
	return nil
}

// isListener accepts what a process can listen on, and 0 for not at all.
func isListener(at *field.Path, value string) field.ErrorList {
	if value == "0" || value == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(value)
	if n, wrong := strconv.Atoi(port); err != nil || wrong != nil || len(validation.IsValidPortNum(n)) > 0 {
		return field.ErrorList{field.Invalid(at, value, "must be an address with a port, such as :8080, or 0 for none")}
	}
	return nil
}

func isLabel(at *field.Path, value string) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Label(value) {
		errs = append(errs, field.Invalid(at, value, problem))
	}
	return errs
}

func positive(at *field.Path, d metav1.Duration) field.ErrorList {
	if d.Duration > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, d.Duration.String(), "must be positive")}
}

func below(at *field.Path, d metav1.Duration, name string, limit metav1.Duration) field.ErrorList {
	if d.Duration < limit.Duration {
		return nil
	}
	return field.ErrorList{field.Invalid(at, d.Duration.String(), "must be below "+name+", which is "+limit.Duration.String())}
}
