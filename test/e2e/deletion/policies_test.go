// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/faults"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	background = metav1.DeletePropagationBackground
	foreground = metav1.DeletePropagationForeground
	orphan     = metav1.DeletePropagationOrphan
)

type (
	graph     = v1alpha1.DynamoGraphDeployment
	component = v1alpha1.DynamoComponentDeployment
	adapter   = v1alpha1.DynamoGraphDeploymentScalingAdapter
)

// TestUnderAnOperatorThatRuns tells what is deleted under one operator that works in all namespaces.
func TestUnderAnOperatorThatRuns(t *testing.T) {
	etcd := harness.StartEtcd(t)
	keys := harness.Namespace(t) // where the key pair of mpirun is kept
	w := &writes{}
	harness.StartOperator(t, harness.ClusterWide, harness.WithTransport(w.wrap), harness.WithFlags(
		"--planner-cluster-role-name=dynamo-operator-planner", "--epp-cluster-role-name=dynamo-operator-epp",
		"--mpi-run-ssh-secret-namespace="+keys, "--etcdAddr="+etcd.Address))
	stories := map[string]func(scene){}
	for _, more := range []map[string]func(scene){policies(), orders(), sharing(), claims(), finalizers(), keysInEtcd(etcd)} {
		maps.Copy(stories, more)
	}
	t.Run("stories", func(t *testing.T) { // the operator outlives what runs in parallel below
		for name, story := range stories {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				story(newScene(t, harness.Namespace(t), w))
			})
		}
	})
}

// policies are what becomes of what is deleted by each policy.
func policies() map[string]func(scene) {
	stories := map[string]func(scene){
		"a graph that is orphaned leaves its children, which the same graph adopts": aGraphIsOrphanedAndMadeAgain,
		"a component of a graph that is orphaned is adopted piece by piece":         aComponentOfAGraphIsOrphaned,
		"a stand-alone component that is orphaned leaves what it made":              aComponentAloneIsOrphaned,
	}
	for _, policy := range []metav1.DeletionPropagation{background, foreground} {
		by := " by " + strings.ToLower(string(policy)) + " deletion"
		stories["a graph goes with everything"+by] = func(s scene) { aGraphGoes(s, policy) }
		stories["a component of a graph comes back once after it went"+by] = func(s scene) { aComponentOfAGraphComesBack(s, policy) }
		stories["a stand-alone component goes with everything"+by] = func(s scene) { aComponentAloneGoes(s, policy) }
	}
	return stories
}

func aGraphGoes(s scene, policy metav1.DeletionPropagation) {
	s.create(s.chat().Obj())
	s.settle(ofChat...)
	mark := s.mark()
	s.remove("chat", &graph{}, policy)
	s.ends()
	s.wroteNothing(mark)
}

func aComponentAloneGoes(s scene, policy metav1.DeletionPropagation) {
	s.create(s.alone())
	s.settle(ofAlone...)
	mark := s.mark()
	s.remove("solo", &component{}, policy)
	s.ends()
	s.wroteNothing(mark)
}

func aComponentOfAGraphComesBack(s scene, policy metav1.DeletionPropagation) {
	s.create(s.chat().Obj())
	s.settle(ofChat...)
	before, mark := s.identities(), s.mark()
	s.remove("chat-decode", &component{}, policy)
	s.awaitOther("chat-decode", &component{}, before["dynamocomponentdeployments/chat-decode"])
	s.awaitOther("chat-decode", &appsv1.Deployment{}, before["deployments/chat-decode"])
	s.awaitOther("chat-decode", &corev1.Service{}, before["services/chat-decode"])
	s.settle(ofChat...)
	want := []string{"deployments/chat-decode", "dynamocomponentdeployments/chat-decode", "services/chat-decode"}
	if made := slices.DeleteFunc(s.creations(mark, s.ns), func(o string) bool { return strings.Contains(o, "model") }); cmp.Diff(want, made) != "" {
		s.Errorf("made again (-want +got):\n%s", cmp.Diff(want, made))
	}
	if s.uid("chat-frontend", &appsv1.Deployment{}) != before["deployments/chat-frontend"] {
		s.Errorf("the other component's Deployment is another one now")
	}
	s.remove("chat", &graph{}, background)
	s.ends()
}

