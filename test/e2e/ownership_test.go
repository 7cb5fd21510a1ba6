// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestAnObjectThatBelongsToOthersIsReportedAndLeftAlone(t *testing.T) {
	t.Parallel()
	controller := []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "Deployment", Name: "other", UID: types.UID("11111111-2222-3333-4444-555555555555"), Controller: new(true),
	}}
	frontend := func(ns string, change func(*corev1.Service)) *corev1.Service {
		s := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "chat-frontend"},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "web", Port: 80}}, Selector: map[string]string{"app": "mine"}},
		}
		change(s)
		return s
	}
	for name, differs := range map[string]func(*corev1.Service){
		"made by a person":      func(*corev1.Service) {},
		"controlled by another": func(s *corev1.Service) { s.OwnerReferences = controller },
		"with nothing in conflict": func(s *corev1.Service) {
			s.Spec.Ports[0] = corev1.ServicePort{Name: "http", Port: 8000, TargetPort: intstr.FromString("http")}
			s.Spec.Selector = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := harness.Namespace(t)
			harness.SimulateDeployments(t, ns)
			harness.StartOperator(t, ns)
			theirs := frontend(ns, differs)
			create(t, theirs)
			create(t, builders.TwoComponents(ns, "chat").Obj())

			condition := awaitMessage(t, ns, "chat", "Service chat-frontend exists already")
			if !strings.Contains(condition.Message, "rename") {
				t.Errorf("message %q shows no way out", condition.Message)
			}
			var now corev1.Service
			read(t, ns, "chat-frontend", &now)
			if len(now.OwnerReferences) != len(theirs.OwnerReferences) || now.Labels[names.LabelApplied] != "" ||
				!maps.Equal(now.Spec.Selector, theirs.Spec.Selector) || now.Spec.Ports[0].Name != theirs.Spec.Ports[0].Name {
				t.Errorf("the stranger's Service has owners %v, labels %v and spec %v now", now.OwnerReferences, now.Labels, now.Spec)
			}
			// From now on it is only looked at, however often the graph is.
			for i := range 2 {
				change(t, ns, "chat", func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Frontend"].Replicas = new(int32(i)) })
				awaitMessage(t, ns, "chat", "Service chat-frontend exists already")
			}
			var later corev1.Service
			read(t, ns, "chat-frontend", &later)
			if later.ResourceVersion != now.ResourceVersion {
				t.Errorf("the stranger's Service was written to again")
			}
			// The way out works: the name is freed, the graph gets ready.
			if err := harness.Client(t).Delete(t.Context(), &now); err != nil {
				t.Fatal(err)
			}
			harness.AwaitReady(t, ns, "chat")
		})
	}
}

func TestOwnedFieldsAreRestoredAndForeignOnesLeftAlone(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	harness.StartOperator(t, ns)
	create(t, builders.TwoComponents(ns, "chat").Obj())
	harness.AwaitReady(t, ns, "chat")

	for name, patch := range map[string]string{
		"an owned field":        `{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":5}}}}`,
		"an owned label":        `{"metadata":{"labels":{"nvidia.com/dynamo-component":"other"}}}`,
		"the label we cache by": `{"metadata":{"labels":{"nvidia.com/applied-by":null}}}`,
		"the owner reference":   `{"metadata":{"ownerReferences":null}}`,
		"the hash":              `{"metadata":{"annotations":{"nvidia.com/applied-hash":"v1:none"}}}`,
	} {
		edit(t, ns, patch)
		harness.Eventually(t, patience, name+" restored", func() (bool, string) {
			var d appsv1.Deployment
			read(t, ns, "chat-decode", &d)
			return *d.Spec.Template.Spec.TerminationGracePeriodSeconds == 60 && d.Labels[names.LabelComponent] == "Decode" &&
				d.Labels[names.LabelApplied] == names.OperatorName && len(d.OwnerReferences) == 1 &&
				d.Annotations[names.AnnotationAppliedHash] != "v1:none", name
		})
	}
	edit(t, ns, `{"metadata":{"labels":{"example.com/theirs":"yes"}},"spec":{"minReadySeconds":7}}`)
	edit(t, ns, `{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":6}}}}`)
	harness.Eventually(t, patience, "our field restored, theirs kept", func() (bool, string) {
		var d appsv1.Deployment
		read(t, ns, "chat-decode", &d)
		return *d.Spec.Template.Spec.TerminationGracePeriodSeconds == 60, "grace period"
	})
	var d appsv1.Deployment
	read(t, ns, "chat-decode", &d)
	if d.Labels["example.com/theirs"] != "yes" || d.Spec.MinReadySeconds != 7 {
		t.Errorf("fields of others were changed: labels %v, minReadySeconds %d", d.Labels, d.Spec.MinReadySeconds)
	}
}

