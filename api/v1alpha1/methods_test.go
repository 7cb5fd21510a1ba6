// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

type sharedSpec = v1alpha1.DynamoComponentDeploymentSharedSpec

func TestComputeDynamoNamespaceUsesTheGraphUnlessGlobal(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		global bool
		want   string
	}{
		"own graph": {global: false, want: "team-a-llama"},
		"global":    {global: true, want: "dynamo"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := v1alpha1.ComputeDynamoNamespace(tc.global, "team-a", "llama"); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestNumberOfNodesFollowsTheMultinodeBlock(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec      *sharedSpec
		nodes     int32
		multinode bool
	}{
		"no spec":              {spec: nil, nodes: 1},
		"no multinode block":   {spec: &sharedSpec{}, nodes: 1},
		"block without count":  {spec: &sharedSpec{Multinode: &v1alpha1.MultinodeSpec{}}, nodes: 2, multinode: true},
		"block with a count":   {spec: &sharedSpec{Multinode: &v1alpha1.MultinodeSpec{NodeCount: 4}}, nodes: 4, multinode: true},
		"block with one node":  {spec: &sharedSpec{Multinode: &v1alpha1.MultinodeSpec{NodeCount: 1}}, nodes: 1},
		"block with two nodes": {spec: &sharedSpec{Multinode: &v1alpha1.MultinodeSpec{NodeCount: 2}}, nodes: 2, multinode: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.spec.GetNumberOfNodes(); got != tc.nodes {
				t.Errorf("got %d nodes, want %d", got, tc.nodes)
			}
			if got := tc.spec.IsMultinode(); got != tc.multinode {
				t.Errorf("got multinode %t, want %t", got, tc.multinode)
			}
		})
	}
}

func TestModelIsALoRAWhateverTheCase(t *testing.T) {
	t.Parallel()
	for modelType, want := range map[string]bool{"lora": true, "LoRA": true, "LORA": true, "base": false, "adapter": false, "": false} {
		model := v1alpha1.DynamoModel{Spec: v1alpha1.DynamoModelSpec{ModelType: modelType}}
		if got := model.IsLoRA(); got != want {
			t.Errorf("type %q: got %t, want %t", modelType, got, want)
		}
	}
}

func TestModelReadinessCountsEndpoints(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ready, total int
		want         bool
		state        string
	}{
		"nothing found": {ready: 0, total: 0, want: false, state: "not_ready"},
		"none ready":    {ready: 0, total: 2, want: false, state: "not_ready"},
		"some ready":    {ready: 1, total: 2, want: false, state: "not_ready"},
		"all ready":     {ready: 2, total: 2, want: true, state: "ready"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := v1alpha1.DynamoModel{Status: v1alpha1.DynamoModelStatus{ReadyEndpoints: tc.ready, TotalEndpoints: tc.total}}
			got, reason := model.IsReady()
			if got != tc.want || (reason == "") != tc.want {
				t.Errorf("got (%t, %q), want ready %t and a reason only when not ready", got, reason, tc.want)
			}
			if state := model.GetState(); state != tc.state {
				t.Errorf("got state %q, want %q", state, tc.state)
			}
		})
	}
}

func TestModelEndpointsAreFilteredByReadiness(t *testing.T) {
	t.Parallel()
	model := v1alpha1.DynamoModel{Status: v1alpha1.DynamoModelStatus{
		Endpoints: []v1alpha1.EndpointInfo{
			{Address: "http://10.0.0.1:9090", Ready: true}, {Address: "http://10.0.0.2:9090"}, {Address: "http://10.0.0.3:9090", Ready: true},
		},
		ReadyEndpoints: 2,
		TotalEndpoints: 3,
	}}
	want := []v1alpha1.EndpointInfo{{Address: "http://10.0.0.1:9090", Ready: true}, {Address: "http://10.0.0.3:9090", Ready: true}}
	if diff := cmp.Diff(want, model.GetReadyEndpoints()); diff != "" {
		t.Errorf("ready endpoints (-want +got):\n%s", diff)
	}
	if !model.HasEndpoints() || !model.HasReadyEndpoints() {
		t.Error("endpoints exist and some are ready, but the model says otherwise")
	}
	empty := v1alpha1.DynamoModel{}
	if empty.HasEndpoints() || empty.HasReadyEndpoints() || empty.GetReadyEndpoints() != nil {
		t.Error("a model without endpoints claims to have some")
	}
}