// awaitOther waits until an object of the name is there that is not the one it was.
func (s scene) awaitOther(name string, kind client.Object, was types.UID) {
	s.Helper()
	harness.Eventually(s, patience, name+" is made again", func() (bool, string) {
		err := harness.Client(s).Get(s.Context(), client.ObjectKey{Namespace: s.ns, Name: name}, kind)
		return err == nil && kind.GetUID() != was, "not yet"
	})
}

// identities are the UIDs of everything that is there, by resource and name.
func (s scene) identities() map[string]types.UID {
	s.Helper()
	found := map[string]types.UID{}
	for resource, kind := range map[string]client.ObjectList{
		"deployments/": &appsv1.DeploymentList{}, "services/": &corev1.ServiceList{}, "pods/": &corev1.PodList{},
		"serviceaccounts/": &corev1.ServiceAccountList{}, "roles/": &rbacv1.RoleList{}, "rolebindings/": &rbacv1.RoleBindingList{},
		"persistentvolumeclaims/": &corev1.PersistentVolumeClaimList{}, "dynamocomponentdeployments/": &v1alpha1.DynamoComponentDeploymentList{},
		"dynamographdeploymentscalingadapters/": &v1alpha1.DynamoGraphDeploymentScalingAdapterList{},
	} {
		if err := harness.Client(s).List(s.Context(), kind, client.InNamespace(s.ns)); err != nil {
			s.Fatal(err)
		}
		err := meta.EachListItem(kind, func(item runtime.Object) error {
			if object, ok := item.(client.Object); ok {
				found[resource+object.GetName()] = object.GetUID()
			}
			return nil
		})
		if err != nil {
			s.Fatal(err)
		}
	}
	return found
}

func aGraphIsOrphanedAndMadeAgain(s scene) {
	s.create(s.chat().Obj())
	s.settle(ofChat...)
	before, generation, mark := s.identities(), s.generation("chat-decode"), s.mark()
	s.remove("chat", &graph{}, orphan)
	s.awaitGone("chat", &graph{})
	s.settle(ofChat...)
	if diff := cmp.Diff(before, s.identities()); diff != "" {
		s.Fatalf("after the orphans were left (-before +after):\n%s", diff)
	}
	if got := s.since(mark, s.ns); !slices.Equal(got, []string{"put dynamographdeploymentscalingadapters/chat-decode/status"}) {
		s.Errorf("the operator wrote %v, want that the adapter misses its graph and nothing else", got)
	}

	s.create(s.chat().Obj())
	s.settle(append([]string{"dynamographdeployments/chat"}, ofChat...)...)
	if diff := cmp.Diff(before, s.identities()); diff != "" {
		s.Errorf("after the graph was made again (-before +after):\n%s", diff)
	}
	if now := s.generation("chat-decode"); now != generation {
		s.Errorf("the Deployment is in generation %d, was in %d", now, generation)
	}
	var g graph
	s.get("chat", &g)
	for name, child := range map[string]client.Object{
		"chat-decode": &component{}, "chat-frontend": &component{}, names.DiscoveryRole("chat"): &rbacv1.Role{},
		names.DiscoveryAccount("chat"): &corev1.ServiceAccount{}, names.DiscoveryBinding("chat"): &rbacv1.RoleBinding{},
	} {
		if s.get(name, child); !metav1.IsControlledBy(child, &g) {
			s.Errorf("%T %s has owners %v", child, name, child.GetOwnerReferences())
		}
	}
	var a adapter
	if s.get("chat-decode", &a); !metav1.IsControlledBy(&a, &g) {
		s.Errorf("the scaling adapter has owners %v", a.OwnerReferences)
	}
	s.remove("chat", &graph{}, background)
	// The claim was let go on purpose: its data are not tied to the life of a graph again.
	s.ends("persistentvolumeclaims/weights")
}

func aComponentOfAGraphIsOrphaned(s scene) {
	s.create(s.chat().Obj())
	s.settle(ofChat...)
	before, revision, mark := s.identities(), s.revision("chat-decode"), s.mark()
	was := before["dynamocomponentdeployments/chat-decode"]
	s.remove("chat-decode", &component{}, orphan)
	s.awaitOther("chat-decode", &component{}, was)
	s.settle(ofChat...)
	after := s.identities()
	delete(before, "dynamocomponentdeployments/chat-decode")
	delete(after, "dynamocomponentdeployments/chat-decode")
	if diff := cmp.Diff(before, after); diff != "" {
		s.Errorf("(-before +after):\n%s", diff)
	}
	if made := s.creations(mark, s.ns); cmp.Diff([]string{"dynamocomponentdeployments/chat-decode"}, made) != "" {
		s.Errorf("made again: %v", made)
	}
	var c component
	var d appsv1.Deployment
	s.get("chat-decode", &c)
	if s.get("chat-decode", &d); !metav1.IsControlledBy(&d, &c) || s.revision("chat-decode") != revision {
		s.Errorf("the Deployment has owners %v and is in revision %s, was in %s", d.OwnerReferences, s.revision("chat-decode"), revision)
	}
	s.remove("chat", &graph{}, background)
	s.ends()
}

