// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"
)

// templateAnnotation carries, in the cache only, the hash of the template that a revision records.
const templateAnnotation = "nvidia.com/template-hash"

// Group is the state of one LeaderWorkerSet of one replica. LeaderWorkerSet does not say which generation its status is
// about, so it is read from what cannot be stale in that way: the revision it records for a template, and the pods that
// carry that revision.
type Group struct {
	// Updated is how many of its pods are of the template that is live now, Ready how many of those serve.
	Updated, Ready int32
	// Serves tells that all pods of some one revision are ready.
	Serves bool
	// Present is how many pods there are of any revision.
	Present int32
	Pods    []*corev1.Pod
}

// Done tells whether all pods of a replica of size nodes are of the live template and ready.
func (g Group) Done(size int32) bool { return g.Ready >= size && g.Present == g.Ready }

// FoldRevision reduces a revision of a LeaderWorkerSet to the hash of its template.
func FoldRevision(obj any) (any, error) {
	r, ok := obj.(*appsv1.ControllerRevision)
	if !ok || r.Data.Raw == nil {
		return obj, nil // informers may fold an object twice
	}
	folded := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
		Name: r.Name, Namespace: r.Namespace, UID: r.UID, ResourceVersion: r.ResourceVersion,
		Labels: r.Labels, OwnerReferences: r.OwnerReferences,
	}, Revision: r.Revision}
	var recorded struct {
		Spec struct {
			Template lwsv1.LeaderWorkerTemplate `json:"leaderWorkerTemplate"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(r.Data.Raw, &recorded); err != nil {
		return folded, nil //nolint:nilerr // a revision that cannot be read records no template of ours
	}
	folded.Annotations = map[string]string{templateAnnotation: templateHash(&recorded.Spec.Template)}
	return folded, nil
}

func templateHash(t *lwsv1.LeaderWorkerTemplate) string {
	text, err := json.Marshal(t)
	if err != nil {
		return "" // equal to no recorded hash
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// IndexRevisions makes revisions findable by the LeaderWorkerSet that recorded them.
func IndexRevisions(ctx context.Context, indexer client.FieldIndexer) error {
	return Index(ctx, indexer, &appsv1.ControllerRevision{})
}

// Groups reads the state of LeaderWorkerSets.
type Groups struct{ Cache client.Reader }

// Of returns the state of one set.
func (g Groups) Of(ctx context.Context, set *lwsv1.LeaderWorkerSet) (Group, error) {
	pods, err := Pods(g).Of(ctx, set.Namespace, set.Name)
	if err != nil {
		return Group{}, err
	}
	current, err := g.revision(ctx, set)
	if err != nil {
		return Group{}, err
	}
	size := ptr.Deref(set.Spec.LeaderWorkerTemplate.Size, 1)
	group := Group{Pods: pods, Present: int32(min(len(pods), int(^uint32(0)>>1)))}
	ready := map[string]int32{}
	for _, pod := range pods {
		revision := pod.Labels[lwsv1.RevisionKey]
		if revision == current && current != "" {
			group.Updated++
		}
		if IsReady(pod) {
			ready[revision]++
			group.Serves = group.Serves || ready[revision] >= size
		}
	}
	if current != "" {
		group.Ready = ready[current]
	}
	return group, nil
}

// revision is the key of the revision that records the template a set has now, empty if LeaderWorkerSet has not
// recorded it yet.
func (g Groups) revision(ctx context.Context, set *lwsv1.LeaderWorkerSet) (string, error) {
	var found appsv1.ControllerRevisionList
	err := g.Cache.List(ctx, &found, client.InNamespace(set.Namespace), client.MatchingFields{byOwner: string(set.UID)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return "", fmt.Errorf("list revisions of %q: %w", set.Name, err)
	}
	want := templateHash(&set.Spec.LeaderWorkerTemplate)
	for i := range found.Items {
		if found.Items[i].Annotations[templateAnnotation] == want {
			return found.Items[i].Labels[lwsv1.RevisionKey], nil
		}
	}
	return "", nil
}

// IsReady tells whether a pod serves.
func IsReady(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
