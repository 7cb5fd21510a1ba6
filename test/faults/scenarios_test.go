// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// scenario is one story. Before happens under an undisturbed operator, During under the one that is interrupted.
type scenario struct {
	before func(t *testing.T, namespace string)
	during func(t *testing.T, namespace string)
	// ended waits until the world is as the story ends.
	ended func(t *testing.T, namespace string)
	// etcd gives the operator an etcd, in which there is a key of component solo.
	etcd bool
	// crew puts workers of the base model into the namespace.
	crew bool
	// upgrade, unless nil, ends the operator before During and starts the next one with these flags after it.
	upgrade []string
	// stuck says that nothing ever becomes ready.
	stuck bool
	// apis are the groups of optional APIs that the operator finds.
	apis []string
	// flags are those of the operator, in which {namespace} stands for the story's.
	flags []string
}

// isOurs tells whether a story is about our own program only: another cannot be told how to reach the workers of a test, and does not
// know our flags.
func (s scenario) isOurs() bool { return s.crew || len(s.flags) > 0 }

// flagsIn are the flags of an operator that the story is told with in a namespace.
func (s scenario) flagsIn(ns string) []string {
	var flags []string
	for _, flag := range s.flags {
		flags = append(flags, strings.ReplaceAll(flag, "{namespace}", ns))
	}
	return flags
}

// scenarios are all stories. A new one is a row here, in orchestratedScenarios, in surroundedScenarios, or in partingScenarios.
var scenarios = func() map[string]scenario {
	all := maps.Clone(plainScenarios)
	maps.Copy(all, orchestratedScenarios)
	maps.Copy(all, surroundedScenarios)
	maps.Copy(all, partingScenarios)
	return all
}()

