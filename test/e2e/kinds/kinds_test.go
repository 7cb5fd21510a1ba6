// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	patience = 30 * time.Second
	model    = "acme/tiny-1b"
)

// graph has a child of every kind that graphs on Deployments and LeaderWorkerSets can have.
func graph(ns string) *v1alpha1.DynamoGraphDeployment {
	return builders.TwoComponents(ns, "chat").Annotation(names.AnnotationEnableGrove, names.False).
		Change("Frontend", published).
		Change("Decode", serving, budgeted, builders.Args("python3 -m dynamo.vllm --model "+model+" --tensor-parallel-size 2")).
		Service("Large", v1alpha1.ComponentTypeWorker, builders.Args("python3 -m dynamo.vllm --model "+model+" --tensor-parallel-size 2"), builders.Nodes(2)).
		Service("Picker", v1alpha1.ComponentTypeEPP, picking).Obj()
}

func published(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	s.Ingress = &v1alpha1.IngressSpec{
		Enabled: true, Host: "chat", IngressControllerClassName: new("nginx"), UseVirtualService: true, VirtualServiceGateway: new("mesh/gateway"),
	}
}

func budgeted(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	s.Annotations = map[string]string{names.AnnotationDisruptionBudget: "1"}
}

func serving(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	s.ModelRef = &v1alpha1.ModelReference{Name: model}
}

func picking(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	s.EPPConfig = &v1alpha1.EPPConfig{Config: &apiextensionsv1.JSON{Raw: []byte(`{"plugins":[{"type":"queue"}],"schedulingProfiles":[]}`)}}
}

// child is an object of a kind, with a change after which nobody wants it, nil where it goes with its owner.
type child struct {
	kind     schema.GroupVersionKind
	name     string
	unwanted func(*v1alpha1.DynamoGraphDeployment)
}

var children = []child{
	{schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, names.EPPConfig("chat"), without("Picker")},
	{schema.GroupVersionKind{Version: "v1", Kind: "Service"}, names.ModelService(model), service("Decode", unserving)},
	{schema.GroupVersionKind{Version: "v1", Kind: "Service"}, "chat-frontend", nil},
	{schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}, names.DiscoveryAccount("chat"), undiscoverable},
	{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, "chat-decode", service("Decode", builders.Nodes(2))},
	{schema.GroupVersionKind{Group: "inference.networking.k8s.io", Version: "v1", Kind: "InferencePool"}, names.Pool("chat"), without("Picker")},
	{schema.GroupVersionKind{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"}, "chat-large-0", service("Large", onOneNode)},
	{schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1beta1", Kind: "VirtualService"}, "chat-frontend", service("Frontend", unpublished)},
	{schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}, "chat-frontend", service("Frontend", unpublished)},
	{schema.GroupVersionKind{Group: "nvidia.com", Version: "v1alpha1", Kind: "DynamoComponentDeployment"}, "chat-picker", without("Picker")},
	{schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}, "chat-decode", service("Decode", unbudgeted)},
	{schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"}, names.DiscoveryRole("chat"), undiscoverable},
	{schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"}, names.DiscoveryBinding("chat"), undiscoverable},
	{schema.GroupVersionKind{Group: "scheduling.volcano.sh", Version: "v1beta1", Kind: "PodGroup"}, "chat-large-0", service("Large", onOneNode)},
}

func without(name string) func(*v1alpha1.DynamoGraphDeployment) {
	return func(g *v1alpha1.DynamoGraphDeployment) { delete(g.Spec.Services, name) }
}

func service(name string, change builders.ServiceOption) func(*v1alpha1.DynamoGraphDeployment) {
	return func(g *v1alpha1.DynamoGraphDeployment) { change(g.Spec.Services[name]) }
}

func unpublished(s *v1alpha1.DynamoComponentDeploymentSharedSpec) { s.Ingress.Enabled = false }

func unbudgeted(s *v1alpha1.DynamoComponentDeploymentSharedSpec) { s.Annotations = nil }

func unserving(s *v1alpha1.DynamoComponentDeploymentSharedSpec) { s.ModelRef = nil }

func onOneNode(s *v1alpha1.DynamoComponentDeploymentSharedSpec) { s.Multinode = nil }

func undiscoverable(g *v1alpha1.DynamoGraphDeployment) {
	g.Annotations[names.AnnotationDiscoveryBackend] = names.DiscoveryEtcd
}

// publishing has an operator publish hosts both ways.
func publishing() harness.OperatorOption {
	return harness.WithFlags("--ingress-controller-class-name=nginx", "--istio-virtual-service-gateway=mesh/gateway")
}

// start runs an operator of a namespace.
func start(t *testing.T) string {
	t.Helper()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	harness.StartOperator(t, ns, publishing())
	return ns
}

func create(t *testing.T, obj client.Object) {
	t.Helper()
	if err := harness.Client(t).Create(t.Context(), obj); err != nil {
		t.Fatalf("create %s: %v", obj.GetName(), err)
	}
}

// await waits for a child that the operator made.
func (c child) await(t *testing.T, ns string) *unstructured.Unstructured {
	t.Helper()
	var live *unstructured.Unstructured
	harness.Eventually(t, patience, c.kind.Kind+" "+c.name, func() (bool, string) {
		var err error
		live, err = c.read(t, ns)
		return err == nil && live.GetLabels()[names.LabelApplied] == names.OperatorName, fmt.Sprintf("%v; the graph says: %s", err, said(t, ns))
	})
	return live
}

// awaitGone waits until the child is no longer there.
func (c child) awaitGone(t *testing.T, ns string) {
	t.Helper()
	harness.Eventually(t, patience, c.name+" is gone", func() (bool, string) {
		live, err := c.read(t, ns)
		return apierrors.IsNotFound(err), fmt.Sprintf("still there, deleted at %s; the graph says: %s", live.GetDeletionTimestamp(), said(t, ns))
	})
}

// goes has the child of a graph go because nobody wants it any longer.
func (c child) goes(t *testing.T, ns string) {
	t.Helper()
	c.await(t, ns)
	if c.unwanted == nil {
		return
	}
	harness.Change(t, client.ObjectKey{Namespace: ns, Name: "chat"}, c.unwanted)
	c.awaitGone(t, ns)
}

// isTaken makes a graph where somebody else has an object of the name of this child.
func (c child) isTaken(t *testing.T, g *v1alpha1.DynamoGraphDeployment, example *unstructured.Unstructured) {
	t.Helper()
	ns := g.Namespace
	theirs := example.DeepCopy()
	theirs.Object["metadata"] = map[string]any{"name": c.name, "namespace": ns, "annotations": map[string]any{"example.com/theirs": "yes"}}
	delete(theirs.Object, "status")
	for _, given := range []string{"clusterIP", "clusterIPs"} { // no two Services have one
		unstructured.RemoveNestedField(theirs.Object, "spec", given)
	}
	create(t, theirs)
	create(t, g)
	harness.Eventually(t, patience, "the graph names it", func() (bool, string) {
		message := said(t, ns)
		return strings.Contains(message, c.kind.Kind+" "+c.name+" exists already"), message
	})
	// The way out works.
	if err := harness.Client(t).Delete(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	c.await(t, ns)
}

func (c child) read(t *testing.T, ns string) (*unstructured.Unstructured, error) {
	t.Helper()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(c.kind)
	return live, harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: c.name}, live)
}

// said is what the graph says of itself.
func said(t *testing.T, ns string) string {
	t.Helper()
	g := &v1alpha1.DynamoGraphDeployment{}
	if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "chat"}, g); err != nil {
		return err.Error()
	}
	c := conditions.Find(g.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return "nothing"
	}
	return c.Message
}

