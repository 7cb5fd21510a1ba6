// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"cmp"
	"flag"
	"net/url"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1alpha1 "github.com/dynamo-operator/dynamo-operator/api/config/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/config"
)

// The roles that are installed with the operator. An operator of which nothing is known is taken to use them.
const (
	shippedPlannerRole = "dynamo-operator-planner"
	shippedEPPRole     = "dynamo-operator-epp"
)

// DefaultOperator is an operator that was started without a word, with the roles that are installed with it.
func DefaultOperator() Operator {
	return configured(configv1alpha1.OperatorConfiguration{
		PlannerClusterRoleName: shippedPlannerRole, EPPClusterRoleName: shippedEPPRole,
	})
}

// Configured is the operator that a configuration file describes. Source is the name of the file.
func Configured(source string, content []byte) (Operator, []Problem) {
	fail := func(errs field.ErrorList) (Operator, []Problem) {
		return Operator{}, File{Name: source}.problems("", errs)
	}
	members, err := parse(content)
	if err != nil {
		return Operator{}, []Problem{{Source: source, Err: err}}
	}
	for _, header := range []struct{ key, want string }{
		{"kind", configv1alpha1.KindOperatorConfiguration},
		{"apiVersion", configv1alpha1.GroupVersion.String()},
	} {
		if members[header.key] != header.want {
			return fail(field.ErrorList{field.NotSupported(field.NewPath(header.key), members[header.key], []string{header.want})})
		}
	}
	file, errs := decode[configv1alpha1.OperatorConfiguration](members)
	if len(errs) > 0 {
		return fail(errs)
	}
	if errs := judge(file); len(errs) > 0 {
		return fail(errs)
	}
	return configured(*file), nil
}

// judge checks what the types do not.
func judge(c *configv1alpha1.OperatorConfiguration) field.ErrorList {
	var errs field.ErrorList
	backends := []string{names.DiscoveryKubernetes, names.DiscoveryEtcd}
	if d := c.DiscoveryBackend; d != "" && !slices.Contains(backends, d) {
		errs = append(errs, field.NotSupported(field.NewPath("discoveryBackend"), d, backends))
	}
	if _, err := url.Parse(c.ModelExpressURL); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("modelExpressURL"), c.ModelExpressURL, "must be a URL"))
	}
	if only := c.RestrictedNamespace; only != "" {
		for _, problem := range validation.IsDNS1123Label(only) {
			errs = append(errs, field.Invalid(field.NewPath("restrictedNamespace"), only, problem))
		}
	}
	return errs
}

// configured lays a configuration over the defaults of the operator's flags.
func configured(c configv1alpha1.OperatorConfiguration) Operator {
	// Declaring the flags is what gives the configuration their defaults.
	flags := config.Bind(flag.NewFlagSet("", flag.ContinueOnError))
	flags.RestrictedNamespace = c.RestrictedNamespace
	r := &flags.Render
	r.NATSAddress, r.EtcdAddress = c.NATSAddress, c.EtcdAddress
	r.ModelExpressURL, r.PrometheusEndpoint = c.ModelExpressURL, c.PrometheusEndpoint
	r.IngressClass, r.IngressTLSSecret, r.IngressHostSuffix = c.Ingress.ClassName, c.Ingress.TLSSecretName, c.Ingress.HostSuffix
	r.IstioGateway = c.IstioVirtualServiceGateway
	r.PlannerClusterRole, r.EPPClusterRole = c.PlannerClusterRoleName, c.EPPClusterRoleName
	if c.DiscoveryBackend != "" {
		r.DiscoveryBackend = c.DiscoveryBackend
	}
	if c.GroveTerminationDelay != nil {
		r.GroveTerminationDelay = c.GroveTerminationDelay.Duration
	}
	r.SSHSecret, r.SSHSecretNamespace = cmp.Or(c.MPIRunSSHSecret.Name, r.SSHSecret), c.MPIRunSSHSecret.Namespace
	// The environment of whoever renders is not that of the operator.
	return Operator{Settings: flags.Settings(func(string) string { return "" }), Namespace: c.RestrictedNamespace}
}
