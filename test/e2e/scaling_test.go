// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func withAdapter(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	s.ScalingAdapter = &v1alpha1.ScalingAdapter{Enabled: true}
}

// scalable is a graph whose worker is scaled by an adapter.
func scalable(ns string, replicas int32) *v1alpha1.DynamoGraphDeployment {
	return builders.TwoComponents(ns, "chat").Change("Decode", withAdapter, builders.Replicas(replicas)).Obj()
}

func adapterFor(ns, name, graph, service string, replicas int32) *v1alpha1.DynamoGraphDeploymentScalingAdapter {
	return &v1alpha1.DynamoGraphDeploymentScalingAdapter{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: v1alpha1.DynamoGraphDeploymentScalingAdapterSpec{
			Replicas: replicas, DGDRef: v1alpha1.DynamoGraphDeploymentServiceRef{Name: graph, ServiceName: service},
		},
	}
}

func adapter(t *testing.T, ns, name string) *v1alpha1.DynamoGraphDeploymentScalingAdapter {
	t.Helper()
	a := &v1alpha1.DynamoGraphDeploymentScalingAdapter{}
	read(t, ns, name, a)
	return a
}

// awaitAdapter waits until the Ready condition of an adapter, in its latest generation, has a reason.
func awaitAdapter(t *testing.T, ns, name, reason string) (*v1alpha1.DynamoGraphDeploymentScalingAdapter, metav1.Condition) {
	t.Helper()
	a := &v1alpha1.DynamoGraphDeploymentScalingAdapter{}
	var found metav1.Condition
	harness.Eventually(t, patience, "adapter "+name+" says "+reason, func() (bool, string) {
		if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, a); err != nil {
			return false, err.Error()
		}
		c := conditions.Find(a.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || a.Status.ObservedGeneration != a.Generation {
			return false, "no condition of this generation"
		}
		found = *c
		return c.Reason == reason, c.Reason + ": " + c.Message
	})
	return a, found
}

func kubectlScale(t *testing.T, ns, name string, replicas int32) {
	t.Helper()
	if _, problem, err := harness.Kubectl(t, "scale", "--namespace", ns, "dgdsa/"+name, fmt.Sprintf("--replicas=%d", replicas)); err != nil {
		t.Fatalf("kubectl scale: %v: %s", err, problem)
	}
}

// numbers are the replicas that an adapter, its graph, its component and its Deployment want.
func numbers(t *testing.T, ns string) [4]int32 {
	t.Helper()
	var component v1alpha1.DynamoComponentDeployment
	var deployment appsv1.Deployment
	read(t, ns, "chat-decode", &component)
	read(t, ns, "chat-decode", &deployment)
	const none = -1 // as in a graph whose user has just taken its number out
	return [4]int32{
		adapter(t, ns, "chat-decode").Spec.Replicas, ptr.Deref(get(t, ns, "chat").Spec.Services["Decode"].Replicas, none),
		ptr.Deref(component.Spec.Replicas, none), ptr.Deref(deployment.Spec.Replicas, none),
	}
}

// awaitNumbers waits until everybody wants the same, and the adapter shows that it is there.
func awaitNumbers(t *testing.T, ns string, want int32) {
	t.Helper()
	harness.Eventually(t, patience, fmt.Sprintf("%d replicas everywhere", want), func() (bool, string) {
		got, seen := numbers(t, ns), adapter(t, ns, "chat-decode").Status.Replicas
		return got == [4]int32{want, want, want, want} && seen == want, fmt.Sprintf("wanted by adapter, graph, component and Deployment: %v; seen: %d", got, seen)
	})
}

// startScalable starts an operator and a graph whose worker is scaled by an adapter, and waits for both.
func startScalable(t *testing.T, replicas int32) (string, *harness.Operator) {
	t.Helper()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	operator := harness.StartOperator(t, ns)
	create(t, scalable(ns, replicas))
	harness.AwaitReady(t, ns, "chat")
	awaitAdapter(t, ns, "chat-decode", conditions.Scaled)
	return ns, operator
}

func TestScalingAnAdapterScalesItsService(t *testing.T) {
	t.Parallel()
	ns, _ := startScalable(t, 2)
	made := adapter(t, ns, "chat-decode")
	if !metav1.IsControlledBy(made, get(t, ns, "chat")) || made.Labels[names.LabelGraph] != "chat" || made.Labels[names.LabelComponent] != "Decode" {
		t.Errorf("the adapter has owners %v and labels %v", made.OwnerReferences, made.Labels)
	}
	if made.Status.LastScaleTime != nil {
		t.Errorf("the adapter says that it scaled at %s, before anybody asked it to", made.Status.LastScaleTime)
	}
	awaitNumbers(t, ns, 2)

	for _, replicas := range []int32{3, 0, 2} {
		kubectlScale(t, ns, "chat-decode", replicas)
		awaitNumbers(t, ns, replicas)
		harness.AwaitReady(t, ns, "chat")
	}
	awaitEvent(t, ns, "chat-decode", conditions.Scaled)
	after, _ := awaitAdapter(t, ns, "chat-decode", conditions.Scaled)
	const selector = names.LabelGraph + "=chat," + names.LabelComponent + "=Decode"
	if after.Status.LastScaleTime == nil || after.Status.Selector != selector {
		t.Errorf("status %+v, want a time and selector %s", after.Status, selector)
	}
	managers := get(t, ns, "chat").ManagedFields
	if !slices.ContainsFunc(managers, func(m metav1.ManagedFieldsEntry) bool { return m.Manager == names.FieldManagerScaling }) {
		t.Errorf("nobody can tell from the graph who set its number: %v", managers)
	}
	if _, problem, err := harness.Kubectl(t, "scale", "--namespace", ns, "dgdsa/chat-decode", "--replicas=-1"); err == nil {
		t.Errorf("a negative number was accepted")
	} else if !strings.Contains(problem, "replicas") {
		t.Errorf("a negative number is refused with %q", problem)
	}
}