func TestAMemberThatBecomesEmptyIsApplied(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	harness.StartOperator(t, ns)
	scratch := func(source corev1.EmptyDirVolumeSource) *corev1.PodSpec {
		return &corev1.PodSpec{Volumes: []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &source}}}}
	}
	g := builders.TwoComponents(ns, "chat").Obj()
	g.Spec.Services["Decode"].ExtraPodSpec.PodSpec = scratch(corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory})
	create(t, g)
	harness.AwaitReady(t, ns, "chat")
	change(t, ns, "chat", func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Decode"].ExtraPodSpec.PodSpec = scratch(corev1.EmptyDirVolumeSource{})
	})
	harness.AwaitReady(t, ns, "chat")
	var d appsv1.Deployment
	read(t, ns, "chat-decode", &d)
	if v := d.Spec.Template.Spec.Volumes[0]; v.EmptyDir == nil || v.EmptyDir.Medium != "" {
		t.Errorf("volume is %v, want an emptyDir on disk", v)
	}
}

func TestAComponentThatAUserMadeIsNotTakenOver(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	harness.StartOperator(t, ns)
	theirs := &v1alpha1.DynamoComponentDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "chat-decode"},
		Spec: v1alpha1.DynamoComponentDeploymentSpec{
			DynamoComponentDeploymentSharedSpec: *builders.TwoComponents(ns, "x").Obj().Spec.Services["Frontend"],
		},
	}
	create(t, theirs)
	create(t, builders.TwoComponents(ns, "chat").Obj())
	awaitMessage(t, ns, "chat", "DynamoComponentDeployment chat-decode exists already")
	var now v1alpha1.DynamoComponentDeployment
	read(t, ns, "chat-decode", &now)
	if now.Generation != 1 || len(now.OwnerReferences) != 0 {
		t.Errorf("the user's component is in generation %d with owners %v", now.Generation, now.OwnerReferences)
	}
}

func TestARemovedServiceGoesAlsoWhileAnotherIsRefused(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	harness.StartOperator(t, ns)
	g := builders.TwoComponents(ns, "chat").Obj()
	create(t, &v1alpha1.DynamoComponentDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "chat-prefill"},
		Spec:       v1alpha1.DynamoComponentDeploymentSpec{DynamoComponentDeploymentSharedSpec: *g.Spec.Services["Frontend"]},
	})
	create(t, g)
	harness.AwaitReady(t, ns, "chat")
	change(t, ns, "chat", func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Prefill"] = g.Spec.Services["Decode"]
		delete(g.Spec.Services, "Decode")
	})
	awaitMessage(t, ns, "chat", "DynamoComponentDeployment chat-prefill exists already")
	harness.Eventually(t, patience, "the removed component is gone", func() (bool, string) {
		err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "chat-decode"}, &v1alpha1.DynamoComponentDeployment{})
		return apierrors.IsNotFound(err), "still there"
	})
}

func TestAFieldThatIsNoLongerWantedGoes(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	harness.StartOperator(t, ns)
	g := builders.TwoComponents(ns, "chat").Env("A", "1").Env("B", "2").Obj()
	g.Spec.Services["Decode"].Labels = map[string]string{"team": "a"}
	create(t, g)
	harness.AwaitReady(t, ns, "chat")
	change(t, ns, "chat", func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Envs, g.Spec.Services["Decode"].Labels = g.Spec.Envs[:1], nil
	})
	harness.AwaitReady(t, ns, "chat")
	var d appsv1.Deployment
	read(t, ns, "chat-decode", &d)
	if envValue(d.Spec.Template.Spec.Containers[0].Env, "B") != "" || d.Labels["team"] != "" || d.Spec.Template.Labels["team"] != "" {
		t.Errorf("what was created and is no longer wanted is still there: env %v, labels %v", d.Spec.Template.Spec.Containers[0].Env, d.Labels)
	}
}

func TestWhatRunsIsCountedWhileAChangeIsRefused(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	harness.StartOperator(t, ns)
	create(t, builders.TwoComponents(ns, "chat").Obj())
	harness.AwaitReady(t, ns, "chat")
	change(t, ns, "chat", func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Decode"].ExtraPodSpec.PodSpec = &corev1.PodSpec{NodeSelector: map[string]string{"Not A Label": "x"}}
	})
	awaitMessage(t, ns, "chat", "Not A Label")
	g := get(t, ns, "chat")
	if n := g.Status.Services["Decode"].AvailableReplicas; n == nil || *n != 1 {
		t.Errorf("status counts %v available replicas, one runs", n)
	}
	if c := conditions.Find(g.Status.Conditions, v1alpha1.ConditionAvailable); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("Available is %v although every service runs", c)
	}
}

func TestADeletedChildComesBack(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	harness.StartOperator(t, ns)
	create(t, builders.TwoComponents(ns, "chat").Obj())
	harness.AwaitReady(t, ns, "chat")
	for _, child := range []client.Object{
		&corev1.Service{}, &appsv1.Deployment{},
	} {
		read(t, ns, "chat-decode", child)
		uid := child.GetUID()
		if err := harness.Client(t).Delete(t.Context(), child); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, 10*time.Second, "child is made again", func() (bool, string) {
			err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(child), child)
			return err == nil && child.GetUID() != uid, "not yet"
		})
	}
	harness.AwaitReady(t, ns, "chat")
}

func edit(t *testing.T, ns, patch string) {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "chat-decode"}}
	if err := harness.Client(t).Patch(t.Context(), d, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatalf("edit Deployment: %v", err)
	}
}