func TestComponentIsReadyOnlyWhileAvailableIsTrue(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		want       bool
		state      string
	}{
		"no conditions":      {conditions: nil, want: false, state: "not_ready"},
		"another condition":  {conditions: []metav1.Condition{{Type: "Valid", Status: metav1.ConditionTrue}}, want: false, state: "not_ready"},
		"available false":    {conditions: []metav1.Condition{{Type: "Available", Status: metav1.ConditionFalse}}, want: false, state: "not_ready"},
		"available unknown":  {conditions: []metav1.Condition{{Type: "Available", Status: metav1.ConditionUnknown}}, want: false, state: "not_ready"},
		"available and true": {conditions: []metav1.Condition{{Type: "Available", Status: metav1.ConditionTrue}}, want: true, state: "ready"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			component := v1alpha1.DynamoComponentDeployment{Status: v1alpha1.DynamoComponentDeploymentStatus{Conditions: tc.conditions}}
			got, reason := component.IsReady()
			if got != tc.want || (reason == "") != tc.want {
				t.Errorf("got (%t, %q), want ready %t and a reason only when not ready", got, reason, tc.want)
			}
			if state := component.GetState(); state != tc.state {
				t.Errorf("got state %q, want %q", state, tc.state)
			}
		})
	}
}

func TestComponentReportsItsServiceUnderItsName(t *testing.T) {
	t.Parallel()
	component := v1alpha1.DynamoComponentDeployment{}
	component.Spec.ServiceName = "decode"
	if got := component.GetServiceStatuses(); got == nil || len(got) != 0 {
		t.Errorf("without a status got %v, want an empty map", got)
	}
	status := v1alpha1.ServiceReplicaStatus{ComponentKind: v1alpha1.ComponentKindDeployment, ComponentName: "llama-decode", Replicas: 3}
	component.Status.Service = &status
	want := map[string]v1alpha1.ServiceReplicaStatus{"decode": status}
	if diff := cmp.Diff(want, component.GetServiceStatuses()); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
}

func TestComponentFindsItsGraphAmongItsOwners(t *testing.T) {
	t.Parallel()
	component := v1alpha1.DynamoComponentDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a"}}
	if got := component.GetParentGraphDeploymentName(); got != "" {
		t.Errorf("without owners got graph %q, want none", got)
	}
	component.OwnerReferences = []metav1.OwnerReference{
		{Kind: "ConfigMap", Name: "other"},
		{Kind: "DynamoGraphDeployment", Name: "llama", APIVersion: "nvidia.com/v1"},
		{Kind: "DynamoGraphDeployment", Name: "second"},
	}
	if got := component.GetParentGraphDeploymentName(); got != "llama" {
		t.Errorf("got graph %q, want the first graph among the owners", got)
	}
	if got := component.GetParentGraphDeploymentNamespace(); got != "team-a" {
		t.Errorf("got namespace %q, want the component's own", got)
	}
	if got := component.ComputeDynamoNamespace(); got != "team-a-llama" {
		t.Errorf("got Dynamo namespace %q, want team-a-llama", got)
	}
	component.Spec.GlobalDynamoNamespace = true
	if got := component.ComputeDynamoNamespace(); got != "dynamo" {
		t.Errorf("got Dynamo namespace %q, want the global one", got)
	}
}

