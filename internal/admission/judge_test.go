// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// What each rule says is shown case by case in test/admission/cases. Here is what holds for all of them.

const graphKind = v1alpha1.KindDynamoGraphDeployment

// brokenGraph returns a graph with something wrong in every corner.
func brokenGraph() *v1alpha1.DynamoGraphDeployment {
	return &v1alpha1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "chat", Annotations: map[string]string{"nvidia.com/enable-grov": "false"}},
		Spec: v1alpha1.DynamoGraphDeploymentSpec{
			PVCs:    []v1alpha1.PVC{{}, {Create: new(true), Name: new("a")}},
			Restart: &v1alpha1.Restart{Strategy: &v1alpha1.RestartStrategy{Order: []string{"none"}}},
			Services: map[string]*v1alpha1.DynamoComponentDeploymentSharedSpec{
				"Null": nil,
				"Epp":  {ComponentType: v1alpha1.ComponentTypeEPP, Replicas: new(int32(2)), Multinode: &v1alpha1.MultinodeSpec{}},
				"web":  {Replicas: new(int32(-1)), Autoscaling: &v1alpha1.Autoscaling{}, SharedMemory: &v1alpha1.SharedMemorySpec{}},
				"Web":  {Ingress: &v1alpha1.IngressSpec{Enabled: true}, VolumeMounts: []v1alpha1.VolumeMount{{Name: "b"}}},
			},
		},
	}
}

func fields(errs field.ErrorList) []string {
	var paths []string
	for _, err := range errs {
		paths = append(paths, err.Origin+" "+err.Field)
	}
	return paths
}

func TestEverythingIsSaidAtOnceAndInOrder(t *testing.T) {
	t.Parallel()
	got := Judge(graphKind, nil, brokenGraph(), Circumstances{})
	want := []string{
		"claim-name spec.pvcs[0].name",
		"claim-complete spec.pvcs[1].size",
		"claim-complete spec.pvcs[1].storageClass",
		"claim-complete spec.pvcs[1].volumeAccessMode",
		"restart-id spec.restart.id",
		"restart-order spec.restart.strategy.order",
		"restart-order spec.restart.strategy.order[0]",
		"picker-configured spec.services[Epp].eppConfig",
		"picker-one-node spec.services[Epp].multinode",
		"picker-one-replica spec.services[Epp].replicas",
		"service-described spec.services[Null]",
		"ingress-host spec.services[Web].ingress.host",
		"mount-point spec.services[Web].volumeMounts[0].mountPoint",
		"service-names-distinct spec.services[web]",
		"replicas-not-negative spec.services[web].replicas",
		"shared-memory-size spec.services[web].sharedMemory.size",
	}
	if diff := cmp.Diff(want, fields(got.Errors)); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if len(got.Warnings) != 3 || !slices.IsSorted(got.Warnings) {
		t.Errorf("got warnings %q, want three in order", got.Warnings)
	}
	for range 50 { // maps have another order each time
		if diff := cmp.Diff(got, Judge(graphKind, nil, brokenGraph(), Circumstances{})); diff != "" {
			t.Fatalf("the same graph, another verdict (-first +again):\n%s", diff)
		}
	}
}

func TestReconcilersHearWhatTheWebhookRefusesOfAnObjectByItself(t *testing.T) {
	t.Parallel()
	g := brokenGraph()
	if diff := cmp.Diff(fields(Judge(graphKind, nil, g, Circumstances{}).Errors), fields(Graph(g))); diff != "" {
		t.Errorf("(-webhook +reconciler):\n%s", diff)
	}
	for name, errs := range map[string]field.ErrorList{
		"component":  Component(&v1alpha1.DynamoComponentDeployment{}),
		"model":      Model(&v1alpha1.DynamoModel{}),
		"request":    Request(&v1alpha1.DynamoGraphDeploymentRequest{}, false),
		"adapter":    ScalingAdapter(&v1alpha1.DynamoGraphDeploymentScalingAdapter{Spec: v1alpha1.DynamoGraphDeploymentScalingAdapterSpec{Replicas: -1}}),
		"checkpoint": Checkpoint(&v1alpha1.DynamoCheckpoint{}),
	} {
		if len(errs) == 0 {
			t.Errorf("%s: nothing is wrong", name)
		}
	}
	discovers := &v1alpha1.DynamoGraphDeploymentRequest{Spec: v1alpha1.DynamoGraphDeploymentRequestSpec{EnableGPUDiscovery: true}}
	for _, restricted := range []bool{false, true} {
		if got := slices.Contains(fields(Request(discovers, restricted)), "gpu-discovery-allowed spec.enableGpuDiscovery"); got != restricted {
			t.Errorf("restricted %v: discovery of GPUs is refused: %v", restricted, got)
		}
	}
}

