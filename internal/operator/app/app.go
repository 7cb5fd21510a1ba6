// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app is the composition root: the only package that knows every controller, and where they are given their
// tools.
package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	grovev1alpha1 "github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/config"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/scope"
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
	effective, err := c.Effective()
	if err != nil {
		return err
	}
	log.Info("Operator is starting", "version", c.Version(), "configuration", effective)
	operator, err := New(ctx, c, api)
	if err != nil {
		return err
	}
	return operator.Start(ctx)
}

// Operator is a manager and what runs beside it.
type Operator struct {
	manager.Manager

	// admission are the webhooks, nil for none.
	admission *admissionParts
	traces    telemetry.Traces
}

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=dynamo.nvidia.com,verbs=get;update

// New builds the operator.
func New(ctx context.Context, c *config.Config, api *rest.Config) (*Operator, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	seen, err := newSight(ctx, c)
	if err != nil {
		return nil, err
	}
	api = rest.CopyConfig(api)
	api.WarningHandler = rest.NoWarnings{} // what is deprecated in a user's graph is for the user to hear
	api.DisableCompression = true          // watches would be packed and unpacked all day, for a network that does not need it
	api.Wrap(seen.traces.Requests)
	api.Wrap(scope.Transport)
	mgr, err := manager.New(api, options(c, scheme))
	if err != nil {
		return nil, fmt.Errorf("set up the manager: %w", err)
	}
	land, err := newTerritory(mgr, c)
	if err != nil {
		return nil, fmt.Errorf("find out where to work: %w", err)
	}
	p, err := addControllers(ctx, mgr, c, around{sight: seen, land: land})
	if err != nil {
		return nil, err
	}
	if err := addStandby(mgr, c); err != nil {
		return nil, fmt.Errorf("watch who leads: %w", err)
	}
	o := &Operator{Manager: mgr}
	if c.Webhooks.Enabled {
		if o.admission, err = newAdmission(ctx, mgr, c, p); err != nil {
			return nil, err
		}
	}
	o.traces = seen.traces
	return o, o.show(p)
}

// show makes the operator visible: its metrics, its traces and its health.
func (o *Operator) show(p parts) error {
	filled := &caches{informers: o.GetCache()}
	errs := []error{
		o.Add(filled),
		p.sight.registry.Register(&telemetry.Census{
			Cache: o.GetCache(), Leading: o.Elected(), Kinds: counted(controllers.IsPaused),
			Excluded: p.land.isForeign, Expiry: o.admission.expiry, Leases: p.land.leases, Metrics: p.sight.metrics,
		}),
		o.AddHealthzCheck("ping", healthz.Ping),
		o.AddReadyzCheck("caches", filled.Ready),
	}
	if o.admission != nil {
		errs = append(errs, o.AddReadyzCheck("webhooks", o.admission.Ready))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("make the operator visible: %w", err)
	}
	return nil
}

// Start runs the operator until the context ends, or one of its parts does.
func (o *Operator) Start(ctx context.Context) error {
	together, ctx := errgroup.WithContext(ctx)
	run := func(name string, start func(context.Context) error) {
		together.Go(func() error {
			if err := start(ctx); err != nil {
				return fmt.Errorf("run the %s: %w", name, err)
			}
			if ctx.Err() == nil {
				return fmt.Errorf("the %s ended by itself", name)
			}
			return nil
		})
	}
	run("manager", o.Manager.Start)
	run("traces", o.traces.Start)
	if o.admission != nil {
		run("certificates", o.admission.source.Start)
		run("webhooks", o.admission.server.Start)
	}
	return together.Wait()
}

// caches tells when the caches have been filled that every pass reads.
type caches struct {
	informers cache.Informers
	filled    atomic.Bool
}

// Start waits for the caches. Those of optional APIs are not among them: they come and go.
func (c *caches) Start(ctx context.Context) error {
	for _, k := range kinds() {
		for _, object := range append([]client.Object{k.primary}, k.owned...) {
			if _, err := c.informers.GetInformer(ctx, object); err != nil {
				return fmt.Errorf("fill the cache of %s: %w", k.name, err)
			}
		}
	}
	c.filled.Store(true)
	return nil
}

// NeedLeaderElection is false: a standby fills its caches, too.
func (c *caches) NeedLeaderElection() bool { return false }

// Ready tells that they are not filled yet.
func (c *caches) Ready(*http.Request) error {
	if c.filled.Load() {
		return nil
	}
	return errors.New("caches are being filled")
}

func options(c *config.Config, scheme *runtime.Scheme) manager.Options {
	return manager.Options{
		Scheme:         scheme,
		Cache:          cacheOptions(c),
		NewCache:       newCache,
		MapperProvider: newMapper,
		// Every object is rendered from types. To look for fields that nobody knows, only to warn of them, has the API server
		// parse whatever is applied once more.
		Client:                        client.Options{FieldValidation: metav1.FieldValidationIgnore},
		Metrics:                       metricsOptions(c),
		HealthProbeBindAddress:        c.HealthProbeBindAddress,
		LeaderElection:                c.LeaderElection.Enabled,
		LeaderElectionID:              c.LeaderElection.ID,
		LeaderElectionNamespace:       c.ElectionNamespace(Environment),
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

// minTLS is the lowest version of TLS that listeners speak.
func minTLS(c *config.Config) uint16 {
	if c.TLS.MinVersion == "1.3" {
		return tls.VersionTLS13
	}
	return tls.VersionTLS12
}

func tlsOptions(c *config.Config) []func(*tls.Config) {
	return []func(*tls.Config){func(t *tls.Config) {
		t.MinVersion = minTLS(c)
		if !c.TLS.EnableHTTP2 {
			t.NextProtos = []string{"http/1.1"}
		}
	}}
}