func aComponentAloneIsOrphaned(s scene) {
	s.create(s.alone())
	s.settle(ofAlone...)
	before, mark := s.identities(), s.mark()
	s.remove("solo", &component{}, orphan)
	s.awaitGone("solo", &component{})
	s.settle(ofAlone...)
	delete(before, "dynamocomponentdeployments/solo")
	if diff := cmp.Diff(before, s.identities()); diff != "" {
		s.Errorf("(-before +after):\n%s", diff)
	}
	s.wroteNothing(mark)
	s.create(s.alone())
	s.settle(append([]string{"dynamocomponentdeployments/solo"}, ofAlone...)...)
	var c component
	var d appsv1.Deployment
	s.get("solo", &c)
	if s.get("solo", &d); !metav1.IsControlledBy(&d, &c) || d.UID != before["deployments/solo"] || s.revision("solo") != "1" {
		s.Errorf("the Deployment has owners %v and revision %s, and is the same: %v", d.OwnerReferences, s.revision("solo"), d.UID == before["deployments/solo"])
	}
	s.remove("solo", &component{}, background)
	s.ends()
}

// orders are what becomes of a graph that is deleted piece by piece, and with its namespace.
func orders() map[string]func(scene) {
	stories := map[string]func(scene){
		"a namespace goes with a graph in it": aNamespaceGoes,
	}
	for order, first := range map[string]struct {
		name string
		kind client.Object
	}{
		"a component":  {"chat-decode", &component{}},
		"a Deployment": {"chat-decode", &appsv1.Deployment{}},
		"a Service":    {"chat-decode", &corev1.Service{}},
		"an adapter":   {"chat-decode", &adapter{}},
		"an account":   {names.DiscoveryAccount("chat"), &corev1.ServiceAccount{}},
	} {
		copied := func() client.Object { return first.kind.DeepCopyObject().(client.Object) }
		stories["first "+order+" is deleted, then its graph"] = func(s scene) {
			s.create(s.chat().Obj())
			s.settle(ofChat...)
			s.remove(first.name, copied(), background)
			s.remove("chat", &graph{}, background)
			s.ends()
		}
		stories["first a graph is deleted in the foreground, then "+order] = func(s scene) {
			s.create(s.chat().Obj())
			s.settle(ofChat...)
			mark := s.mark()
			s.remove("chat", &graph{}, foreground)
			child := copied()
			child.SetNamespace(s.ns)
			child.SetName(first.name)
			if err := harness.Client(s).Delete(s.Context(), child); client.IgnoreNotFound(err) != nil {
				s.Fatal(err)
			}
			s.ends()
			if made := s.creations(mark, s.ns); len(made) > 0 {
				s.Errorf("made again: %v", made)
			}
		}
	}
	return stories
}

func aNamespaceGoes(s scene) {
	s.create(s.chat().Annotation(names.AnnotationDiscoveryBackend, names.DiscoveryEtcd).Obj())
	s.settle("deployments/chat-decode", "deployments/chat-frontend")
	var c component
	if s.get("chat-decode", &c); !slices.Contains(c.Finalizers, names.Finalizer) {
		s.Errorf("the component has finalizers %v, so that nothing is held", c.Finalizers)
	}
	mark := s.mark()
	if err := harness.Client(s).Delete(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}}); err != nil {
		s.Fatal(err)
	}
	s.watch("the end of the namespace", func(now faults.Versions) (bool, string) {
		err := harness.Client(s).Get(s.Context(), client.ObjectKey{Name: s.ns}, &corev1.Namespace{})
		return client.IgnoreNotFound(err) == nil && err != nil, cmp.Diff(faults.Versions{}, now)
	})
	if made := s.creations(mark, s.ns); len(made) > 0 {
		s.Errorf("made while the namespace went: %v", made)
	}
}
