// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

type badGraph struct {
	change func(*v1alpha1.DynamoGraphDeployment)
	want   string // the field that is named
}

// badGraphs are changes that make a good graph one that cannot be rendered.
var badGraphs = map[string]badGraph{
	"no image": {
		func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].ExtraPodSpec = nil },
		"spec.services[Decode].extraPodSpec.mainContainer.image",
	},
	"unparsable quantity": {
		func(g *v1alpha1.DynamoGraphDeployment) {
			g.Spec.Services["Decode"].Resources = &v1alpha1.Resources{Limits: &v1alpha1.ResourceItem{CPU: "many"}}
		},
		"spec.services[Decode].resources.limits.cpu",
	},
	"mount without a place": {
		func(g *v1alpha1.DynamoGraphDeployment) {
			g.Spec.Services["Decode"].VolumeMounts = []v1alpha1.VolumeMount{{Name: "cache"}}
		},
		"spec.services[Decode].volumeMounts[0].mountPoint",
	},
	"conflicting back ends": {
		func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.BackendFramework = v1alpha1.BackendFrameworkSGLang },
		"backend framework mismatch",
	},
	"name too long": {
		func(g *v1alpha1.DynamoGraphDeployment) {
			g.Spec.Services[strings.Repeat("x", 60)] = g.Spec.Services["Decode"]
		},
		"spec.services[" + strings.Repeat("x", 60) + "]",
	},
	"names that differ in case only": {
		func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["decode"] = g.Spec.Services["Decode"] },
		`it and service "Decode" would both have a Service`,
	},
	"bad deployment config": {
		func(g *v1alpha1.DynamoGraphDeployment) {
			g.Spec.Envs = []corev1.EnvVar{{Name: v1alpha1.DeploymentConfigEnv, Value: "{"}}
		},
		"DYN_DEPLOYMENT_CONFIG",
	},
	"several nodes without anything that could run them": {
		func(g *v1alpha1.DynamoGraphDeployment) {
			g.Spec.Services["Decode"].Multinode = &v1alpha1.MultinodeSpec{NodeCount: 2}
		},
		"spec.services[Decode].multinode: Forbidden: no multinode orchestrator available",
	},
	"an endpoint picker without a configuration": {
		func(g *v1alpha1.DynamoGraphDeployment) {
			g.Spec.Services["Epp"] = &v1alpha1.DynamoComponentDeploymentSharedSpec{ComponentType: v1alpha1.ComponentTypeEPP}
		},
		"spec.services[Epp].eppConfig",
	},
	"no service at all": {
		func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services = nil },
		"spec.services: Required",
	},
}

func TestAGraphThatCannotBeRenderedSaysWhyAndMakesNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range badGraphs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := harness.Namespace(t)
			harness.SimulateDeployments(t, ns)
			harness.StartOperator(t, ns)
			bad := builders.TwoComponents(ns, "bad").Obj()
			tc.change(bad)
			create(t, bad)
			create(t, builders.TwoComponents(ns, "good").Obj())

			condition := awaitReason(t, ns, "bad", conditions.ValidationFailed)
			if !strings.Contains(condition.Message, tc.want) {
				t.Errorf("message %q does not name %q", condition.Message, tc.want)
			}
			harness.AwaitReady(t, ns, "good") // another graph is not held up
			awaitEvent(t, ns, "bad", conditions.ValidationFailed)
			var components v1alpha1.DynamoComponentDeploymentList
			list(t, ns, &components)
			for _, c := range components.Items {
				if strings.HasPrefix(c.Name, "bad-") {
					t.Errorf("component %s was made for a graph that cannot be rendered", c.Name)
				}
			}
		})
	}
}

