// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubelet runs the operator's Deployment as processes on a machine that cannot run pods. It stands for everything between a
// Deployment and its processes: its controller, which replaces pods one by one, the kubelet, which mounts their volumes and gives
// them the token of their account, and the controller that puts them behind Services. The API server has to be started with
// --enable-aggregator-routing=true, so that it looks up itself who is behind the Service of the webhooks.
package kubelet

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// endTimeout is how long a pod may take to end before a kubelet would kill it.
const endTimeout = 30 * time.Second

// Kubelet runs the pods of one Deployment.
type Kubelet struct {
	// Pods are those that run.
	Pods []*Pod
	// Hasty pods answer for a second after they are told to end, which is enough where endpoints follow at once, and hold the Lease
	// of the leader for six if they cannot give it back.
	Hasty bool

	t   testing.TB
	key client.ObjectKey
}

// New returns a kubelet for a Deployment that need not be there yet. Its pods end with the test.
func New(t testing.TB, namespace, deployment string) *Kubelet {
	return &Kubelet{t: t, key: client.ObjectKey{Namespace: namespace, Name: deployment}}
}

// Roll starts and ends pods until they are those that the Deployment asks for: a new one comes and is ready before an old one is
// told to end, as maxUnavailable 0 has it. Without the Deployment all pods end. It returns how long that took.
func (k *Kubelet) Roll() time.Duration {
	k.t.Helper()
	begin := time.Now()
	d := &appsv1.Deployment{}
	err := harness.Client(k.t).Get(k.t.Context(), k.key, d)
	if client.IgnoreNotFound(err) != nil {
		k.t.Fatal(err)
	}
	if err != nil {
		k.Stop()
		return time.Since(begin)
	}
	revision, wanted := k.revision(d), int(*d.Spec.Replicas)
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType && slices.ContainsFunc(k.Pods, func(p *Pod) bool { return p.revision != revision }) {
		k.Stop()
	}
	for {
		current := slices.DeleteFunc(slices.Clone(k.Pods), func(p *Pod) bool { return p.revision != revision })
		if len(current) < wanted {
			k.Pods = append(k.Pods, startPod(k.t, d, origin{revision: revision, hasty: k.Hasty}))
		}
		if len(k.Pods) > wanted {
			k.end(k.oldest(revision))
			continue
		}
		if len(current) >= wanted {
			break
		}
	}
	k.report(d)
	return time.Since(begin)
}

// revision tells pods of one template from those of another.
func (k *Kubelet) revision(d *appsv1.Deployment) string {
	k.t.Helper()
	text, err := json.Marshal(d.Spec.Template)
	if err != nil {
		k.t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// oldest is the pod that goes next: one of another revision, if there is one.
func (k *Kubelet) oldest(revision string) *Pod {
	if at := slices.IndexFunc(k.Pods, func(p *Pod) bool { return p.revision != revision }); at >= 0 {
		return k.Pods[at]
	}
	return k.Pods[0]
}

// end takes a pod from behind its Services and has it end.
func (k *Kubelet) end(p *Pod) {
	k.t.Helper()
	p.leave()
	p.Stop()
	k.Pods = slices.DeleteFunc(k.Pods, func(other *Pod) bool { return other == p })
}

// Stop ends all pods at once, as happens when their Deployment is deleted.
func (k *Kubelet) Stop() {
	k.t.Helper()
	for _, p := range k.Pods {
		p.leave()
		p.Signal(syscall.SIGTERM)
	}
	for _, p := range k.Pods {
		p.AwaitEnd(endTimeout)
	}
	k.Pods = nil
}

// report writes the status of the Deployment, for those who wait for it.
func (k *Kubelet) report(d *appsv1.Deployment) {
	k.t.Helper()
	n := int32(len(k.Pods))
	patch := client.MergeFrom(d.DeepCopy())
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable"}},
	}
	if err := harness.Client(k.t).Status().Patch(k.t.Context(), d, patch); err != nil {
		k.t.Fatalf("report on %s: %v", k.key, err)
	}
}