func TestTheNumberOfAnAdapterWinsOverAnEditOfItsGraph(t *testing.T) {
	t.Parallel()
	ns, _ := startScalable(t, 2)
	change(t, ns, "chat", func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].Replicas = new(int32(7)) })
	awaitNumbers(t, ns, 2)
	// What no adapter owns is the user's.
	change(t, ns, "chat", func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Decode"].Replicas, g.Spec.Services["Frontend"].Replicas = nil, new(int32(3))
	})
	awaitNumbers(t, ns, 2)
	if got := *get(t, ns, "chat").Spec.Services["Frontend"].Replicas; got != 3 {
		t.Errorf("the frontend has %d replicas now, want 3 as its user wrote", got)
	}
}

func TestAWriteOfAnAutoscalerSurvivesARestartOfTheOperator(t *testing.T) {
	t.Parallel()
	ns, operator := startScalable(t, 1)
	operator.Stop()
	kubectlScale(t, ns, "chat-decode", 4)
	// The graph has something to do at the start of the next operator, which is when a number could get lost.
	change(t, ns, "chat", func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Decode"].ExtraPodSpec.MainContainer.Image = "registry.example.com/dynamo:2"
	})
	written := adapter(t, ns, "chat-decode").Generation
	harness.StartOperator(t, ns)
	awaitNumbers(t, ns, 4)
	if now := adapter(t, ns, "chat-decode").Generation; now != written {
		t.Errorf("the spec of the adapter was written %d times by the operator", now-written)
	}
}

func TestAnAdapterThatIsGivenUpLeavesItsLastNumber(t *testing.T) {
	t.Parallel()
	ns, _ := startScalable(t, 1)
	kubectlScale(t, ns, "chat-decode", 3)
	awaitNumbers(t, ns, 3)
	change(t, ns, "chat", func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].ScalingAdapter = nil })
	awaitGone(t, ns, "chat-decode")
	harness.AwaitReady(t, ns, "chat")
	if got := *get(t, ns, "chat").Spec.Services["Decode"].Replicas; got != 3 {
		t.Errorf("the graph wants %d replicas after its adapter went, want the last number", got)
	}
	change(t, ns, "chat", func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].Replicas = new(int32(2)) })
	harness.AwaitReady(t, ns, "chat")
	if got := *get(t, ns, "chat").Spec.Services["Decode"].Replicas; got != 2 {
		t.Errorf("the graph wants %d replicas, want the 2 of its user", got)
	}
}

func awaitGone(t *testing.T, ns, name string) {
	t.Helper()
	harness.Eventually(t, patience, "adapter "+name+" is gone", func() (bool, string) {
		err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, &v1alpha1.DynamoGraphDeploymentScalingAdapter{})
		return apierrors.IsNotFound(err), "still there"
	})
}

func TestAnAdapterThatScalesNothingSaysWhyUntilItCan(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	harness.StartOperator(t, ns)
	create(t, adapterFor(ns, "early", "chat", "Decode", 2))
	create(t, adapterFor(ns, "typo", "chat", "decode", 5))
	if _, c := awaitAdapter(t, ns, "early", conditions.GraphNotFound); !strings.Contains(c.Message, `"chat"`) {
		t.Errorf("message %q does not name the graph", c.Message)
	}
	awaitEvent(t, ns, "early", conditions.UpdateFailed)

	create(t, builders.TwoComponents(ns, "chat").Obj())
	awaitAdapter(t, ns, "early", conditions.Scaled)
	a, c := awaitAdapter(t, ns, "typo", conditions.ServiceNotFound)
	if !strings.Contains(c.Message, `"decode"`) || !strings.Contains(c.Message, "Decode, Frontend") || a.Status.Selector != "" {
		t.Errorf("selector %q and message %q, which should name what was asked for and what is there", a.Status.Selector, c.Message)
	}

	create(t, adapterFor(ns, "late", "chat", "Decode", 9))
	a, c = awaitAdapter(t, ns, "late", conditions.HasOtherAdapter)
	if !strings.Contains(c.Message, `"early"`) || a.Status.Selector != "" {
		t.Errorf("selector %q and message %q, which should name the adapter that has the service", a.Status.Selector, c.Message)
	}
	if g := harness.AwaitReady(t, ns, "chat"); *g.Spec.Services["Decode"].Replicas != 2 {
		t.Errorf("the graph wants %d replicas, want those of the adapter that was first", *g.Spec.Services["Decode"].Replicas)
	}
	if err := harness.Client(t).Delete(t.Context(), adapterFor(ns, "early", "", "", 0)); err != nil {
		t.Fatal(err)
	}
	awaitAdapter(t, ns, "late", conditions.Scaled)
	if got := *get(t, ns, "chat").Spec.Services["Decode"].Replicas; got != 9 {
		t.Errorf("the graph wants %d replicas, want those of the adapter that is left", got)
	}
}

