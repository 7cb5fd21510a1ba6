// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

const (
	// breath is the least time between two passes, so that somebody who keeps undoing our work costs little.
	breath = 100 * time.Millisecond
	// longestNap bounds how long a clock that jumped goes unnoticed.
	longestNap = time.Minute
	// slowestRetry is how often an API server is tried that keeps refusing.
	slowestRetry = 30 * time.Second
	// passTimeout bounds one pass, whatever the API server does.
	passTimeout = 10 * time.Second
)

// Keeper makes and rotates the certificates of the webhooks.
type Keeper struct {
	options Options
	policy  Policy
	hosts   hosts
	// expected is the host that the API server calls.
	expected string
	base     *url.URL
	wanted   []configuration
	// api reads without a cache. A pass is only right if what it reads first is not newer than what it reads last.
	api     client.Client
	events  cache.Cache
	trigger chan struct{}

	// absent and failure are what was logged last.
	absent  []string
	failure string

	// mu guards what follows. Only passes change the state, so they read it without.
	mu    sync.RWMutex
	state State
	leaf  *leaf
	// unsigned is why the last leaf could not be signed.
	unsigned string
	// unpublished are the configurations that do not carry the authority of the leaf, or lead elsewhere.
	unpublished []string
	// passed is false until a pass went through.
	passed bool
}

var _ Source = &Keeper{}

// New returns a Keeper that has not started yet.
func New(api *rest.Config, o Options) (*Keeper, error) {
	policy, err := o.policy()
	if err != nil {
		return nil, err
	}
	k := &Keeper{options: o, policy: policy, trigger: make(chan struct{}, 1), wanted: named(o.Validating, o.Mutating)}
	if k.hosts, k.expected, k.base, err = o.hosts(); err != nil {
		return nil, err
	}
	if o.Secret.Name == "" || o.Secret.Namespace == "" {
		return nil, errors.New("the certificate authority needs a Secret, in a namespace, to be kept in")
	}
	return k, k.connect(api)
}

// connect makes the client and the watches.
func (k *Keeper) connect(api *rest.Config) error {
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	if k.api, err = client.New(api, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("make the client of the certificate keeper: %w", err)
	}
	if k.events, err = cache.New(api, cache.Options{Scheme: scheme, ByObject: k.watched()}); err != nil {
		return fmt.Errorf("make the watches of the certificate keeper: %w", err)
	}
	return nil
}

// Start keeps certificates up to date until the context ends.
func (k *Keeper) Start(ctx context.Context) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := k.follow(ctx); err != nil {
		return err
	}
	watching.Go(func() {
		if err := k.events.Start(ctx); err != nil {
			k.options.Log.Error(err, "The watches of the certificate keeper ended")
		}
	})
	failures := 0
	for {
		wake, err := k.pass(ctx)
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case err == nil:
			failures = 0
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err): // another replica was faster
			wake = k.now()
		default:
			wake = k.now().Add(min(breath<<failures, slowestRetry))
			failures = min(failures+1, 16)
		}
		k.report(err)
		k.wait(ctx, wake)
	}
}

// wait returns when it is time or something happened, but not at once. It asks the clock again and again, which costs no
// request: a timer does not know that the machine slept.
func (k *Keeper) wait(ctx context.Context, until time.Time) {
	timer := time.NewTimer(breath)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
	}
	for k.now().Before(until) {
		timer.Reset(min(until.Sub(k.now()), longestNap))
		select {
		case <-ctx.Done():
			return
		case <-k.trigger:
			return
		case <-timer.C:
		}
	}
}

// poke asks for a pass.
func (k *Keeper) poke() {
	select {
	case k.trigger <- struct{}{}:
	default: // one is due already
	}
}

// now is what the wall clock says. A monotonic reading would stand still while the machine sleeps.
func (k *Keeper) now() time.Time { return k.options.Clock.Now().Round(0).UTC() }

// pass looks at everything once and does what is due.
func (k *Keeper) pass(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	now := k.now()
	shown := k.renew(now) // this needs nobody
	// The Secret is read after the configurations: a bundle that is older than the Secret then belongs to a configuration
	// that has changed since, and is refused.
	there, absent, err := readConfigurations(ctx, k.api, k.wanted)
	if err != nil {
		return now, err
	}
	k.reportAbsent(absent)
	plan, err := k.keep(ctx, now, there, shown)
	if err != nil {
		return now, err
	}
	shown = k.remember(plan.State, now)
	wake := plan.Wake
	if shown != nil && shown.renew.Before(wake) {
		wake = shown.renew
	}
	return wake, k.publishAll(ctx, there, shown)
}