// plainScenarios are stories of graphs on Deployments.
var plainScenarios = map[string]scenario{
	"create a graph": {
		during: func(t *testing.T, ns string) { create(t, builders.TwoComponents(ns, "chat").Obj()) },
		ended:  ready,
	},
	"change an image": {
		before: createReady,
		during: func(t *testing.T, ns string) {
			change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) {
				g.Spec.Services["Decode"].ExtraPodSpec.MainContainer.Image = "registry.example.com/dynamo:2"
			})
		},
		ended: ready,
	},
	"give every service a variable": {
		before: createReady,
		during: func(t *testing.T, ns string) { change(t, ns, edits["variables of all"]) },
		ended:  ready,
	},
	"scale a service to zero": {
		before: createReady,
		during: func(t *testing.T, ns string) {
			zero := int32(0)
			change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].Replicas = &zero })
		},
		ended: ready,
	},
	"give up discovery through Kubernetes": {
		before: createReady,
		during: func(t *testing.T, ns string) {
			change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) {
				g.Annotations = map[string]string{names.AnnotationDiscoveryBackend: names.DiscoveryEtcd}
			})
		},
		ended: func(t *testing.T, ns string) {
			gone(t, ns, names.DiscoveryAccount("chat"), &corev1.ServiceAccount{})
			ready(t, ns)
		},
	},
	"serve a model in two graphs": {
		before: func(t *testing.T, ns string) {
			create(t, builders.TwoComponents(ns, "other").Change("Decode", servesModel).Obj())
			harness.AwaitReady(t, ns, "other")
		},
		during: func(t *testing.T, ns string) {
			create(t, builders.TwoComponents(ns, "chat").Change("Decode", servesModel).Obj())
		},
		ended: ready,
	},
	"add a service and take one away": {
		before: createReady,
		during: func(t *testing.T, ns string) {
			change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) {
				g.Spec.Services["Prefill"] = g.Spec.Services["Decode"].DeepCopy()
				g.Spec.Services["Prefill"].ComponentType = v1alpha1.ComponentTypePrefill
				delete(g.Spec.Services, "Decode")
			})
		},
		ended: ready,
	},
	"make a claim": {
		during: func(t *testing.T, ns string) {
			g := builders.TwoComponents(ns, "chat").Obj()
			name, yes := "weights", true
			g.Spec.PVCs = []v1alpha1.PVC{{Name: &name, Create: &yes, StorageClass: "fast", Size: resource.MustParse("1Gi"), VolumeAccessMode: corev1.ReadWriteMany}}
			create(t, g)
		},
		ended: ready,
	},
	"scale by adapter": {
		before: createScalable,
		during: func(t *testing.T, ns string) { scale(t, ns, 3) },
		ended:  func(t *testing.T, ns string) { scaled(t, ns, 3) },
	},
	"give an adapter up": {
		before: func(t *testing.T, ns string) {
			createScalable(t, ns)
			scale(t, ns, 3)
			scaled(t, ns, 3)
		},
		during: func(t *testing.T, ns string) {
			change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].ScalingAdapter = nil })
		},
		ended: func(t *testing.T, ns string) {
			gone(t, ns, "chat-decode", &v1alpha1.DynamoGraphDeploymentScalingAdapter{})
			ready(t, ns)
		},
	},
	"restart one service after another": {
		before: createReady,
		during: func(t *testing.T, ns string) {
			change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Restart = &v1alpha1.Restart{ID: "again"} })
		},
		ended: restarted,
	},
	"end a pause": {
		before: func(t *testing.T, ns string) {
			createReady(t, ns)
			change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) {
				metav1.SetMetaDataAnnotation(&g.ObjectMeta, names.AnnotationReconcile, names.Paused)
				g.Spec.Services["Decode"].Replicas = new(int32(2))
			})
		},
		during: func(t *testing.T, ns string) {
			change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) { delete(g.Annotations, names.AnnotationReconcile) })
		},
		ended: ready,
	},
	"retain a claim": {
		before: createWithClaim,
		during: func(t *testing.T, ns string) {
			change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) {
				g.Annotations = map[string]string{names.AnnotationRetainClaims: names.True}
			})
		},
		ended: released,
	},
	"make a component that is found in etcd": {
		during: createSolo,
		ended:  soloReady,
		etcd:   true,
	},
	"delete a component that is found in etcd": {
		before: func(t *testing.T, ns string) {
			createSolo(t, ns)
			soloReady(t, ns)
		},
		during: deleteSolo,
		ended:  func(t *testing.T, ns string) { gone(t, ns, "solo", &v1alpha1.DynamoComponentDeployment{}) },
		etcd:   true,
	},
	"correct a graph that could not be rendered": {
		before: func(t *testing.T, ns string) {
			create(t, builders.TwoComponents(ns, "chat").Change("Decode", builders.WithImage("")).Obj())
			refused(t, ns)
		},
		during: func(t *testing.T, ns string) {
			change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) {
				g.Spec.Services["Decode"].ExtraPodSpec.MainContainer.Image = builders.Image
			})
		},
		ended: ready,
	},
	"delete a graph in the background": {
		before: createRich,
		during: func(t *testing.T, ns string) { remove(t, rich(ns), metav1.DeletePropagationBackground) },
		ended:  graphGone,
		etcd:   true, // without keys there, the operator has nothing to do
	},
	"delete a graph in the foreground": {
		before: createRich,
		during: func(t *testing.T, ns string) { remove(t, rich(ns), metav1.DeletePropagationForeground) },
		ended:  graphGone,
		etcd:   true,
	},
	"delete a graph and make it again": {
		before: createRich,
		during: func(t *testing.T, ns string) {
			remove(t, rich(ns), metav1.DeletePropagationBackground)
			graphGone(t, ns)
			create(t, rich(ns))
		},
		ended: func(t *testing.T, ns string) { scaled(t, ns, 1) },
	},
	"delete a component of a graph": {
		before: createRich,
		during: func(t *testing.T, ns string) {
			remove(t, &v1alpha1.DynamoComponentDeployment{ObjectMeta: named(ns, "chat-decode")}, metav1.DeletePropagationBackground)
		},
		ended: func(t *testing.T, ns string) { scaled(t, ns, 1) },
	},
	"delete a Deployment and a Service": {
		before: createReady,
		during: func(t *testing.T, ns string) {
			remove(t, &appsv1.Deployment{ObjectMeta: named(ns, "chat-decode")}, metav1.DeletePropagationBackground)
			remove(t, &corev1.Service{ObjectMeta: named(ns, "chat-frontend")}, metav1.DeletePropagationBackground)
		},
		ended: ready,
	},
	"upgrade the operator while a graph changes": {
		before: createRich,
		during: func(t *testing.T, ns string) {
			change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) {
				g.Spec.Services["Frontend"].Replicas = new(int32(2))
				g.Spec.Services["Decode"].ExtraPodSpec.MainContainer.Image = "registry.example.com/dynamo:2"
			})
		},
		ended:   func(t *testing.T, ns string) { scaled(t, ns, 1) },
		upgrade: []string{"--operator-version=9.9.9"},
	},
	"load an adapter": {
		during: createModel,
		ended:  modelReady,
		crew:   true,
	},
	"load an adapter from another source": {
		before: createModelReady,
		during: func(t *testing.T, ns string) { changeModel(t, ns, `{"spec":{"source":{"uri":"s3://bucket/better"}}}`) },
		ended:  modelReady,
		crew:   true,
	},
	"rename an adapter": {
		before: createModelReady,
		during: func(t *testing.T, ns string) { changeModel(t, ns, `{"spec":{"modelName":"acme/better"}}`) },
		ended:  modelReady,
		crew:   true,
	},
	"delete a model": {
		before: createModelReady,
		during: removeModel,
		ended:  func(t *testing.T, ns string) { gone(t, ns, "sql", &v1alpha1.DynamoModel{}) },
		crew:   true,
	},
	"delete one of two models with a name": {
		before: func(t *testing.T, ns string) {
			makeModel(t, loraModel(ns, "first", "acme/sql", "s3://bucket/first"))
			awaitModel(t, ns, "first", metav1.ConditionTrue)
			createModel(t, ns)
			awaitModel(t, ns, "sql", metav1.ConditionFalse)
		},
		during: func(t *testing.T, ns string) {
			remove(t, &v1alpha1.DynamoModel{ObjectMeta: named(ns, "first")}, metav1.DeletePropagationBackground)
		},
		ended: modelReady,
		crew:  true,
	},
}

