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
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	// endTimeout is how long a pod may take to end before a kubelet would kill it.
	endTimeout = 30 * time.Second
	// lag is for how long a pod that was told to end is still behind its Services. In a cluster its signal and the change of the
	// endpoints start together, and the second takes a controller, a watch and the API server's own view longer.
	lag = time.Second
)

// Kubelet runs the pods of one Deployment.
type Kubelet struct {
	// Pods are those that run.
	Pods []*Pod
	// Programs are the operators that images of these tags have inside. All others have that of this tree.
	Programs map[string]string
	// Hasty pods leave their Services at once when they are told to end, answer for a second after that, and hold the Lease of the
	// leader for six if they cannot give it back. It is for stories in which nobody counts answers.
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
	from, wanted := k.origin(d), int(*d.Spec.Replicas)
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType && slices.ContainsFunc(k.Pods, func(p *Pod) bool { return p.revision != from.revision }) {
		k.Stop()
	}
	for {
		current := slices.DeleteFunc(slices.Clone(k.Pods), func(p *Pod) bool { return p.revision != from.revision })
		if len(current) < wanted {
			k.Pods = append(k.Pods, startPod(k.t, d, from))
		}
		if len(k.Pods) > wanted {
			old := k.oldest(from.revision)
			k.Tell(old)
			k.Await(old)
			continue
		}
		if len(current) >= wanted {
			break
		}
	}
	k.report(d)
	return time.Since(begin)
}

// origin is what pods of a Deployment are made from besides it. The revision tells those of one template from those of another.
func (k *Kubelet) origin(d *appsv1.Deployment) origin {
	k.t.Helper()
	text, err := json.Marshal(d.Spec.Template)
	if err != nil {
		k.t.Fatal(err)
	}
	return origin{revision: fmt.Sprintf("%x", sha256.Sum256(text)), hasty: k.Hasty, binary: k.program(d.Spec.Template.Spec.Containers[0].Image)}
}

// program is what an image has inside.
func (k *Kubelet) program(image string) string {
	k.t.Helper()
	// A registry before the last slash may have a port.
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	if path, ok := k.Programs[tag]; ok {
		return path
	}
	return harness.OperatorBinary(k.t)
}

// oldest is the pod that goes next: one of another revision, if there is one.
func (k *Kubelet) oldest(revision string) *Pod {
	if at := slices.IndexFunc(k.Pods, func(p *Pod) bool { return p.revision != revision }); at >= 0 {
		return k.Pods[at]
	}
	return k.Pods[0]
}

// Tell has a pod end, as its deletion does: it gets its signal at once, and has to answer for as long as it is still behind its
// Services. Await waits for both.
func (k *Kubelet) Tell(p *Pod) {
	k.t.Helper()
	after := lag
	if k.Hasty {
		after = 0
	}
	p.Signal(syscall.SIGTERM)
	left := make(chan error, 1)
	p.left = left
	go func() {
		<-time.After(after)
		left <- errors.Join(p.answers(), p.leave())
	}()
}

// Await waits until a pod that was told to end has ended.
func (k *Kubelet) Await(p *Pod) {
	k.t.Helper()
	if err := <-p.left; err != nil {
		k.t.Errorf("the end of %s: %v\n%s", p.Name, err, p.LastWords(10))
	}
	p.AwaitEnd(endTimeout)
	k.Pods = slices.DeleteFunc(k.Pods, func(other *Pod) bool { return other == p })
}

// Stop ends all pods at once, as happens when their Deployment is deleted.
func (k *Kubelet) Stop() {
	k.t.Helper()
	all := slices.Clone(k.Pods)
	for _, p := range all {
		k.Tell(p)
	}
	for _, p := range all {
		k.Await(p)
	}
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