// keep takes the step that is due and stores where it led. Nothing is published that was not stored.
func (k *Keeper) keep(ctx context.Context, now time.Time, there []configuration, shown *leaf) (Plan, error) {
	secret, err := k.readSecret(ctx)
	if err != nil {
		return Plan{}, err
	}
	stored, whole := State{}, false
	base := k.state
	if secret != nil {
		if stored, err = load(secret); err != nil {
			k.options.Log.Info("The Secret of the certificate authority cannot be used and is written anew",
				"secret", k.options.Secret, "reason", err.Error())
		} else {
			base, whole = stored, true
		}
	}
	if shown != nil {
		base = base.Cover(shown.issuer, shown.expires, now)
	}
	plan, err := k.policy.Next(base, now, Facts{
		Rotate: asked(secret),
		Published: func(certificate string) bool {
			return !slices.ContainsFunc(there, func(c configuration) bool { return !c.carries(certificate) })
		},
		Found: append(found(there), lost(secret)...),
	})
	if err != nil {
		return Plan{}, err
	}
	if err := k.writeSecret(ctx, secret, plan, whole && plan.State.Equal(stored)); err != nil {
		return Plan{}, err
	}
	k.reportSteps(base, plan.State)
	return plan, nil
}

func asked(secret *corev1.Secret) bool {
	return secret != nil && secret.Annotations[names.AnnotationRotateAuthority] == rotateNow
}

// +kubebuilder:rbac:groups="",resources=secrets,verbs=get,roleName=cluster-wide

// readSecret returns nil where there is none.
func (k *Keeper) readSecret(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := k.api.Get(ctx, k.options.Secret, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority in Secret %s: %w", k.options.Secret, err)
	}
	return secret, nil
}

// +kubebuilder:rbac:groups="",resources=secrets,verbs=create;patch,roleName=cluster-wide

// writeSecret stores a state, unless that is what is stored.
func (k *Keeper) writeSecret(ctx context.Context, secret *corev1.Secret, plan Plan, same bool) error {
	owner := client.FieldOwner(names.FieldManager)
	if secret == nil {
		secret = newSecret(k.options.Secret)
		if err := store(secret, plan.State); err != nil {
			return err
		}
		if err := k.api.Create(ctx, secret, owner); err != nil {
			return fmt.Errorf("create Secret %s for the certificate authority: %w", k.options.Secret, err)
		}
		return nil
	}
	done := asked(secret) && plan.Rotated
	if same && !done && bytes.Equal(secret.Data[bundleKey], bundle(plan.State)) {
		return nil
	}
	before := secret.DeepCopy()
	if err := store(secret, plan.State); err != nil {
		return err
	}
	if done {
		delete(secret.Annotations, names.AnnotationRotateAuthority)
	}
	lock := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := k.api.Patch(ctx, secret, lock, owner); err != nil {
		return fmt.Errorf("store the certificate authority in Secret %s: %w", k.options.Secret, err)
	}
	return nil
}

// publishAll makes every configuration carry all authorities and lead here, and notes which do not.
func (k *Keeper) publishAll(ctx context.Context, there []configuration, shown *leaf) error {
	content, to := bundle(k.state), place{base: k.base, service: k.options.Service}
	var failures []error
	var unpublished []string
	for _, c := range there {
		if wanted := changeOf(c, content, to); wanted != nil {
			if err := publish(ctx, k.api, c, wanted); err != nil {
				failures = append(failures, err)
			} else {
				c.hooks = hooksOf(c.object)
				k.options.Log.Info("Published the certificate authority", "in", c.name())
			}
		}
		if shown != nil && !c.carries(shown.issuer) || to.isMissedBy(c) {
			unpublished = append(unpublished, c.name())
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unpublished, k.passed = unpublished, true
	return one(failures)
}

// one returns the first failure that is not a lost race, so that it decides how long to wait.
func one(failures []error) error {
	for _, err := range failures {
		if !apierrors.IsConflict(err) {
			return err
		}
	}
	if len(failures) > 0 {
		return failures[0]
	}
	return nil
}

// report logs a failure when it is a new one.
func (k *Keeper) report(err error) {
	text := ""
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		text = err.Error()
	}
	if text != "" && text != k.failure {
		k.options.Log.Error(err, "The certificates of the webhooks could not be looked after")
	}
	if text == "" && err == nil && k.failure != "" {
		k.options.Log.Info("The certificates of the webhooks are looked after again")
	}
	if err == nil || text != "" {
		k.failure = text
	}
}

// reportAbsent logs which configurations are waited for when that changes.
func (k *Keeper) reportAbsent(absent []string) {
	if !slices.Equal(absent, k.absent) && len(absent) > 0 {
		k.options.Log.Info("Webhook configurations do not exist; waiting for them", "absent", strings.Join(absent, ", "))
	}
	k.absent = absent
}

// reportSteps logs what became of authorities.
func (k *Keeper) reportSteps(before, after State) {
	was := map[string]Phase{}
	for _, a := range before.Authorities {
		was[a.Certificate] = a.Phase
	}
	for _, a := range after.Authorities {
		if was[a.Certificate] != a.Phase {
			k.options.Log.Info("A certificate authority changed its phase",
				"authority", fingerprint(a.Certificate), "phase", a.Phase, "expires", a.Expires)
		}
		delete(was, a.Certificate)
	}
	for certificate := range was {
		k.options.Log.Info("A certificate authority is no longer needed", "authority", fingerprint(certificate))
	}
}
