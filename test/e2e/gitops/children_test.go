// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const restartedAt = "kubectl.kubernetes.io/restartedAt"

// foreignMarks fails unless what others set on the worker's Deployment is there.
func foreignMarks(t *testing.T, ns, when string) {
	t.Helper()
	var d appsv1.Deployment
	read(t, ns, "chat-decode", &d)
	if d.Labels["example.com/team"] != "blue" || d.Annotations["example.com/note"] != "seen" || d.Labels["example.com/app"] != "shop" ||
		d.Spec.Template.Annotations[restartedAt] == "" {
		t.Errorf("%s: labels %v, annotations %v, annotations of pods %v", when, d.Labels, d.Annotations, d.Spec.Template.Annotations)
	}
}

func TestWhatOthersPutOnChildrenStays(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	operator := harness.StartOperator(t, ns)
	kubectl(t, ns, "apply", "-f", file(t, manifest(first, replicas)))
	harness.AwaitReady(t, ns, "chat")
	since := mark(t)

	kubectl(t, ns, "label", "deployment", "chat-decode", "example.com/team=blue")
	kubectl(t, ns, "annotate", "deployment", "chat-decode", "example.com/note=seen")
	kubectl(t, ns, "apply", "--server-side", "--field-manager=argocd", "-f", file(t, `apiVersion: apps/v1
kind: Deployment
metadata:
  name: chat-decode
  labels: {example.com/app: shop}
`))
	kubectl(t, ns, "rollout", "restart", "deployment/chat-decode")
	// That pods are replaced is seen by the operator, too, and told.
	awaitReady(t, ns, metav1.ConditionFalse)
	kubectl(t, ns, "rollout", "status", "deployment/chat-decode", "--timeout=2m")
	awaitReady(t, ns, metav1.ConditionTrue)
	foreignMarks(t, ns, "after a restart by hand")
	if got := writes(t, operator.User, since); len(got) > 0 {
		t.Errorf("the operator answered with writes: %v", got)
	}

	kubectl(t, ns, "apply", "-f", file(t, manifest(second, replicas)))
	harness.AwaitReady(t, ns, "chat")
	foreignMarks(t, ns, "after a change of the graph")
	if got := writes(t, operator.User, since); fmt.Sprint(got) != "map[deployments:1 dynamocomponentdeployments:1]" {
		t.Errorf("a change of one image was written as %v", got)
	}
}

func awaitReady(t *testing.T, ns string, want metav1.ConditionStatus) {
	t.Helper()
	harness.Eventually(t, patience, "Ready is "+string(want), func() (bool, string) {
		c := meta.FindStatusCondition(graph(t, ns).Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Status == want, fmt.Sprint(c)
	})
}
