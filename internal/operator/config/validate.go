// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/url"
	"path"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/config/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/scope"
)

// flagOf names the flag of a member, for people who gave it by one.
var flagOf = map[string]string{
	"discoveryBackend": "--discovery-backend", "modelExpressURL": "--model-express-url", "restrictedNamespace": "--restrictedNamespace",
	"leaderElection.id": "--leader-election-id", "namespaceScope.leaseDuration": "--namespace-scope-lease-duration",
	"namespaceScope.renewInterval": "--namespace-scope-lease-renew-interval", "mpiRunSSHSecret.name": "--mpi-run-ssh-secret-name",
	"webhooks.enabled": "--enable-webhooks", "metrics.secure": "--metrics-secure", "groveTerminationDelay": "--grove-termination-delay",
}

// Validate returns every problem at once, so that a start fails once and not once per mistake.
func (c *Config) Validate() error {
	errs := Judge(&c.OperatorConfiguration)
	for _, e := range errs {
		if name := flagOf[e.Field]; name != "" {
			e.Field += " (" + name + ")"
		}
	}
	return errs.ToAggregate()
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
	errs = append(errs, judgeLeases(c)...)
	errs = append(errs, judgeWebhooks(c)...)
	errs = append(errs, judgeMetrics(c)...)
	errs = append(errs, isURL(field.NewPath("tracing", "endpoint"), c.Tracing.Endpoint)...)
	if rate := c.Tracing.SamplingRatePerMillion; rate < 0 || rate > 1_000_000 {
		errs = append(errs, field.Invalid(field.NewPath("tracing", "samplingRatePerMillion"), rate, "must be between 0 and 1000000"))
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
	errs = append(errs, below(at.Child("retryPeriod"), l.RetryPeriod, "leaderElection.renewDeadline", l.RenewDeadline)...)
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
	if u, err := url.Parse(w.ClientURL); w.ClientURL != "" && (err != nil || u.Scheme != "https" || u.Hostname() == "") {
		errs = append(errs, field.Invalid(at.Child("clientURL"), w.ClientURL, "must be an https URL with a host"))
	}
	errs = append(errs, positive(at.Child("drainPeriod"), w.DrainPeriod)...)
	for i, user := range w.ReplicaWriters {
		if user == "" {
			errs = append(errs, field.Required(at.Child("replicaWriters").Index(i), "give the full name of a user"))
		}
	}
	return append(errs, judgeCertificates(c, at)...)
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
		return field.ErrorList{field.Invalid(at, value, "must be a URL")}
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
