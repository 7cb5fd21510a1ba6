// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/dynamo-operator/dynamo-operator/api/config/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/admission"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/certs"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/config"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/telemetry"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/webhook"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// admissionParts are what the webhooks are put together from. They do not belong to the manager, which hands leadership on
// only when all of its parts have ended: a server that lets its clients go takes longer than that.
type admissionParts struct {
	source certs.Source
	server *webhook.Server
}

// newAdmission sets the webhooks up.
func newAdmission(ctx context.Context, mgr manager.Manager, c *config.Config, p parts) (*admissionParts, error) {
	source, err := certificates(mgr, c)
	if err != nil {
		return nil, err
	}
	self, err := ownIdentity(ctx, mgr.GetClient())
	if err != nil {
		return nil, err
	}
	server, err := webhook.New(webhook.Options{
		Address:      net.JoinHostPort(c.Webhooks.BindAddress, strconv.Itoa(int(c.Webhooks.Port))),
		Certificates: source, MinTLS: minTLS(c), HTTP2: c.TLS.EnableHTTP2, Version: c.Stamp(),
		Restricted:     c.RestrictedNamespace != "",
		ReplicaWriters: append(slices.Clone(c.Webhooks.ReplicaWriters), self),
		InferencePools: func() admission.Presence { return presence(p.served()) },
		Excluded:       p.land.isForeign,
		MayCreate:      webhook.MayCreateGraphs(mgr.GetClient()),
		Observe:        func(j webhook.Judgement) { p.sight.metrics.Admitted(telemetry.Admission(j)) },
		Drain:          c.Webhooks.DrainPeriod.Duration, Clock: clock.RealClock{}, Log: mgr.GetLogger().WithName("webhook"),
	})
	if err != nil {
		return nil, fmt.Errorf("set up webhooks: %w", err)
	}
	return &admissionParts{source: source, server: server}, nil
}

func presence(served input.Capabilities) admission.Presence {
	if served.InferencePool {
		return admission.PresenceServed
	}
	return admission.PresenceAbsent
}

// certificates are where those of the webhooks come from.
func certificates(mgr manager.Manager, c *config.Config) (certs.Source, error) {
	w, log := c.Webhooks, mgr.GetLogger().WithName("certificates")
	if w.Certificates.Source == v1alpha1.CertificatesFiles {
		return &certs.Files{Directory: w.Certificates.Directory, Clock: clock.RealClock{}, Log: log}, nil
	}
	own := c.OwnNamespace(Environment)
	keeper, err := certs.New(mgr.GetConfig(), certs.Options{
		Secret:     client.ObjectKey{Namespace: own, Name: w.Certificates.SecretName},
		Service:    client.ObjectKey{Namespace: own, Name: w.ServiceName},
		Validating: w.ValidatingConfigurationName, Mutating: w.MutatingConfigurationName, ClientURL: w.ClientURL,
		AuthorityLife: w.Certificates.AuthorityValidity.Duration, LeafLife: w.Certificates.LeafValidity.Duration,
		Settle: w.Certificates.SettlePeriod.Duration, Clock: clock.RealClock{}, Log: log,
	})
	if err != nil {
		return nil, fmt.Errorf("set up certificates: %w", err)
	}
	return keeper, nil
}

// ownIdentity is the name under which the API server knows this operator. Everybody may ask for their own.
func ownIdentity(ctx context.Context, api client.Writer) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := api.Create(ctx, review); err != nil {
		return "", fmt.Errorf("ask the API server who this operator is: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// Ready tells what is missing before the API server can call.
func (a *admissionParts) Ready(req *http.Request) error {
	return errors.Join(a.source.Ready(req), a.server.Ready(req))
}

// expiry is when the certificates end.
func (a *admissionParts) expiry() (leaf, authority time.Time) {
	if a == nil {
		return leaf, authority
	}
	return a.source.Expiry()
}
