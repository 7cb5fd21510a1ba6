// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	grovecommon "github.com/ai-dynamo/grove/operator/api/common"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/admission"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/internal/render/workload/grove"
	"github.com/dynamo-operator/dynamo-operator/internal/rollout"
)

// queueKind is where KAI keeps its queues.
var queueKind = schema.GroupVersionKind{Group: "scheduling.run.ai", Version: "v2", Kind: "Queue"}

// place reads what a plan of the graph depends on.
func (r *Reconciler) place(ctx context.Context, g *v1alpha1.DynamoGraphDeployment, seen Seen, restart rollout.Restart) (Place, error) {
	p := Place{Graph: input.Graph{Settings: r.Current(), OnGrove: seen.OnGrove, Live: seen.CliqueSet, Restarts: restart.Tokens}}
	var err error
	if p.MissingClaims, err = r.missingClaims(ctx, g); err != nil {
		return p, err
	}
	if p.Replicas, err = r.adapted(ctx, g); err != nil {
		return p, err
	}
	if render.GraphUsesMPI(g, p.Graph) {
		p.Settings.SSHKey, p.KeyProblem = r.Keys.Pair(ctx)
	}
	if !p.OnGrove || !p.Settings.Serves.Grove {
		return p, nil
	}
	if p.MissingQueue, p.UnreadQueue, err = r.lookForQueue(ctx, g, p.Graph); err != nil {
		return p, err
	}
	p.Worlds, err = r.worlds(ctx, g, seen)
	return p, err
}

// adapted returns the numbers that adapters hold for services of the graph.
func (r *Reconciler) adapted(ctx context.Context, g *v1alpha1.DynamoGraphDeployment) (map[string]int32, error) {
	adapters, err := observe.AdaptersOf(ctx, r.Cache, client.ObjectKeyFromObject(g))
	if err != nil {
		return nil, err
	}
	numbers := map[string]int32{}
	for service := range g.Spec.Services {
		if holder := observe.Holder(g, service, adapters); holder != nil && len(admission.ScalingAdapter(holder)) == 0 {
			numbers[service] = holder.Spec.Replicas
		}
	}
	return numbers, nil
}

// worlds are the surroundings that the services of a graph on Grove are rendered in: those their pods were rendered in
// as long as they serve, those of today otherwise.
func (r *Reconciler) worlds(ctx context.Context, g *v1alpha1.DynamoGraphDeployment, seen Seen) (map[string]input.World, error) {
	worlds := map[string]input.World{}
	had := map[string]input.World{}
	if seen.CliqueSet != nil {
		had = grove.Worlds(seen.CliqueSet)
	}
	for service := range g.Spec.Services {
		if seen.CliqueSet != nil && seen.Services[service].Serves {
			worlds[service] = had[service]
			continue
		}
		world, err := r.Surroundings.OfService(ctx, g, service)
		if err != nil {
			return nil, err
		}
		worlds[service] = world
	}
	return worlds, nil
}

// lookForQueue returns the queue that KAI would not find, or the one that the operator may not look for; both are empty if it is
// there or not needed.
func (r *Reconciler) lookForQueue(ctx context.Context, g *v1alpha1.DynamoGraphDeployment, in input.Graph) (missing, unread string, err error) {
	queue := render.Queue(g, in.Settings.Serves)
	if queue == "" || (in.Live != nil && !slices.Contains(schedulers(in), names.KAIScheduler)) {
		return "", "", nil
	}
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(queueKind)
	err = r.Queues.Get(ctx, client.ObjectKey{Name: queue}, found)
	if apierrors.IsNotFound(err) {
		return queue, "", nil
	}
	if apierrors.IsForbidden(err) {
		r.unread.Do(func() {
			logf.FromContext(ctx).Info("KAI queues are not looked for: the operator may not get queues, which belong to the whole cluster", "queue", queue)
		})
		return "", queue, nil // KAI will look
	}
	if err != nil {
		return "", "", fmt.Errorf("read KAI queue %q: %w", queue, err)
	}
	return "", "", nil
}

// queuePause is how long to wait before a queue that was not there is looked for again by an operator that cannot watch.
const queuePause = 30 * time.Second

// askAgain is when to look again for what no event tells of, 0 for never.
func (p Place) askAgain() time.Duration {
	if p.MissingQueue != "" && !p.Settings.ClusterWide {
		return queuePause
	}
	return 0
}

// schedulers are those under which the pods of a live PodCliqueSet run.
func schedulers(in input.Graph) []string {
	var all []string
	for _, template := range grove.Templates(in.Live) {
		all = append(all, template.Spec.SchedulerName)
	}
	return all
}

// missingClaims returns the claims that the graph expects to find and that are not there.
func (r *Reconciler) missingClaims(ctx context.Context, g *v1alpha1.DynamoGraphDeployment) ([]string, error) {
	var missing []string
	for _, claim := range g.Spec.PVCs {
		if claim.Name == nil || *claim.Name == "" || (claim.Create != nil && *claim.Create) {
			continue
		}
		err := r.Cache.Get(ctx, client.ObjectKey{Namespace: g.Namespace, Name: *claim.Name}, &corev1.PersistentVolumeClaim{})
		if apierrors.IsNotFound(err) {
			missing = append(missing, *claim.Name)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read claim %q: %w", *claim.Name, err)
		}
	}
	return missing, nil
}

// WaitingFor returns the graphs of a namespace that name a claim, to be woken when it comes or goes.
func WaitingFor(graphs []v1alpha1.DynamoGraphDeployment, claim string) []reconcile.Request {
	return requests(graphs, func(g *v1alpha1.DynamoGraphDeployment) bool {
		return slices.ContainsFunc(g.Spec.PVCs, func(p v1alpha1.PVC) bool { return p.Name != nil && *p.Name == claim })
	})
}

// WaitingForQueue returns the graphs whose pods would wait in a queue.
func WaitingForQueue(graphs []v1alpha1.DynamoGraphDeployment, queue string) []reconcile.Request {
	return requests(graphs, func(g *v1alpha1.DynamoGraphDeployment) bool {
		return render.Queue(g, input.Capabilities{KAI: true}) == queue &&
			!strings.EqualFold(g.Annotations[names.AnnotationEnableGrove], names.False)
	})
}

// WaitingForSecrets returns the graphs that a new registry secret may help: those on Grove that do not run yet. Others
// leave it to their components.
func WaitingForSecrets(graphs []v1alpha1.DynamoGraphDeployment) []reconcile.Request {
	return requests(graphs, func(g *v1alpha1.DynamoGraphDeployment) bool {
		return ranOnGrove(g) && g.Status.State != v1alpha1.GraphStateSuccessful
	})
}

// OfSeveralNodes returns the graphs in which replicas of some service span several nodes.
func OfSeveralNodes(graphs []v1alpha1.DynamoGraphDeployment) []reconcile.Request {
	return requests(graphs, (*v1alpha1.DynamoGraphDeployment).HasAnyMultinodeService)
}

func requests(graphs []v1alpha1.DynamoGraphDeployment, concerns func(*v1alpha1.DynamoGraphDeployment) bool) []reconcile.Request {
	var all []reconcile.Request
	for i := range graphs {
		if concerns(&graphs[i]) {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&graphs[i])})
		}
	}
	return all
}

// OfPod returns the graph that a pod on Grove belongs to. Other pods are their component's concern.
func OfPod(pod client.Object) []reconcile.Request {
	graph := pod.GetLabels()[names.LabelGraph]
	if graph == "" || pod.GetLabels()[grovecommon.LabelPodClique] == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: pod.GetNamespace(), Name: graph}}}
}