func TestOnlyTheExactTypeIsAFrontend(t *testing.T) {
	t.Parallel()
	for componentType, want := range map[string]bool{"frontend": true, "Frontend": false, "worker": false, "": false} {
		component := v1alpha1.DynamoComponentDeployment{}
		component.Spec.ComponentType = componentType
		if got := component.IsFrontendComponent(); got != want {
			t.Errorf("type %q: got %t, want %t", componentType, got, want)
		}
	}
}

func TestDeploymentConfigIsKeptInOneVariable(t *testing.T) {
	t.Parallel()
	component := v1alpha1.DynamoComponentDeployment{}
	if got := component.GetDynamoDeploymentConfig(); got != nil {
		t.Errorf("without the variable got %q, want nil", got)
	}
	component.Spec.Envs = []corev1.EnvVar{{Name: "A", Value: "1"}}
	component.SetDynamoDeploymentConfig([]byte(`{"a":1}`))
	want := []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "DYN_DEPLOYMENT_CONFIG", Value: `{"a":1}`}}
	if diff := cmp.Diff(want, component.Spec.Envs); diff != "" {
		t.Errorf("variables after the first write (-want +got):\n%s", diff)
	}
	component.Spec.Envs[1].ValueFrom = &corev1.EnvVarSource{}
	component.SetDynamoDeploymentConfig([]byte(`{"b":2}`))
	want[1].Value = `{"b":2}`
	if diff := cmp.Diff(want, component.Spec.Envs); diff != "" {
		t.Errorf("variables after the second write (-want +got):\n%s", diff)
	}
	if got := string(component.GetDynamoDeploymentConfig()); got != `{"b":2}` {
		t.Errorf("got config %q, want what was written", got)
	}
}

func TestComponentDelegatesNodeQuestionsToItsSpec(t *testing.T) {
	t.Parallel()
	component := v1alpha1.DynamoComponentDeployment{}
	component.Spec.Multinode = &v1alpha1.MultinodeSpec{NodeCount: 3}
	if !component.IsMultinode() || component.GetNumberOfNodes() != 3 {
		t.Errorf("got multinode %t with %d nodes, want true with 3", component.IsMultinode(), component.GetNumberOfNodes())
	}
}

func TestStateIsUnknownUntilItIsSet(t *testing.T) {
	t.Parallel()
	graph := v1alpha1.DynamoGraphDeployment{}
	if got := graph.GetState(); got != "unknown" {
		t.Errorf("graph: got %q, want unknown", got)
	}
	graph.SetState(v1alpha1.GraphStateSuccessful)
	if got := graph.GetState(); got != "successful" {
		t.Errorf("graph: got %q, want successful", got)
	}
	request := v1alpha1.DynamoGraphDeploymentRequest{}
	if got := request.GetState(); got != "unknown" {
		t.Errorf("request: got %q, want unknown", got)
	}
	request.Status.State = v1alpha1.RequestStateProfiling
	if got := request.GetState(); got != "Profiling" {
		t.Errorf("request: got %q, want Profiling", got)
	}
}