// rich is a graph with an adapter and a claim.
func rich(ns string) *v1alpha1.DynamoGraphDeployment { return richAs(ns, "chat") }

// richAs is one of several rich graphs.
func richAs(ns, name string) *v1alpha1.DynamoGraphDeployment {
	g := builders.TwoComponents(ns, name).Change("Decode", func(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
		s.ScalingAdapter = &v1alpha1.ScalingAdapter{Enabled: true}
	}).Obj()
	g.Spec.PVCs = []v1alpha1.PVC{{
		Name: new(claimOf(name)), Create: new(true), StorageClass: "fast", Size: resource.MustParse("1Gi"), VolumeAccessMode: corev1.ReadWriteMany,
	}}
	return g
}

// claimOf names the claim of a rich graph.
func claimOf(graph string) string { return strings.TrimPrefix(graph+"-weights", "chat-") }

func createRich(t *testing.T, ns string) {
	t.Helper()
	create(t, rich(ns))
	ready(t, ns)
	scaled(t, ns, 1)
}

func remove(t *testing.T, object client.Object, policy metav1.DeletionPropagation) {
	t.Helper()
	if err := harness.Client(t).Delete(t.Context(), object, client.PropagationPolicy(policy)); err != nil {
		t.Fatalf("delete %s: %v", object.GetName(), err)
	}
}

func graphGone(t *testing.T, ns string) {
	t.Helper()
	gone(t, ns, "chat", &v1alpha1.DynamoGraphDeployment{})
}

func named(ns, name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }

func servesModel(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	s.ModelRef = &v1alpha1.ModelReference{Name: baseModel}
}

func createReady(t *testing.T, ns string) {
	t.Helper()
	create(t, builders.TwoComponents(ns, "chat").Obj())
	ready(t, ns)
}

// restarted waits until the restart is complete and the graph is ready.
func restarted(t *testing.T, ns string) {
	t.Helper()
	harness.Eventually(t, patience, "the restart is complete", func() (bool, string) {
		g := &v1alpha1.DynamoGraphDeployment{}
		if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "chat"}, g); err != nil {
			return false, err.Error()
		}
		r := g.Status.Restart
		return r != nil && r.ObservedID == "again" && r.Phase == v1alpha1.RestartPhaseCompleted, fmt.Sprintf("%+v", r)
	})
	ready(t, ns)
}

func createScalable(t *testing.T, ns string) {
	t.Helper()
	create(t, builders.TwoComponents(ns, "chat").Change("Decode", func(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
		s.ScalingAdapter = &v1alpha1.ScalingAdapter{Enabled: true}
	}).Obj())
	ready(t, ns)
	scaled(t, ns, 1)
}

// scale does what an autoscaler does.
func scale(t *testing.T, ns string, replicas int32) {
	t.Helper()
	adapter := &v1alpha1.DynamoGraphDeploymentScalingAdapter{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "chat-decode"}}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := harness.Client(t).SubResource("scale").Patch(t.Context(), adapter, patch); err != nil {
		t.Fatalf("scale: %v", err)
	}
}

// scaled waits until an adapter reports a number and its graph is ready with it.
func scaled(t *testing.T, ns string, replicas int32) {
	t.Helper()
	harness.Eventually(t, patience, "the adapter reports its replicas", func() (bool, string) {
		adapter := &v1alpha1.DynamoGraphDeploymentScalingAdapter{}
		if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "chat-decode"}, adapter); err != nil {
			return false, err.Error()
		}
		return adapter.Status.Replicas == replicas && adapter.Status.ObservedGeneration == adapter.Generation, fmt.Sprint(adapter.Status)
	})
	ready(t, ns)
}

func create(t *testing.T, g *v1alpha1.DynamoGraphDeployment) {
	t.Helper()
	if err := harness.Client(t).Create(t.Context(), g); err != nil {
		t.Fatalf("create graph: %v", err)
	}
}

func change(t *testing.T, ns string, edit func(*v1alpha1.DynamoGraphDeployment)) {
	t.Helper()
	harness.Change(t, client.ObjectKey{Namespace: ns, Name: "chat"}, edit)
}

func ready(t *testing.T, ns string) {
	t.Helper()
	harness.AwaitReady(t, ns, "chat")
}
