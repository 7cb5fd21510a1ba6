// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/dynamo-operator/dynamo-operator/internal/operator/config"
)

const (
	// trustReader is how long a reader of metrics is not asked for again. It bounds how long one whose rights were taken
	// away goes on reading.
	trustReader = time.Minute

	// maxReaders bounds what callers can make the operator remember.
	maxReaders = 100

	// maxAsking is how many callers are asked for at once.
	maxAsking = 4

	// reviewTimeout bounds the wait for the API server.
	reviewTimeout = 5 * time.Second
)

// metricsOptions are how metrics are served: in the clear to everybody, or over TLS to those who may read them.
func metricsOptions(c *config.Config) metricsserver.Options {
	o := metricsserver.Options{
		BindAddress: c.Metrics.BindAddress, SecureServing: c.Metrics.Secure, CertDir: c.Metrics.CertificateDirectory, TLSOpts: tlsOptions(c),
	}
	switch {
	case !c.Metrics.Secure:
	case c.Metrics.BearerTokenFile != "":
		o.FilterProvider = byToken(c.Metrics.BearerTokenFile)
	default:
		o.FilterProvider = byReview
	}
	return o
}

// judge tells whether whoever shows a token may read metrics.
type judge func(ctx context.Context, token string) (bool, error)

// filter lets callers through whom the judge lets read.
func filter(may judge) metricsserver.Filter {
	return func(log logr.Logger, next http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			token, shown := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
			if !shown || token == "" {
				http.Error(w, "show a bearer token", http.StatusUnauthorized)
				return
			}
			allowed, err := may(req.Context(), token)
			switch {
			case err != nil:
				log.Error(err, "Reader of metrics could not be judged")
				http.Error(w, "the token cannot be checked now", http.StatusInternalServerError)
			case !allowed:
				http.Error(w, "this token may not read metrics", http.StatusForbidden)
			default:
				next.ServeHTTP(w, req)
			}
		}), nil
	}
}

// byToken lets those read who show the token in a file. The file is read for every caller, because a kubelet replaces it
// when its Secret changes.
func byToken(file string) func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
	return func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
		if _, err := readToken(file); err != nil {
			return nil, err
		}
		return filter(func(_ context.Context, shown string) (bool, error) {
			want, err := readToken(file)
			return err == nil && subtle.ConstantTimeCompare([]byte(shown), []byte(want)) == 1, err
		}), nil
	}
}

func readToken(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the token of the metrics: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", errors.New("the token of the metrics in " + file + " is empty")
	}
	return token, nil
}

// byReview lets those read of whom the API server says that they may get /metrics.
func byReview(api *rest.Config, http *http.Client) (metricsserver.Filter, error) {
	reviews, err := kubernetes.NewForConfigAndClient(api, http)
	if err != nil {
		return nil, fmt.Errorf("set up reviews for the metrics: %w", err)
	}
	r := &readers{
		ask:   func(ctx context.Context, token string) (bool, error) { return review(ctx, reviews, token) },
		clock: clock.RealClock{}, asking: make(chan struct{}, maxAsking),
	}
	return filter(r.may), nil
}

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// review asks the API server whose token it is, and whether they may get /metrics.
func review(ctx context.Context, api kubernetes.Interface, token string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	who, err := api.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil || !who.Status.Authenticated {
		return false, err
	}
	user := who.Status.User
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	verdict, err := api.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return verdict.Status.Allowed && !verdict.Status.Denied, nil
}

// readers remembers for a while who may read, so that a scrape costs the API server nothing. Whoever may not is asked for
// every time, a few at a time, so that strangers cannot make the operator send many requests at once.
type readers struct {
	ask   judge
	clock clock.PassiveClock

	asking chan struct{}
	mu     sync.Mutex
	until  map[[sha256.Size]byte]time.Time
}

func (r *readers) may(ctx context.Context, token string) (bool, error) {
	key := sha256.Sum256([]byte(token))
	if r.trusts(key) {
		return true, nil
	}
	select {
	case r.asking <- struct{}{}:
		defer func() { <-r.asking }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	allowed, err := r.ask(ctx, token)
	if err == nil && allowed {
		r.trust(key)
	}
	return allowed, err
}

func (r *readers) trusts(key [sha256.Size]byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clock.Now().Before(r.until[key])
}

func (r *readers) trust(key [sha256.Size]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until == nil || len(r.until) >= maxReaders {
		r.until = map[[sha256.Size]byte]time.Time{}
	}
	r.until[key] = r.clock.Now().Add(trustReader)
}