// The API server here collects no garbage, so that what is about to be collected stays in sight.
func TestAnAdapterOfADeletedGraphDoesNotScaleItsSuccessor(t *testing.T) {
	t.Parallel()
	ns, _ := startScalable(t, 1)
	kubectlScale(t, ns, "chat-decode", 5)
	awaitNumbers(t, ns, 5)
	leftover := adapter(t, ns, "chat-decode")
	if err := harness.Client(t).Delete(t.Context(), get(t, ns, "chat")); err != nil {
		t.Fatal(err)
	}
	next := scalable(ns, 2)
	create(t, next)
	harness.Eventually(t, patience, "the new graph was looked at", func() (bool, string) {
		return len(get(t, ns, "chat").Status.Conditions) > 0, "no condition"
	})
	// Had the leftover scaled it, its own adapter would now start with 5.
	if err := harness.Client(t).Delete(t.Context(), leftover); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, patience, "the new graph has an adapter of its own", func() (bool, string) {
		a := &v1alpha1.DynamoGraphDeploymentScalingAdapter{}
		err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(leftover), a)
		return err == nil && metav1.IsControlledBy(a, next) && a.Spec.Replicas == 2, fmt.Sprint(err, a.Spec.Replicas)
	})
}

// as returns a client that acts as somebody.
func as(t *testing.T, user string, groups ...string) client.Client {
	t.Helper()
	config := rest.CopyConfig(harness.RESTConfig(t, localcluster.UserAdmin))
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	api, err := client.New(config, client.Options{Scheme: harness.Scheme(t)})
	if err != nil {
		t.Fatalf("make a client of %s: %v", user, err)
	}
	return api
}

func TestAPlannerMayScaleAndStrangersMayNot(t *testing.T) {
	t.Parallel()
	ns, _ := startScalable(t, 1)
	create(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: names.Binding(names.PlannerAccount)},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: names.PlannerAccount}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "dynamo-operator-planner"},
	})
	scale := func(api client.Client, replicas int) error {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
		return api.SubResource("scale").Patch(t.Context(), adapter(t, ns, "chat-decode"), patch)
	}
	planner := as(t, "system:serviceaccount:"+ns+":"+names.PlannerAccount, "system:serviceaccounts", "system:serviceaccounts:"+ns)
	harness.Eventually(t, patience, "the API server knows the rights of the planner", func() (bool, string) {
		err := scale(planner, 3)
		return err == nil, fmt.Sprint(err)
	})
	awaitNumbers(t, ns, 3)
	if err := scale(as(t, "somebody"), 9); !apierrors.IsForbidden(err) {
		t.Errorf("somebody without rights gets %v", err)
	}
	awaitNumbers(t, ns, 3)
}

func TestANumberForAGraphThatMovedOnIsNotWritten(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	owner := adapterFor(ns, "any", "chat", "Decode", 3)
	applier := apply.NewApplier(harness.Client(t), harness.Client(t), harness.Scheme(t), recent.NewStore(clock.RealClock{}), clock.RealClock{})
	create(t, builders.TwoComponents(ns, "chat").Obj())
	old := get(t, ns, "chat")
	change(t, ns, "chat", func(g *v1alpha1.DynamoGraphDeployment) { delete(g.Spec.Services, "Decode") })
	refused := func(what string) {
		t.Helper()
		if r := applier.Replicas(t.Context(), owner, old, "Decode", 3); r.Wake == 0 || len(r.Live) > 0 || len(r.Failures) > 0 {
			t.Errorf("%s: live %v, failures %v, another look after %s", what, r.Live, r.Failures, r.Wake)
		}
	}
	refused("a service that was taken out")
	if now := get(t, ns, "chat"); now.Spec.Services["Decode"] != nil {
		t.Errorf("the service is back: %v", now.Spec.Services["Decode"])
	}
	if err := harness.Client(t).Delete(t.Context(), get(t, ns, "chat")); err != nil {
		t.Fatal(err)
	}
	refused("a deleted graph")
	create(t, builders.TwoComponents(ns, "chat").Obj())
	refused("a graph that was made again")
	if now := get(t, ns, "chat"); *now.Spec.Services["Decode"].Replicas != 1 {
		t.Errorf("the new graph wants %d replicas", *now.Spec.Services["Decode"].Replicas)
	}
}
