// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/faults"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	// patience covers a garbage collector that hears of new kinds every half minute, on a loaded machine.
	patience = 3 * time.Minute

	// still is how long nothing may move before a world counts as at rest. Progress of status is held back for a second.
	still = 1500 * time.Millisecond

	// pace is how often a world is looked at. Looking means to list everything.
	pace = 250 * time.Millisecond
)

// scene is where a story happens: a namespace, and the operator that works there.
type scene struct {
	*testing.T
	ns    string
	world *faults.World
	*writes
}

func newScene(t *testing.T, ns string, w *writes) scene {
	t.Helper()
	world, err := faults.NewWorld(harness.RESTConfig(t, localcluster.UserAdmin))
	if err != nil {
		t.Fatal(err)
	}
	collector.Do(func() { awaitCollector(t) })
	return scene{T: t, ns: ns, world: world, writes: w}
}

// collector makes the first story wait for Kubernetes' garbage collector.
var collector sync.Once

// awaitCollector returns when the garbage collector knows every kind that graphs are made of. It hears of CRDs only from time
// to time, and while it knows some of them and not all, it forgets children of orphaned graphs and deletes them later.
func awaitCollector(t *testing.T) {
	t.Helper()
	ns, api := harness.Namespace(t), harness.Client(t)
	owner := builders.TwoComponents(ns, "first").Obj()
	if err := api.Create(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	child := metav1.ObjectMeta{Namespace: ns, Name: "first", OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(owner, v1alpha1.GroupVersion.WithKind(v1alpha1.KindDynamoGraphDeployment)),
	}}
	children := []client.Object{
		&v1alpha1.DynamoComponentDeployment{ObjectMeta: child},
		&v1alpha1.DynamoGraphDeploymentScalingAdapter{ObjectMeta: child, Spec: v1alpha1.DynamoGraphDeploymentScalingAdapterSpec{
			DGDRef: v1alpha1.DynamoGraphDeploymentServiceRef{Name: "first", ServiceName: "Decode"},
		}},
		&lwsv1.LeaderWorkerSet{ObjectMeta: child, Spec: lwsv1.LeaderWorkerSetSpec{
			RolloutStrategy: lwsv1.RolloutStrategy{Type: lwsv1.RollingUpdateStrategyType}, StartupPolicy: lwsv1.LeaderCreatedStartupPolicy,
			LeaderWorkerTemplate: lwsv1.LeaderWorkerTemplate{
				WorkerTemplate: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}},
			},
		}},
	}
	for _, c := range children {
		if err := api.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := api.Delete(t.Context(), owner, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	for _, c := range append(children, owner) {
		harness.Eventually(t, patience, fmt.Sprintf("the collector knows %T", c), func() (bool, string) {
			return apierrors.IsNotFound(api.Get(t.Context(), client.ObjectKeyFromObject(c), c)), "not yet"
		})
	}
}

// bareNamespace is what a namespace has that nobody has done anything with, besides the rights of an operator restricted to it.
var bareNamespace = map[string]bool{"configmaps/kube-root-ca.crt": true, "serviceaccounts/default": true}

// read returns the versions of everything that somebody put into the namespace.
func (s scene) read() faults.Versions {
	s.Helper()
	_, versions, err := s.world.Read(s.Context(), s.ns)
	if err != nil {
		s.Fatal(err)
	}
	maps.DeleteFunc(versions, func(key, _ string) bool { return bareNamespace[key] || strings.Contains(key, "/test-operator") })
	return versions
}

// watch looks at the namespace from time to time until cond agrees.
func (s scene) watch(what string, cond func(faults.Versions) (bool, string)) {
	s.Helper()
	deadline, ticker := time.After(patience), time.NewTicker(pace)
	defer ticker.Stop()
	for {
		done, why := cond(s.read())
		if done {
			return
		}
		select {
		case <-deadline:
			s.Fatalf("%s did not happen within %s: %s", what, patience, why)
		case <-ticker.C:
		}
	}
}

// settle waits until objects are there and nothing moves any more.
func (s scene) settle(objects ...string) {
	s.Helper()
	var last faults.Versions
	since := time.Now()
	s.watch(fmt.Sprintf("rest with %v", objects), func(now faults.Versions) (bool, string) {
		for _, object := range objects {
			if now[object] == "" {
				return false, object + " is missing"
			}
		}
		if moved := cmp.Diff(last, now); moved != "" {
			last, since = now, time.Now()
			return false, moved
		}
		return time.Since(since) > still, "waiting"
	})
}

// ends waits until nothing is left but the given objects, and demands that it stays so and the operator writes nothing more.
func (s scene) ends(left ...string) {
	s.Helper()
	s.watch(fmt.Sprintf("an end with %v", left), func(now faults.Versions) (bool, string) {
		diff := cmp.Diff(left, slices.Sorted(maps.Keys(now)))
		return diff == "", diff
	})
	mark, since := s.mark(), time.Now()
	s.watch("peace", func(now faults.Versions) (bool, string) {
		if diff := cmp.Diff(left, slices.Sorted(maps.Keys(now))); diff != "" {
			s.Errorf("after the end (-left +there):\n%s", diff)
		}
		return time.Since(since) > still || s.Failed(), "waiting"
	})
	if after := s.since(mark, s.ns); len(after) > 0 {
		s.Errorf("the operator wrote after the end: %v", after)
	}
}

// wroteNothing demands that the operator has not changed anything since a mark.
func (s scene) wroteNothing(mark int) {
	s.Helper()
	if got := s.since(mark, s.ns); len(got) > 0 {
		s.Errorf("the operator wrote: %v", got)
	}
}

func (s scene) create(obj client.Object) {
	s.Helper()
	if err := harness.Client(s).Create(s.Context(), obj); err != nil {
		s.Fatalf("create %s: %v", obj.GetName(), err)
	}
}

// get reads an object into one that has its name alone.
func (s scene) get(name string, into client.Object) {
	s.Helper()
	if err := harness.Client(s).Get(s.Context(), client.ObjectKey{Namespace: s.ns, Name: name}, into); err != nil {
		s.Fatalf("read %s: %v", name, err)
	}
}

// remove deletes an object by a policy, as kubectl delete --cascade does.
func (s scene) remove(name string, kind client.Object, policy metav1.DeletionPropagation) {
	s.Helper()
	kind.SetNamespace(s.ns)
	kind.SetName(name)
	if err := harness.Client(s).Delete(s.Context(), kind, client.PropagationPolicy(policy)); err != nil {
		s.Fatalf("delete %s: %v", name, err)
	}
}

func (s scene) awaitGone(name string, kind client.Object) {
	s.Helper()
	harness.Eventually(s, patience, name+" is gone", func() (bool, string) {
		err := harness.Client(s).Get(s.Context(), client.ObjectKey{Namespace: s.ns, Name: name}, kind)
		return apierrors.IsNotFound(err), fmt.Sprint(err, kind.GetFinalizers())
	})
}

// patch changes an object by hand.
func (s scene) patch(name string, kind client.Object, patch string) {
	s.Helper()
	kind.SetNamespace(s.ns)
	kind.SetName(name)
	if err := harness.Client(s).Patch(s.Context(), kind, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		s.Fatalf("patch %s: %v", name, err)
	}
}

// uid is the identity of a child.
func (s scene) uid(name string, kind client.Object) types.UID {
	s.Helper()
	s.get(name, kind)
	return kind.GetUID()
}

// chat is a graph with every kind of child that it can have here: components with what they own, an account of its own, the
// Service of a model, a claim, a scaling adapter.
func (s scene) chat() *builders.GraphBuilder {
	g := builders.TwoComponents(s.ns, "chat").Change("Decode", func(c *v1alpha1.DynamoComponentDeploymentSharedSpec) {
		c.ModelRef = &v1alpha1.ModelReference{Name: "acme/tiny-1b"}
		c.ScalingAdapter = &v1alpha1.ScalingAdapter{Enabled: true}
	})
	g.Obj().Spec.PVCs = []v1alpha1.PVC{{
		Name: new("weights"), Create: new(true), StorageClass: "none", Size: resource.MustParse("1Gi"), VolumeAccessMode: corev1.ReadWriteMany,
	}}
	return g
}

// ofChat are the children of that graph that a user would name. Some more stand behind Deployments.
var ofChat = []string{
	"deployments/chat-decode", "deployments/chat-frontend",
	"dynamocomponentdeployments/chat-decode", "dynamocomponentdeployments/chat-frontend",
	"dynamographdeploymentscalingadapters/chat-decode", "persistentvolumeclaims/weights",
	"rolebindings/" + names.DiscoveryBinding("chat"), "roles/" + names.DiscoveryRole("chat"),
	"serviceaccounts/" + names.DiscoveryAccount("chat"),
	"services/chat-decode", "services/chat-frontend", modelService,
}

// modelService is the Service of the model that chat serves.
var modelService = "services/" + names.ModelService("acme/tiny-1b")

// alone is a component without a graph.
func (s scene) alone() *v1alpha1.DynamoComponentDeployment {
	return &v1alpha1.DynamoComponentDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "solo"},
		Spec: v1alpha1.DynamoComponentDeploymentSpec{
			DynamoComponentDeploymentSharedSpec: *builders.TwoComponents(s.ns, "x").Obj().Spec.Services["Decode"],
		},
	}
}

// ofAlone are its children.
var ofAlone = []string{
	"deployments/solo", "rolebindings/" + names.DiscoveryBinding("solo"), "roles/" + names.DiscoveryRole("solo"),
	"serviceaccounts/" + names.DiscoveryAccount("solo"), "services/solo",
}

// generation is the generation of a Deployment: it moves when something of its spec does.
func (s scene) generation(name string) int64 {
	s.Helper()
	var d appsv1.Deployment
	s.get(name, &d)
	return d.Generation
}

// revision is how often the pods of a Deployment were replaced. Its generation also moves with its annotations.
func (s scene) revision(name string) string {
	s.Helper()
	var d appsv1.Deployment
	s.get(name, &d)
	return d.Annotations["deployment.kubernetes.io/revision"]
}