func TestAddStatusConditionMovesTheTimeOnlyWithTheStatus(t *testing.T) {
	t.Parallel()
	early := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	late := metav1.NewTime(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC))
	for name, tc := range map[string]struct {
		next metav1.Condition
		want []metav1.Condition
	}{
		"same status, new reason": {
			next: metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "New", Message: "new", ObservedGeneration: 2, LastTransitionTime: late},
			want: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "New", Message: "new", ObservedGeneration: 2, LastTransitionTime: early}},
		},
		"new status": {
			next: metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "New", LastTransitionTime: late},
			want: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "New", LastTransitionTime: late}},
		},
		"new type": {
			next: metav1.Condition{Type: "Available", Status: metav1.ConditionTrue, Reason: "New", LastTransitionTime: late},
			want: []metav1.Condition{
				{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Old", LastTransitionTime: early},
				{Type: "Available", Status: metav1.ConditionTrue, Reason: "New", LastTransitionTime: late},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Old", LastTransitionTime: early}
			graph := v1alpha1.DynamoGraphDeployment{}
			graph.Status.Conditions = []metav1.Condition{old}
			graph.AddStatusCondition(tc.next)
			if diff := cmp.Diff(tc.want, graph.Status.Conditions); diff != "" {
				t.Errorf("graph conditions (-want +got):\n%s", diff)
			}
			request := v1alpha1.DynamoGraphDeploymentRequest{}
			request.Status.Conditions = []metav1.Condition{old}
			request.AddStatusCondition(tc.next)
			if diff := cmp.Diff(tc.want, request.Status.Conditions); diff != "" {
				t.Errorf("request conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGraphAnswersAboutServicesSurviveNilEntries(t *testing.T) {
	t.Parallel()
	graph := v1alpha1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "llama"}}
	graph.Spec.Services = map[string]*sharedSpec{"a": nil}
	if graph.HasAnyMultinodeService() || graph.HasEPPService() {
		t.Error("a nil service counts as multi-node or as an endpoint picker")
	}
	if got := graph.GetDynamoNamespaceForService(nil); got != "team-a-llama" {
		t.Errorf("got Dynamo namespace %q for a nil service, want that of the graph", got)
	}
	if got := graph.GetDynamoNamespaceForService(&sharedSpec{GlobalDynamoNamespace: true}); got != "dynamo" {
		t.Errorf("got Dynamo namespace %q for a global service, want dynamo", got)
	}
	graph.Spec.Services["b"] = &sharedSpec{Multinode: &v1alpha1.MultinodeSpec{NodeCount: 2}}
	if !graph.HasAnyMultinodeService() {
		t.Error("the multi-node service is not seen")
	}
}

func TestTheFirstEndpointPickerByNameIsChosen(t *testing.T) {
	t.Parallel()
	graph := v1alpha1.DynamoGraphDeployment{}
	if name, service, found := graph.GetEPPService(); found || name != "" || service != nil {
		t.Errorf("got (%q, %v, %t) for a graph without services, want nothing", name, service, found)
	}
	first := &sharedSpec{ComponentType: v1alpha1.ComponentTypeEPP}
	graph.Spec.Services = map[string]*sharedSpec{
		"z": {ComponentType: v1alpha1.ComponentTypeEPP}, "m": first, "a": {ComponentType: v1alpha1.ComponentTypeWorker}, "b": nil,
	}
	for range 50 {
		name, service, found := graph.GetEPPService()
		if !found || name != "m" || service != first {
			t.Fatalf("got (%q, %v, %t), want m every time", name, service, found)
		}
	}
	if !graph.HasEPPService() {
		t.Error("the endpoint picker is not seen")
	}
}

func TestAdapterIsReadyOnceItHasASelectorAndReplicas(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status v1alpha1.DynamoGraphDeploymentScalingAdapterStatus
		want   bool
		state  string
	}{
		"no selector": {status: v1alpha1.DynamoGraphDeploymentScalingAdapterStatus{Replicas: 1}, want: false, state: "not_ready"},
		"no replicas": {status: v1alpha1.DynamoGraphDeploymentScalingAdapterStatus{Selector: "a=b"}, want: false, state: "not_ready"},
		"both":        {status: v1alpha1.DynamoGraphDeploymentScalingAdapterStatus{Selector: "a=b", Replicas: 1}, want: true, state: "ready"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adapter := v1alpha1.DynamoGraphDeploymentScalingAdapter{Status: tc.status}
			got, reason := adapter.IsReady()
			if got != tc.want || (reason == "") != tc.want {
				t.Errorf("got (%t, %q), want ready %t and a reason only when not ready", got, reason, tc.want)
			}
			if state := adapter.GetState(); state != tc.state {
				t.Errorf("got state %q, want %q", state, tc.state)
			}
		})
	}
}