func TestABadChangeLeavesWhatRunsAloneAndKeepsItsCounts(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	harness.StartOperator(t, ns)
	create(t, builders.TwoComponents(ns, "chat").Obj())
	before := harness.AwaitReady(t, ns, "chat")

	change(t, ns, "chat", func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].ExtraPodSpec = nil })
	awaitReason(t, ns, "chat", conditions.ValidationFailed)
	after := get(t, ns, "chat")
	if after.Status.State != v1alpha1.GraphStateFailed || len(after.Status.Services) != len(before.Status.Services) {
		t.Errorf("state %q with %d services, want failed with %d", after.Status.State, len(after.Status.Services), len(before.Status.Services))
	}
	var d v1alpha1.DynamoComponentDeployment
	read(t, ns, "chat-decode", &d)
	if d.Generation != 1 {
		t.Errorf("component was changed %d times for a spec that cannot be rendered", d.Generation-1)
	}
}

func TestWhatTheAPIServerRefusesIsShownOnComponentAndGraph(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	harness.StartOperator(t, ns)
	g := builders.TwoComponents(ns, "chat").Obj()
	// The CRD has no say about labels of nodes; the API server has, when the Deployment arrives.
	g.Spec.Services["Decode"].ExtraPodSpec.PodSpec = &corev1.PodSpec{NodeSelector: map[string]string{"Not A Label": "x"}}
	create(t, g)
	condition := awaitMessage(t, ns, "chat", "Not A Label")
	if condition.Status != metav1.ConditionFalse || !strings.Contains(condition.Message, "chat-decode") {
		t.Errorf("condition %v does not name the component", condition)
	}
	// A refused workload keeps nothing else from being made.
	var s corev1.Service
	read(t, ns, "chat-decode", &s)
}

func create(t *testing.T, obj client.Object) {
	t.Helper()
	if err := harness.Client(t).Create(t.Context(), obj); err != nil {
		t.Fatalf("create %s: %v", obj.GetName(), err)
	}
}

func change(t *testing.T, ns, name string, edit func(*v1alpha1.DynamoGraphDeployment)) {
	t.Helper()
	harness.Change(t, client.ObjectKey{Namespace: ns, Name: name}, edit)
}

func get(t *testing.T, ns, name string) *v1alpha1.DynamoGraphDeployment {
	t.Helper()
	g := &v1alpha1.DynamoGraphDeployment{}
	read(t, ns, name, g)
	return g
}

func read(t *testing.T, ns, name string, into client.Object) {
	t.Helper()
	if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, into); err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
}

func list(t *testing.T, ns string, into client.ObjectList) {
	t.Helper()
	if err := harness.Client(t).List(t.Context(), into, client.InNamespace(ns)); err != nil {
		t.Fatalf("list %T: %v", into, err)
	}
}

const patience = 30 * time.Second

func awaitReason(t *testing.T, ns, name, reason string) metav1.Condition {
	t.Helper()
	return awaitCondition(t, ns, name, reason, func(c metav1.Condition) bool { return c.Reason == reason })
}

func awaitMessage(t *testing.T, ns, name, text string) metav1.Condition {
	t.Helper()
	return awaitCondition(t, ns, name, text, func(c metav1.Condition) bool { return strings.Contains(c.Message, text) })
}

// awaitCondition waits until the Ready condition of a graph, in its latest generation, is as asked.
func awaitCondition(t *testing.T, ns, name, what string, is func(metav1.Condition) bool) metav1.Condition {
	t.Helper()
	var found metav1.Condition
	harness.Eventually(t, patience, "graph "+name+" says "+what, func() (bool, string) {
		g := get(t, ns, name)
		c := conditions.Find(g.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.ObservedGeneration != g.Generation {
			return false, "no condition of this generation"
		}
		found = *c
		return is(found), c.Reason + ": " + c.Message
	})
	return found
}

func awaitEvent(t *testing.T, ns, name, reason string) {
	t.Helper()
	harness.Eventually(t, patience, "event "+reason+" on "+name, func() (bool, string) {
		var events eventsv1.EventList
		list(t, ns, &events)
		for _, e := range events.Items {
			if e.Regarding.Name == name && e.Reason == reason {
				return true, ""
			}
		}
		return false, "not among the events"
	})
}