func TestAnAdapterWithoutATargetIsTheStatusOfTheAdapterToTell(t *testing.T) {
	t.Parallel()
	if errs := ScalingAdapter(&v1alpha1.DynamoGraphDeploymentScalingAdapter{}); len(errs) > 0 {
		t.Errorf("got %v", errs)
	}
}

func TestWhatIsBeingDeletedMayBeWritten(t *testing.T) {
	t.Parallel()
	g := brokenGraph()
	g.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	if got := Judge(graphKind, brokenGraph(), g, Circumstances{}); len(got.Errors)+len(got.Warnings) > 0 {
		t.Errorf("got %v", got)
	}
}

func TestAnUpdateIsBlamedForNewProblemsOnly(t *testing.T) {
	t.Parallel()
	paused := brokenGraph()
	paused.Annotations = map[string]string{names.AnnotationReconcile: names.Paused}
	if got := Judge(graphKind, brokenGraph(), paused, Circumstances{}); len(got.Errors) > 0 {
		t.Errorf("got %v", got.Errors)
	}
	changed := brokenGraph()
	changed.Spec.Envs = []corev1.EnvVar{{Name: "A"}}
	if got := Judge(graphKind, brokenGraph(), changed, Circumstances{}); len(got.Errors) > 0 {
		t.Errorf("a change of something else is blamed for what was wrong before: %v", got.Errors)
	}
	at := field.NewPath("spec", "pvcs").Index(len(changed.Spec.PVCs)).Child("name").String()
	changed.Spec.PVCs = append(changed.Spec.PVCs, v1alpha1.PVC{})
	if got := Judge(graphKind, brokenGraph(), changed, Circumstances{}); len(got.Errors) != 1 || got.Errors[0].Field != at {
		t.Errorf("one new problem at %s, and %v", at, got.Errors)
	}
	owned := &v1alpha1.DynamoComponentDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "gate", OwnerReferences: []metav1.OwnerReference{{Kind: graphKind, Name: "chat"}}},
		Spec: v1alpha1.DynamoComponentDeploymentSpec{DynamoComponentDeploymentSharedSpec: v1alpha1.DynamoComponentDeploymentSharedSpec{
			ComponentType: v1alpha1.ComponentTypeEPP, EPPConfig: &v1alpha1.EPPConfig{ConfigMapRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "m"}, Key: "k",
			}},
		}},
	}
	alone := owned.DeepCopy()
	alone.OwnerReferences = nil
	got := Judge(v1alpha1.KindDynamoComponentDeployment, owned, alone, Circumstances{})
	if diff := cmp.Diff([]string{"picker-in-graph spec.componentType"}, fields(got.Errors)); diff != "" {
		t.Errorf("what is new (-want +got):\n%s", diff)
	}
}

func TestAPointerToNothingIsNoObject(t *testing.T) {
	t.Parallel()
	var none *v1alpha1.DynamoGraphDeployment
	if diff := cmp.Diff(Judge(graphKind, nil, brokenGraph(), Circumstances{}), Judge(graphKind, none, brokenGraph(), Circumstances{})); diff != "" {
		t.Errorf("as the old one (-nil +pointer):\n%s", diff)
	}
	for name, obj := range map[string]runtime.Object{
		"nothing": nil, "a pointer to nothing": none, "another kind": &v1alpha1.DynamoModel{}, "none of ours": &corev1.Pod{},
	} {
		got := Judge(graphKind, nil, obj, Circumstances{})
		if len(got.Errors) != 1 || got.Errors[0].Type != field.ErrorTypeInternal {
			t.Errorf("%s: got %v, want one internal error", name, got.Errors)
		}
	}
	if got := Judge(graphKind, &v1alpha1.DynamoModel{}, brokenGraph(), Circumstances{}); len(got.Errors) != 1 {
		t.Errorf("another kind before: got %v, want one internal error", got.Errors)
	}
}

