// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const model = "acme/tiny-1b"

func serving(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	s.ModelRef = &v1alpha1.ModelReference{Name: model}
}

func TestAModelServiceStaysAsLongAsSomeComponentServesTheModel(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	harness.StartOperator(t, ns)
	for _, name := range []string{"one", "two"} {
		create(t, builders.TwoComponents(ns, name).Change("Decode", serving).Obj())
		harness.AwaitReady(t, ns, name)
	}
	awaitOwners(t, ns, "one-decode", "two-decode")

	drop := func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].ModelRef = nil }
	change(t, ns, "one", drop)
	awaitOwners(t, ns, "two-decode")
	change(t, ns, "two", drop)
	harness.Eventually(t, patience, "model Service is gone with its last user", func() (bool, string) {
		var s corev1.Service
		err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: names.ModelService(model)}, &s)
		return apierrors.IsNotFound(err), "still there"
	})
}

// awaitOwners waits until the model Service has exactly these owners, none of which controls it.
func awaitOwners(t *testing.T, ns string, want ...string) {
	t.Helper()
	harness.Eventually(t, patience, "owners of the model Service", func() (bool, string) {
		var s corev1.Service
		if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: names.ModelService(model)}, &s); err != nil {
			return false, err.Error()
		}
		var owners []string
		for _, r := range s.OwnerReferences {
			owners = append(owners, r.Name)
		}
		slices.Sort(owners)
		return slices.Equal(owners, want) && metav1.GetControllerOf(&s) == nil, strings.Join(owners, ",")
	})
}

func TestAGraphWaitsForAClaimAndSaysSo(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	harness.StartOperator(t, ns)
	g := builders.TwoComponents(ns, "chat").Obj()
	name := "weights"
	g.Spec.PVCs = []v1alpha1.PVC{{Name: &name}}
	create(t, g)
	condition := awaitReason(t, ns, "chat", conditions.ValidationFailed)
	if !strings.Contains(condition.Message, "spec.pvcs[0].name") {
		t.Errorf("message %q does not name the claim's field", condition.Message)
	}
	create(t, claim(ns, name))
	harness.AwaitReady(t, ns, "chat")
	var mine corev1.PersistentVolumeClaim
	read(t, ns, name, &mine)
	if len(mine.OwnerReferences) != 0 || mine.Labels[names.LabelApplied] != "" {
		t.Errorf("the user's claim got owners %v and labels %v", mine.OwnerReferences, mine.Labels)
	}
}

func TestAClaimIsMadeOnceAndNeverChangedOrTaken(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	operator := harness.StartOperator(t, ns)
	theirs, ours := "theirs", "ours"
	create(t, claim(ns, theirs))
	yes := true
	wanted := func(name, size string) v1alpha1.PVC {
		return v1alpha1.PVC{Name: &name, Create: &yes, StorageClass: "fast", Size: resource.MustParse(size), VolumeAccessMode: corev1.ReadWriteMany}
	}
	g := builders.TwoComponents(ns, "chat").Obj()
	g.Spec.PVCs = []v1alpha1.PVC{wanted(theirs, "5Gi"), wanted(ours, "5Gi")}
	create(t, g)
	harness.AwaitReady(t, ns, "chat")
	for name, owners := range map[string]int{theirs: 0, ours: 1} {
		var c corev1.PersistentVolumeClaim
		read(t, ns, name, &c)
		if len(c.OwnerReferences) != owners {
			t.Errorf("claim %s has owners %v, want %d", name, c.OwnerReferences, owners)
		}
	}
	change(t, ns, "chat", func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.PVCs[1] = wanted(ours, "9Gi") })
	harness.AwaitReady(t, ns, "chat")
	operator.Stop()
	harness.StartOperator(t, ns)
	harness.AwaitReady(t, ns, "chat")
	var c corev1.PersistentVolumeClaim
	read(t, ns, ours, &c)
	if size := c.Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != "5Gi" {
		t.Errorf("claim was resized to %s", size.String())
	}
}

