// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"

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

// press sends writes that all have to be judged and stamped, so many per second, until it is stopped. They are dry runs, which
// webhooks see like others.
func press(s *site, perSecond int) *harness.Load {
	s.t.Helper()
	api := harness.Client(s.t)
	return harness.StartLoad(s.t, perSecond, func(ctx context.Context) error { return one(ctx, api, s.namespace) })
}

// few are enough answers to see that nothing was lost.
const few = 10

// one sends a graph that has to be stamped and one that has to be refused.
func one(ctx context.Context, api client.Client, namespace string) error {
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