func TestANameThatIsYetToBeMadeIsNotHeldAgainstAGraph(t *testing.T) {
	t.Parallel()
	g := &v1alpha1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", GenerateName: "chat-"},
		Spec: v1alpha1.DynamoGraphDeploymentSpec{Services: map[string]*v1alpha1.DynamoComponentDeploymentSharedSpec{
			"Web": {ComponentType: v1alpha1.ComponentTypeFrontend},
		}},
	}
	if got := Judge(graphKind, nil, g, Circumstances{}); len(got.Errors) > 0 {
		t.Errorf("got %v", got.Errors)
	}
	g.GenerateName = strings.Repeat("a", 60)
	if got := Judge(graphKind, nil, g, Circumstances{}); len(got.Errors) == 0 {
		t.Error("a name that will be too long was let through")
	}
}

func TestTheTypeOfAnErrorTellsWhatKindOfMistakeItIs(t *testing.T) {
	t.Parallel()
	old := &v1alpha1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "chat"},
		Spec: v1alpha1.DynamoGraphDeploymentSpec{Services: map[string]*v1alpha1.DynamoComponentDeploymentSharedSpec{
			"Web": {ScalingAdapter: &v1alpha1.ScalingAdapter{Enabled: true}},
		}},
	}
	changed := old.DeepCopy()
	changed.Spec.BackendFramework = v1alpha1.BackendFrameworkVLLM
	changed.Spec.Services["Web"].Replicas = new(int32(4))
	changed.Spec.Services["Web"].Multinode = &v1alpha1.MultinodeSpec{NodeCount: 2}
	changed.Spec.Services["More"] = &v1alpha1.DynamoComponentDeploymentSharedSpec{}
	got := Judge(graphKind, old, changed, Circumstances{})
	if len(got.Errors) != 4 {
		t.Errorf("got %v, want four", got.Errors)
	}
	for _, err := range got.Errors {
		if err.Type != field.ErrorTypeForbidden {
			t.Errorf("%s is of type %q, want it forbidden: the content is fine, the change is not", err, err.Type)
		}
	}
}

func TestDistanceCountsSlips(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"grove", "grove", 0}, {"gorve", "grove", 2}, {"grov", "grove", 1}, {"kitten", "sitting", 3}} {
		if got := distance(tc.a, tc.b); got != tc.want {
			t.Errorf("from %q to %q: got %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}

func TestNoSwitchIsTakenForAnother(t *testing.T) {
	t.Parallel()
	for _, known := range switches() {
		if meant := nearMiss(known); meant != "" {
			t.Errorf("%s is taken for %s", known, meant)
		}
	}
	for _, written := range []string{
		names.AnnotationBaseModel, names.AnnotationRestartAt, names.AnnotationAppliedHash, names.AnnotationSurroundings,
		"nvidia.com/last-applied-hash", "nvidia.com/last-applied-generation", "nvidia.com/dyn-discovery-backend",
		"nvidia.com/dynamo-operator-origin-version",
	} {
		if meant := nearMiss(written); meant != "" {
			t.Errorf("%s, which operators write, is taken for %s", written, meant)
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	services := map[string]*v1alpha1.DynamoComponentDeploymentSharedSpec{}
	for i := range 25 {
		services[fmt.Sprintf("Worker%d", i)] = &v1alpha1.DynamoComponentDeploymentSharedSpec{ComponentType: v1alpha1.ComponentTypeWorker}
	}
	g := &v1alpha1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "chat"}, Spec: v1alpha1.DynamoGraphDeploymentSpec{Services: services},
	}
	for b.Loop() {
		Judge(graphKind, g, g, Circumstances{})
	}
}