func claim(ns, name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

func TestRegistrySecretsAreFoundAndNeverMoveHealthyPods(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	create(t, registrySecret(ns, "a-secret", "registry.example.com"))
	create(t, registrySecret(ns, "elsewhere", "other.example.com"))
	operator := harness.StartOperator(t, ns)
	create(t, builders.TwoComponents(ns, "chat").Obj())
	harness.AwaitReady(t, ns, "chat")
	if got := pullSecrets(t, ns); !slices.Equal(got, []string{"a-secret"}) {
		t.Fatalf("pull secrets %v, want a-secret", got)
	}

	create(t, registrySecret(ns, "b-secret", "registry.example.com"))
	operator.Stop()
	harness.StartOperator(t, ns)
	change(t, ns, "chat", func(g *v1alpha1.DynamoGraphDeployment) {
		g.Annotations = map[string]string{"example.com/note": "look again"}
	})
	harness.AwaitReady(t, ns, "chat")
	if got := generation(t, ns); got != 1 {
		t.Errorf("a new registry secret rolled healthy pods: generation %d", got)
	}

	// Scaling changes no pod either.
	change(t, ns, "chat", func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].Replicas = new(int32(2)) })
	harness.AwaitReady(t, ns, "chat")
	if got := pullSecrets(t, ns); !slices.Equal(got, []string{"a-secret"}) {
		t.Errorf("pull secrets after scaling %v, want them unchanged", got)
	}

	// With the user's next change of the pods they roll anyway, so they get what is there now.
	change(t, ns, "chat", func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Decode"].ExtraPodSpec.MainContainer.Image = "registry.example.com/dynamo:2"
	})
	harness.AwaitReady(t, ns, "chat")
	if got := pullSecrets(t, ns); !slices.Equal(got, []string{"a-secret", "b-secret"}) {
		t.Errorf("pull secrets after a change %v, want both", got)
	}
}

func pullSecrets(t *testing.T, ns string) []string {
	t.Helper()
	var d appsv1.Deployment
	read(t, ns, "chat-decode", &d)
	var found []string
	for _, s := range d.Spec.Template.Spec.ImagePullSecrets {
		found = append(found, s.Name)
	}
	return found
}

func generation(t *testing.T, ns string) int64 {
	t.Helper()
	var d appsv1.Deployment
	read(t, ns, "chat-decode", &d)
	return d.Generation
}

func registrySecret(ns, name, host string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Type: corev1.SecretTypeDockerConfigJson,
		StringData: map[string]string{corev1.DockerConfigJsonKey: `{"auths":{"` + host + `":{"username":"u","password":"p"}}}`},
	}
}

func TestAComponentStandsAlone(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	harness.StartOperator(t, ns)
	spec := builders.TwoComponents(ns, "x").Obj().Spec.Services["Decode"]
	create(t, &v1alpha1.DynamoComponentDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "solo"},
		Spec:       v1alpha1.DynamoComponentDeploymentSpec{DynamoComponentDeploymentSharedSpec: *spec},
	})
	harness.Eventually(t, patience, "component is available", func() (bool, string) {
		var c v1alpha1.DynamoComponentDeployment
		read(t, ns, "solo", &c)
		a := conditions.Find(c.Status.Conditions, v1alpha1.ConditionAvailable)
		return a != nil && a.Status == metav1.ConditionTrue, "not yet"
	})
	var d appsv1.Deployment
	read(t, ns, "solo", &d)
	pod := d.Spec.Template
	if _, empty := pod.Labels[names.LabelGraph]; empty {
		t.Errorf("pods carry a graph label %q", pod.Labels[names.LabelGraph])
	}
	if pod.Spec.ServiceAccountName != "solo-k8s-service-discovery" {
		t.Errorf("pods run as %q", pod.Spec.ServiceAccountName)
	}
	for _, obj := range []client.Object{&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		name := map[string]string{"*v1.Role": "-role", "*v1.RoleBinding": "-binding"}[typeName(obj)]
		read(t, ns, "solo-k8s-service-discovery"+name, obj)
	}
	var s corev1.Service
	read(t, ns, "solo", &s)
	for key, value := range s.Spec.Selector {
		if pod.Labels[key] != value {
			t.Errorf("Service selects %s=%s, pods have %q", key, value, pod.Labels[key])
		}
	}
	if value := envValue(pod.Spec.Containers[0].Env, "DYN_NAMESPACE"); value != ns+"-solo" {
		t.Errorf("Dynamo namespace is %q", value)
	}
}

func typeName(obj client.Object) string { return fmt.Sprintf("%T", obj) }

func envValue(env []corev1.EnvVar, name string) string {
	for _, v := range env {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}
