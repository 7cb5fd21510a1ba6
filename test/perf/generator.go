// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// Key names the graph of a number. Graphs are dealt to namespaces one after the other.
func (b *Bed) Key(i int) client.ObjectKey {
	return client.ObjectKey{Namespace: fmt.Sprintf("perf-%02d", i%namespaces), Name: fmt.Sprintf("g%05d", i)}
}

// Graph is the graph of a number: a frontend and a worker.
func (b *Bed) Graph(i int) *v1alpha1.DynamoGraphDeployment {
	key := b.Key(i)
	return builders.TwoComponents(key.Namespace, key.Name).Obj()
}

// Client is a client that has a connection for each request that is under way. HTTP/2 would put all of them on one, where
// they wait for each other.
func (b *Bed) Client(user string) client.Client {
	b.t.Helper()
	config := harness.RESTConfig(b.t, user)
	config.NextProtos = []string{"http/1.1"}
	api, err := client.New(config, client.Options{Scheme: harness.Scheme(b.t)})
	if err != nil {
		b.t.Fatalf("make a client of %s: %v", user, err)
	}
	return api
}

// Each does something for every number below n, over all connections, and fails the test if one of them fails.
func (b *Bed) Each(n int, what string, do func(ctx context.Context, i int) error) {
	b.t.Helper()
	if err := each(b.t.Context(), n, do); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// each hands numbers to as many workers as there are connections. The first error ends it.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	workers, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range Connections {
		workers.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := do(ctx, i); err != nil {
					return fmt.Errorf("number %d: %w", i, err)
				}
			}
		})
	}
	return workers.Wait()
}

// CreateGraphs creates n graphs and returns when the request of each was sent.
func (b *Bed) CreateGraphs(n int, graph func(i int) *v1alpha1.DynamoGraphDeployment) []time.Time {
	b.t.Helper()
	api := b.Client(GeneratorUser)
	sent := make([]time.Time, n)
	b.Each(n, "create graphs", func(ctx context.Context, i int) error {
		g := graph(i)
		sent[i] = time.Now()
		return api.Create(ctx, g)
	})
	return sent
}

// ChangeGraphs patches n graphs with a merge patch and returns when the request of each was sent.
func (b *Bed) ChangeGraphs(n int, patch string) []time.Time {
	b.t.Helper()
	api := b.Client(GeneratorUser)
	sent := make([]time.Time, n)
	b.Each(n, "change graphs", func(ctx context.Context, i int) error {
		sent[i] = time.Now()
		return api.Patch(ctx, b.named(i), client.RawPatch("application/merge-patch+json", []byte(patch)))
	})
	return sent
}

// DeleteGraphs deletes n graphs and returns when the first request was sent.
func (b *Bed) DeleteGraphs(n int) time.Time {
	b.t.Helper()
	api := b.Client(GeneratorUser)
	begin := time.Now()
	b.Each(n, "delete graphs", func(ctx context.Context, i int) error { return api.Delete(ctx, b.named(i)) })
	return begin
}

// named is the graph of a number with nothing but its name.
func (b *Bed) named(i int) *v1alpha1.DynamoGraphDeployment {
	g := &v1alpha1.DynamoGraphDeployment{}
	g.Namespace, g.Name = b.Key(i).Namespace, b.Key(i).Name
	return g
}

// Touch is a merge patch that means nothing to the operator.
func Touch(note string) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{"example.com/note":%q}}}`, note)
}

// Image is a merge patch that gives the named services another image.
func Image(image string, services ...string) string {
	members := make([]string, 0, len(services))
	for _, service := range services {
		members = append(members, fmt.Sprintf(`%q:{"extraPodSpec":{"mainContainer":{"image":%q}}}`, service, image))
	}
	return `{"spec":{"services":{` + strings.Join(members, ",") + `}}}`
}

// ChangeOne patches one graph and returns when the request was sent.
func (b *Bed) ChangeOne(i int, patch string) time.Time {
	b.t.Helper()
	sent := time.Now()
	err := harness.Client(b.t).Patch(b.t.Context(), b.named(i), client.RawPatch("application/merge-patch+json", []byte(patch)))
	if err != nil {
		b.t.Fatalf("change graph %s: %v", b.Key(i), err)
	}
	return sent
}

// RemoveWebhooks has the API server call nobody from now on, or from a moment later: see AwaitStamps.
func (b *Bed) RemoveWebhooks() {
	b.t.Helper()
	for _, c := range []client.Object{
		&admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{},
	} {
		if err := harness.Client(b.t).DeleteAllOf(b.t.Context(), c); err != nil {
			b.t.Fatalf("remove webhooks: %v", err)
		}
	}
}

// AwaitStamps waits until the API server has a new graph stamped by a webhook, or no longer.
func (b *Bed) AwaitStamps(stamped bool) {
	b.t.Helper()
	harness.Eventually(b.t, Limit(0), fmt.Sprintf("graphs stamped %t", stamped), func() (bool, string) {
		g := b.Graph(0)
		if err := harness.Client(b.t).Create(b.t.Context(), g, client.DryRunAll); err != nil {
			return false, err.Error()
		}
		_, is := g.Annotations[names.AnnotationOriginVersion]
		return is == stamped, "not yet"
	})
}
