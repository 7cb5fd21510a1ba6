// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// keySecret is the name of the Secret with the key pair of mpirun.
const keySecret = "mpi-run-ssh-secret"

// sharing is what becomes of objects that graphs have in common.
func sharing() map[string]func(scene) {
	return map[string]func(scene){
		"what graphs share goes with the last of them by background deletion": func(s scene) { sharedGoWithTheLast(s, background) },
		"what graphs share goes with the last of them by foreground deletion": func(s scene) { sharedGoWithTheLast(s, foreground) },
		"a graph that no longer needs what it shares leaves it to the other":  aGraphLeavesWhatItShares,
	}
}

// several is a graph with a planner and a TensorRT-LLM worker of two nodes, which needs the key of mpirun.
func (s scene) several(name string) *v1alpha1.DynamoGraphDeployment {
	return builders.Graph(s.ns, name).
		Service("Planner", v1alpha1.ComponentTypePlanner, builders.Args("python3 -m dynamo.planner")).
		Service("Engine", v1alpha1.ComponentTypeWorker, builders.Args("python3 -m dynamo.trtllm --model-path /m"), builders.Nodes(2)).Obj()
}

// shared are what two such graphs have in common.
func shared() map[string]client.Object {
	return map[string]client.Object{
		names.PlannerAccount: &corev1.ServiceAccount{}, names.Binding(names.PlannerAccount): &rbacv1.RoleBinding{}, keySecret: &corev1.Secret{},
	}
}

var ofSeveral = []string{
	"secrets/" + keySecret, "serviceaccounts/" + names.PlannerAccount, "rolebindings/" + names.Binding(names.PlannerAccount),
	"leaderworkersets/one-engine-0", "leaderworkersets/two-engine-0", "deployments/one-planner", "deployments/two-planner",
}

func sharedGoWithTheLast(s scene, policy metav1.DeletionPropagation) {
	s.create(s.several("one"))
	s.create(s.several("two"))
	s.settle(ofSeveral...)
	for name, object := range shared() {
		if s.get(name, object); len(object.GetOwnerReferences()) != 2 {
			s.Errorf("%s has owners %v, want both graphs", name, object.GetOwnerReferences())
		}
	}
	mark := s.mark()
	s.remove("one", &graph{}, policy)
	s.awaitGone("one", &graph{})
	s.settle("deployments/two-planner", "leaderworkersets/two-engine-0")
	for name, object := range shared() {
		s.get(name, object) // the other still needs it
	}
	s.remove("two", &graph{}, policy)
	s.ends()
	if made := s.creations(mark, s.ns); len(made) > 0 {
		s.Errorf("made again: %v", made)
	}
}

func aGraphLeavesWhatItShares(s scene) {
	s.create(s.several("one"))
	s.create(s.several("two"))
	s.settle(ofSeveral...)
	// vLLM does without mpirun, and so without its key.
	s.patch("one", &graph{}, `{"spec":{"services":{"Engine":{"extraPodSpec":{"mainContainer":{"args":["python3 -m dynamo.vllm --model acme/tiny-1b --tensor-parallel-size 2"]}}}}}}`)
	owners := func() []metav1.OwnerReference {
		var key corev1.Secret
		s.get(keySecret, &key)
		return key.OwnerReferences
	}
	harness.Eventually(s, patience, "the key is left to the other graph", func() (bool, string) {
		return len(owners()) == 1 && owners()[0].Name == "two", fmt.Sprint(owners())
	})
	s.settle(ofSeveral...)
	s.remove("two", &graph{}, background)
	s.awaitGone(keySecret, &corev1.Secret{})
	s.settle("deployments/one-planner", "serviceaccounts/"+names.PlannerAccount) // which one still needs
	s.remove("one", &graph{}, background)
	s.ends()
}

