// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app is the composition root: the only package that knows every controller, and where they are given their
// tools.
package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	grovev1alpha1 "github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/config"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/telemetry"
)

// Scheme knows every kind the operator reads or writes.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, v1alpha1.AddToScheme, lwsv1.AddToScheme, grovev1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register kinds: %w", err)
		}
	}
	return scheme, nil
}

// Run builds the operator and runs it until the context ends.
func Run(ctx context.Context, c *config.Config, api *rest.Config) error {
	log := ctrl.Log.WithName("start")
	if len(c.Reserved) > 0 {
		log.Info("Accepted flags whose features are not part of this release yet", "flags", c.Reserved)
	}
	mgr, err := New(ctx, c, api)
	if err != nil {
		return err
	}
	effective, err := c.Effective()
	if err != nil {
		return err
	}
	log.Info("Operator is starting", "version", c.OperatorVersion, "configuration", effective)
	return mgr.Start(ctx)
}

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create;get;update

// New builds the operator.
func New(ctx context.Context, c *config.Config, api *rest.Config) (manager.Manager, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	seen, err := newSight(ctx, c)
	if err != nil {
		return nil, err
	}
	api = rest.CopyConfig(api)
	api.Wrap(seen.traces.Requests)
	mgr, err := manager.New(api, options(c, scheme))
	if err != nil {
		return nil, fmt.Errorf("set up the manager: %w", err)
	}
	if err := addControllers(ctx, mgr, c, seen); err != nil {
		return nil, err
	}
	if err := errors.Join(mgr.Add(seen.traces), seen.registry.Register(&telemetry.Census{
		Cache: mgr.GetCache(), Leading: mgr.Elected(), Kinds: counted(controllers.IsPaused),
		Excluded: func(string) bool { return false },
		Expiry:   func() (leaf, authority time.Time) { return },
		Leases:   func() map[string]string { return nil },
	})); err != nil {
		return nil, fmt.Errorf("make the operator visible: %w", err)
	}
	for name, add := range map[string]func(string, healthz.Checker) error{"healthz": mgr.AddHealthzCheck, "readyz": mgr.AddReadyzCheck} {
		if err := add(name, healthz.Ping); err != nil {
			return nil, fmt.Errorf("add %s: %w", name, err)
		}
	}
	return mgr, nil
}

func options(c *config.Config, scheme *runtime.Scheme) manager.Options {
	return manager.Options{
		Scheme:                        scheme,
		Cache:                         cacheOptions(c),
		NewCache:                      newCache,
		Metrics:                       metricsOptions(c),
		HealthProbeBindAddress:        c.HealthProbeBindAddress,
		LeaderElection:                c.LeaderElection.Enabled,
		LeaderElectionID:              c.LeaderElection.ID,
		LeaderElectionNamespace:       cmp.Or(c.LeaderElection.Namespace, c.OwnNamespace(environment)),
		LeaseDuration:                 &c.LeaderElection.LeaseDuration.Duration,
		RenewDeadline:                 &c.LeaderElection.RenewDeadline.Duration,
		RetryPeriod:                   &c.LeaderElection.RetryPeriod.Duration,
		LeaderElectionReleaseOnCancel: true,
		Controller: ctrlconfig.Controller{
			// A standby keeps its caches warm, so that a failover costs the lease and nothing more.
			EnableWarmup:          new(true),
			SkipNameValidation:    &c.SharedProcess,
			ReconciliationTimeout: reconcileTimeout,
		},
	}
}

func tlsOptions(c *config.Config) []func(*tls.Config) {
	return []func(*tls.Config){func(t *tls.Config) {
		t.MinVersion = tls.VersionTLS12
		if c.TLS.MinVersion == "1.3" {
			t.MinVersion = tls.VersionTLS13
		}
		if !c.TLS.EnableHTTP2 {
			t.NextProtos = []string{"http/1.1"}
		}
	}}
}
