// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// graphWebhook is who refuses graphs.
const graphWebhook = `admission webhook "vdynamographdeployment.kb.io" denied the request`

// good is a graph that follows all rules; bad breaks one that no schema knows.
func good(namespace, name string) *v1alpha1.DynamoGraphDeployment {
	return builders.TwoComponents(namespace, name).Obj()
}

func bad(namespace, name string) *v1alpha1.DynamoGraphDeployment {
	g := good(namespace, name)
	g.Spec.Services["decode"] = g.Spec.Services["Decode"]
	return g
}

// pressure is a stream of writes that all have to be judged and stamped. They are dry runs, which webhooks see like others.
type pressure struct {
	t      *testing.T
	cancel context.CancelFunc
	done   sync.WaitGroup

	released bool
	mu       sync.Mutex
	judged   int
	failures []string
}

// workers send at the same time. They wait for their answers, so that a slow machine is not buried in requests.
const workers = 4

// press sends so many writes per second, if the machine is quick enough, until it is released.
func press(s *site, perSecond int) *pressure {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &pressure{t: s.t, cancel: cancel}
	api := harness.Client(s.t)
	for range workers {
		p.done.Go(func() {
			ticker := time.NewTicker(workers * time.Second / time.Duration(perSecond))
			defer ticker.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
					p.note(one(api, s.namespace))
				}
			}
		})
	}
	s.t.Cleanup(p.release)
	p.more()
	return p
}

// more waits until a few writes were judged that began after now.
func (p *pressure) more() {
	p.t.Helper()
	before := p.count()
	harness.Eventually(p.t, patience, "some more writes", func() (bool, string) {
		now := p.count()
		return now >= before+10, fmt.Sprintf("%d before, %d now", before, now)
	})
}

func (p *pressure) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.judged
}

// one sends a graph that has to be stamped and one that has to be refused.
func one(api client.Client, namespace string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	fine := good(namespace, "fine")
	if err := api.Create(ctx, fine, client.DryRunAll); err != nil {
		return fmt.Errorf("a good graph: %w", err)
	}
	if fine.Annotations[names.AnnotationOriginVersion] == "" {
		return fmt.Errorf("a good graph was not stamped")
	}
	if err := api.Create(ctx, bad(namespace, "wrong"), client.DryRunAll); !mention(err, graphWebhook) {
		return fmt.Errorf("a bad graph: %w", err)
	}
	return nil
}

func (p *pressure) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judged++
	if err != nil {
		p.failures = append(p.failures, err.Error())
	}
}

// release ends the stream and fails the test for every write that was not judged.
func (p *pressure) release() {
	p.t.Helper()
	p.cancel()
	p.done.Wait()
	if p.released {
		return
	}
	p.released = true
	for _, failure := range p.failures {
		p.t.Error(failure)
	}
	p.t.Logf("%d pairs of writes were judged, %d failed", p.judged, len(p.failures))
}