// claims are what becomes of data.
func claims() map[string]func(scene) {
	return map[string]func(scene){
		"a claim stays if its graph was made so":                 aClaimStays,
		"a claim stays if its graph was told so later":           aClaimStaysLater,
		"a claim that the graph no longer names stays, too":      aForgottenClaimStays,
		"a claim of a graph that cannot be rendered stays, too":  aRefusedGraphKeepsItsClaim,
		"a retained claim is used by a graph that is made again": aClaimIsUsedAgain,
	}
}

const retain = `{"metadata":{"annotations":{"` + names.AnnotationRetainClaims + `":"true"}}}`

func (s scene) claim() *corev1.PersistentVolumeClaim {
	s.Helper()
	var claim corev1.PersistentVolumeClaim
	s.get("weights", &claim)
	return &claim
}

// awaitReleased waits until the claim belongs to nobody.
func (s scene) awaitReleased() {
	s.Helper()
	s.settle("persistentvolumeclaims/weights")
	if claim := s.claim(); len(claim.OwnerReferences) > 0 || claim.Labels[names.LabelGraph] != "chat" {
		s.Errorf("the claim has owners %v and labels %v", claim.OwnerReferences, claim.Labels)
	}
}

func aClaimStays(s scene) {
	s.create(s.chat().Annotation(names.AnnotationRetainClaims, names.True).Obj())
	s.settle(ofChat...)
	s.awaitReleased()
	if claim := s.claim(); claim.Labels[names.LabelApplied] != names.OperatorName {
		s.Errorf("the claim has labels %v, want ours", claim.Labels)
	}
	s.remove("chat", &graph{}, foreground)
	s.ends("persistentvolumeclaims/weights")
}

func aClaimStaysLater(s scene) {
	s.create(s.chat().Obj())
	s.settle(ofChat...)
	before := s.claim()
	if len(before.OwnerReferences) != 1 {
		s.Fatalf("the claim has owners %v, want its graph", before.OwnerReferences)
	}
	mark := s.mark()
	s.patch("chat", &graph{}, retain)
	s.awaitReleased()
	if got := s.since(mark, s.ns); !slices.Equal(got, []string{"patch persistentvolumeclaims/weights"}) {
		s.Errorf("for a claim to be let go, the operator wrote: %v", got)
	}
	s.remove("chat", &graph{}, background)
	s.ends("persistentvolumeclaims/weights")
	if after := s.claim(); after.UID != before.UID {
		s.Errorf("the claim is another one now")
	}
}

func aForgottenClaimStays(s scene) {
	s.create(s.chat().Obj())
	s.settle(ofChat...)
	s.patch("chat", &graph{}, `{"spec":{"pvcs":null}}`)
	s.settle(ofChat...)
	s.patch("chat", &graph{}, retain)
	s.awaitReleased()
	s.remove("chat", &graph{}, background)
	s.ends("persistentvolumeclaims/weights")
}

func aRefusedGraphKeepsItsClaim(s scene) {
	s.create(s.chat().Obj())
	s.settle(ofChat...)
	s.patch("chat", &graph{}, `{"spec":{"services":{"Decode":{"extraPodSpec":{"mainContainer":{"image":""}}}}},"metadata":{"annotations":{"`+
		names.AnnotationRetainClaims+`":"true"}}}`)
	s.awaitReleased()
	s.remove("chat", &graph{}, background)
	s.ends("persistentvolumeclaims/weights")
}

func aClaimIsUsedAgain(s scene) {
	s.create(s.chat().Annotation(names.AnnotationRetainClaims, names.True).Obj())
	s.settle(ofChat...)
	before := s.claim()
	s.remove("chat", &graph{}, background)
	s.ends("persistentvolumeclaims/weights")
	s.create(s.chat().Obj()) // without the annotation
	s.settle(ofChat...)
	if after := s.claim(); after.UID != before.UID || after.ResourceVersion != before.ResourceVersion {
		s.Errorf("the claim changed: UID %s was %s, version %s was %s", after.UID, before.UID, after.ResourceVersion, before.ResourceVersion)
	}
	s.remove("chat", &graph{}, background)
	s.ends("persistentvolumeclaims/weights")
}
