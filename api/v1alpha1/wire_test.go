// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// wireForms returns an object as encoding/json and as the unstructured converter write it. Clients use the first,
// server-side apply the second, and the two must agree.
func wireForms(t *testing.T, object any) map[string]map[string]any {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var viaJSON map[string]any
	if err := json.Unmarshal(text, &viaJSON); err != nil {
		t.Fatal(err)
	}
	converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	text, err = json.Marshal(converted)
	if err != nil {
		t.Fatal(err)
	}
	var viaConverter map[string]any
	if err := json.Unmarshal(text, &viaConverter); err != nil {
		t.Fatal(err)
	}
	return map[string]map[string]any{"json": viaJSON, "converter": viaConverter}
}

func TestWireFormLeavesOutWhatWasNotSet(t *testing.T) {
	t.Parallel()
	name := "models"
	for label, tc := range map[string]struct {
		object any
		want   string
	}{
		"untouched graph": {object: &v1alpha1.DynamoGraphDeployment{}, want: `{}`},
		"untouched component": {
			// A status with a null list would be refused, so an untouched status is not sent.
			object: &v1alpha1.DynamoComponentDeployment{}, want: `{}`,
		},
		"component status without conditions": {
			object: &v1alpha1.DynamoComponentDeployment{Status: v1alpha1.DynamoComponentDeploymentStatus{ObservedGeneration: 3}},
			want:   `{"status":{"conditions":[],"observedGeneration":3}}`,
		},
		"model status without endpoints": {
			object: &v1alpha1.DynamoModel{Status: v1alpha1.DynamoModelStatus{ObservedGeneration: 3}},
			want:   `{"status":{"readyEndpoints":0,"totalEndpoints":0,"observedGeneration":3}}`,
		},
		"claim without a size": {
			object: &v1alpha1.DynamoGraphDeployment{Spec: v1alpha1.DynamoGraphDeploymentSpec{PVCs: []v1alpha1.PVC{{Name: &name}}}},
			want:   `{"spec":{"pvcs":[{"name":"models"}]}}`,
		},
		"claim with a size": {
			object: &v1alpha1.DynamoGraphDeployment{Spec: v1alpha1.DynamoGraphDeploymentSpec{
				PVCs: []v1alpha1.PVC{{Name: &name, Size: resource.MustParse("10Gi")}},
			}},
			want: `{"spec":{"pvcs":[{"name":"models","size":"10Gi"}]}}`,
		},
		"shared memory and nodes by default": {
			object: graphWith(&sharedSpec{SharedMemory: &v1alpha1.SharedMemorySpec{Disabled: true}, Multinode: &v1alpha1.MultinodeSpec{}}),
			want:   `{"spec":{"services":{"s":{"sharedMemory":{"disabled":true},"multinode":{}}}}}`,
		},
		"scaling to zero": {
			object: &v1alpha1.DynamoGraphDeploymentScalingAdapter{Spec: v1alpha1.DynamoGraphDeploymentScalingAdapterSpec{
				DGDRef: v1alpha1.DynamoGraphDeploymentServiceRef{Name: "g", ServiceName: "s"},
			}},
			want: `{"spec":{"replicas":0,"dgdRef":{"name":"g","serviceName":"s"}}}`,
		},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			var want map[string]any
			if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			for form, got := range wireForms(t, tc.object) {
				delete(got, "metadata") // creationTimestamp handling belongs to Kubernetes
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", form, diff)
				}
			}
		})
	}
}

func graphWith(service *sharedSpec) *v1alpha1.DynamoGraphDeployment {
	return &v1alpha1.DynamoGraphDeployment{Spec: v1alpha1.DynamoGraphDeploymentSpec{
		Services: map[string]*sharedSpec{"s": service},
	}}
}

func TestPodOverlayReadsPodMembersAndTheMainContainerSideBySide(t *testing.T) {
	t.Parallel()
	source := `{"spec":{"services":{"s":{"extraPodSpec":{"nodeSelector":{"gpu":"h100"},"mainContainer":{"image":"engine:1"}}},"plain":{"extraPodSpec":{"mainContainer":{"image":"engine:2"}}}}}}`
	var graph v1alpha1.DynamoGraphDeployment
	if err := json.Unmarshal([]byte(source), &graph); err != nil {
		t.Fatal(err)
	}
	want := &v1alpha1.ExtraPodSpec{
		PodSpec:       &corev1.PodSpec{NodeSelector: map[string]string{"gpu": "h100"}},
		MainContainer: &corev1.Container{Image: "engine:1"},
	}
	if diff := cmp.Diff(want, graph.Spec.Services["s"].ExtraPodSpec); diff != "" {
		t.Errorf("overlay (-want +got):\n%s", diff)
	}
	plain := graph.Spec.Services["plain"].ExtraPodSpec
	if plain.PodSpec != nil || plain.MainContainer.Image != "engine:2" {
		t.Errorf("an overlay of the main container alone got a pod: %v", plain)
	}
}

func TestPickerConfigurationKeepsEveryMember(t *testing.T) {
	t.Parallel()
	source := `{"spec":{"services":{"epp":{"eppConfig":{"config":{"plugins":[{"type":"p","parameters":{"depth":[1,{"x":"y"}]}}],"schedulingProfiles":[],"later":true}}}}}}`
	var graph v1alpha1.DynamoGraphDeployment
	if err := json.Unmarshal([]byte(source), &graph); err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := json.Unmarshal([]byte(source), &want); err != nil {
		t.Fatal(err)
	}
	for form, got := range wireForms(t, &graph) {
		delete(got, "metadata")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", form, diff)
		}
	}
}

func TestComponentStatusSurvivesARoundTrip(t *testing.T) {
	t.Parallel()
	ready := int32(0)
	want := v1alpha1.DynamoComponentDeploymentStatus{
		ObservedGeneration: 2,
		Conditions:         []metav1.Condition{{Type: "Available", Status: metav1.ConditionTrue, Reason: "DeploymentReady"}},
		Service: &v1alpha1.ServiceReplicaStatus{
			ComponentKind: v1alpha1.ComponentKindDeployment, ComponentName: "a", ReadyReplicas: &ready,
		},
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got v1alpha1.DynamoComponentDeploymentStatus
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestSchemeKnowsEveryKindAndItsList(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{
		v1alpha1.KindDynamoModel, v1alpha1.KindDynamoComponentDeployment, v1alpha1.KindDynamoGraphDeployment, v1alpha1.KindDynamoCheckpoint,
		v1alpha1.KindDynamoGraphDeploymentRequest, v1alpha1.KindDynamoGraphDeploymentScalingAdapter, v1alpha1.KindDynamoWorkerMetadata,
	} {
		for _, name := range []string{kind, kind + "List"} {
			if !scheme.Recognizes(v1alpha1.GroupVersion.WithKind(name)) {
				t.Errorf("scheme does not know %s", name)
			}
		}
	}
	if got := v1alpha1.Resource("dynamomodels").String(); got != "dynamomodels.nvidia.com" {
		t.Errorf("got resource %q, want dynamomodels.nvidia.com", got)
	}
}
