// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// verdict is what kstatus says of an object, with the generation that it is about.
func verdict(o *unstructured.Unstructured) string {
	result, err := status.Compute(o)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", o.GetGeneration(), result.Status)
}

// awaitVerdict asks kstatus about the live graph, as a tool does that waits for it.
func awaitVerdict(t *testing.T, ns string, want status.Status) {
	t.Helper()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.KindDynamoGraphDeployment))
	harness.Eventually(t, patience, "verdict "+want.String(), func() (bool, string) {
		if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "chat"}, live); err != nil {
			return false, err.Error()
		}
		result, err := status.Compute(live)
		if err != nil {
			return false, err.Error()
		}
		return result.Status == want, string(result.Status) + ": " + result.Message
	})
}

// TestEveryGenerationIsInProgressUntilThereIsAVerdictAboutIt takes a graph through its life as a repository does, and looks
// at every state that was ever stored.
func TestEveryGenerationIsInProgressUntilThereIsAVerdictAboutIt(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	graphs := record(t, ns, "chat", v1alpha1.GroupVersion.WithKind(v1alpha1.KindDynamoGraphDeployment))
	components := record(t, ns, "chat-decode", v1alpha1.GroupVersion.WithKind("DynamoComponentDeployment"))
	kubectl(t, ns, "apply", "-f", file(t, manifest(first, replicas)))
	awaitVerdict(t, ns, status.InProgressStatus) // nobody has looked at it yet
	harness.StartOperator(t, ns)
	for _, step := range []struct {
		text string
		want status.Status
	}{
		{manifest(first, replicas), status.CurrentStatus},
		{manifest(second, replicas), status.CurrentStatus},
		{manifest(`""`, replicas), status.FailedStatus}, // refused by the operator
		{manifest(first, replicas), status.CurrentStatus},
		{manifest(first+"\n          ports: [{containerPort: 99999}]", replicas), status.FailedStatus}, // refused by the API server
		{manifest(second, replicas), status.CurrentStatus},
	} {
		kubectl(t, ns, "apply", "-f", file(t, step.text))
		awaitVerdict(t, ns, step.want)
	}
	want := []string{
		"1 InProgress", "1 Current", "2 InProgress", "2 Current", "3 InProgress", "3 Failed",
		"4 InProgress", "4 Current", "5 InProgress", "5 Failed", "6 InProgress", "6 Current",
	}
	if diff := cmp.Diff(want, graphs.end(t, verdict)); diff != "" {
		t.Errorf("the graph (-want +got):\n%s", diff)
	}
	// A component has no status before the first look, which counts as current. The refused graph never reached it.
	want = []string{
		"1 Current", "1 InProgress", "1 Current", "2 InProgress", "2 Current", "3 InProgress", "3 Current",
		"4 InProgress", "4 Failed", "5 InProgress", "5 Current",
	}
	if diff := cmp.Diff(want, components.end(t, verdict)); diff != "" {
		t.Errorf("its component (-want +got):\n%s", diff)
	}
}

func TestAnAdapterIsCurrentWhenItsNumberHasArrived(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.StartOperator(t, ns)
	adapters := record(t, ns, "chat-decode", v1alpha1.GroupVersion.WithKind(v1alpha1.KindDynamoGraphDeploymentScalingAdapter))
	kubectl(t, ns, "apply", "-f", file(t, manifest(first, scaled)))
	harness.AwaitReady(t, ns, "chat")
	kubectl(t, ns, "scale", "dgdsa/chat-decode", "--replicas=2")
	awaitReplicas(t, ns, 2)
	want := []string{"1 InProgress", "1 Current", "2 InProgress", "2 Current"}
	if diff := cmp.Diff(want, adapters.end(t, verdict)); diff != "" {
		t.Errorf("the adapter (-want +got):\n%s", diff)
	}
}