func TestAChildThatNobodyWantsAnyLongerGoes(t *testing.T) {
	t.Parallel()
	for _, c := range children {
		t.Run(c.kind.Kind, func(t *testing.T) {
			t.Parallel()
			ns := start(t)
			create(t, graph(ns))
			c.goes(t, ns)
		})
	}
}

func TestANameThatIsTakenIsReportedForEveryKind(t *testing.T) {
	t.Parallel()
	origin := start(t)
	create(t, graph(origin))
	for _, c := range children {
		if c.name == names.ModelService(model) {
			continue // components share it, whoever made it
		}
		example := c.await(t, origin)
		t.Run(c.kind.Kind, func(t *testing.T) {
			t.Parallel()
			c.isTaken(t, graph(start(t)), example)
		})
	}
}

func TestServicesThatLeftAGraphAreToldOf(t *testing.T) {
	t.Parallel()
	ns := start(t)
	create(t, graph(ns))
	for _, c := range children {
		c.await(t, ns)
	}
	harness.Change(t, client.ObjectKey{Namespace: ns, Name: "chat"}, func(g *v1alpha1.DynamoGraphDeployment) {
		without("Picker")(g)
		without("Large")(g)
	})
	harness.Eventually(t, patience, "an event", func() (bool, string) {
		var events eventsv1.EventList
		if err := harness.Client(t).List(t.Context(), &events, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
		var notes []string
		for _, e := range events.Items {
			notes = append(notes, e.Note)
		}
		all := strings.Join(notes, "\n")
		return strings.Contains(all, "Services Large, Picker are no longer part of the graph"), all
	})
}

// A restricted operator may not read what belongs to the cluster, such as queues. It says so and goes on.
func TestAGraphOnGroveUnderAnOperatorThatMayNotReadQueues(t *testing.T) {
	t.Parallel()
	onGrove := func(ns string) *v1alpha1.DynamoGraphDeployment {
		return builders.TwoComponents(ns, "chat").
			Service("Large", v1alpha1.ComponentTypeWorker, builders.Args("python3 -m dynamo.sglang --tp 2"), builders.Nodes(2)).Obj()
	}
	ns := start(t)
	create(t, onGrove(ns))
	set := child{kind: schema.GroupVersionKind{Group: "grove.io", Version: "v1alpha1", Kind: "PodCliqueSet"}, name: "chat"}
	example := set.await(t, ns)
	harness.Eventually(t, patience, "the graph names the queue", func() (bool, string) {
		message := said(t, ns)
		return strings.Contains(message, `may not read KAI queues: see that there is a queue "dynamo"`), message
	})
	harness.SimulateGrove(t, ns)
	harness.AwaitReady(t, ns, "chat")
	if message := said(t, ns); strings.Contains(message, "queue") {
		t.Errorf("the graph is ready and says %s", message)
	}
	key := client.ObjectKey{Namespace: ns, Name: "chat"}
	harness.Change(t, key, func(g *v1alpha1.DynamoGraphDeployment) {
		for _, name := range []string{"Decode", "Large"} {
			builders.Replicas(2)(g.Spec.Services[name])
		}
	})
	harness.AwaitReady(t, ns, "chat")
	harness.Change(t, key, func(g *v1alpha1.DynamoGraphDeployment) {
		metav1.SetMetaDataAnnotation(&g.ObjectMeta, names.AnnotationEnableGrove, names.False)
	})
	harness.Eventually(t, patience, "the set is deleted", func() (bool, string) {
		live, err := set.read(t, ns)
		return apierrors.IsNotFound(err) || live.GetDeletionTimestamp() != nil, said(t, ns)
	})
	set.isTaken(t, onGrove(start(t)), example)
}
