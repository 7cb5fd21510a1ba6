// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// finalizers are about those that hold what is deleted: ours where there is something to clean up, and those of others.
func finalizers() map[string]func(scene) {
	return map[string]func(scene){
		"without etcd nothing has a finalizer":                                  nothingHasAFinalizer,
		"a finalizer that the reference left on a graph and a component goes":   leftFinalizersGo,
		"an object that the reference's finalizer holds goes, valid or not":     heldObjectsGo,
		"a graph that somebody else holds is left alone until it goes":          aHeldGraphIsLeftAlone,
		"a component that somebody else holds is made again when it has gone":   aHeldComponentComesBackLater,
		"a finalizer of ours that is taken off a component comes back":          aStrippedFinalizerComesBack,
		"a component that gives up discovery through etcd loses its finalizer":  aNeedlessFinalizerGoes,
		"a component made invalid is deleted all the same, and so are its keys": anInvalidComponentGoes,
	}
}

// hasOurs tells whether a component has our finalizer.
func (s scene) hasOurs(name string) bool {
	s.Helper()
	var c component
	s.get(name, &c)
	return slices.Contains(c.Finalizers, names.Finalizer)
}

func (s scene) awaitFinalizer(name string, wanted bool) {
	s.Helper()
	harness.Eventually(s, patience, "another finalizer on "+name, func() (bool, string) { return s.hasOurs(name) == wanted, "" })
}

func nothingHasAFinalizer(s scene) {
	s.create(s.chat().Obj())
	s.create(s.alone())
	s.settle(append(slices.Clone(ofChat), ofAlone...)...)
	for name, kind := range map[string]client.Object{"chat": &graph{}, "chat-frontend": &component{}, "solo": &component{}} {
		if s.get(name, kind); len(kind.GetFinalizers()) > 0 {
			s.Errorf("%s has finalizers %v", name, kind.GetFinalizers())
		}
	}
	s.remove("solo", &component{}, background)
	s.remove("chat", &graph{}, background)
	s.ends()
}

const ours = `{"metadata":{"finalizers":["` + names.Finalizer + `"]}}`

func leftFinalizersGo(s scene) {
	s.create(s.chat().Obj())
	s.settle(ofChat...)
	mark := s.mark()
	s.patch("chat", &graph{}, ours)
	s.patch("chat-decode", &component{}, ours)
	harness.Eventually(s, patience, "needless finalizers go", func() (bool, string) {
		var g graph
		s.get("chat", &g)
		return len(g.Finalizers) == 0 && !s.hasOurs("chat-decode"), ""
	})
	s.settle(ofChat...)
	got := s.since(mark, s.ns)
	slices.Sort(got)
	if want := []string{"patch dynamocomponentdeployments/chat-decode", "patch dynamographdeployments/chat"}; !slices.Equal(want, got) {
		s.Errorf("the operator wrote %v, want %v", got, want)
	}
	s.remove("chat", &graph{}, background)
	s.ends()
}

func heldObjectsGo(s scene) {
	g := builders.TwoComponents(s.ns, "chat").Change("Decode", builders.WithImage("")).Obj()
	g.Finalizers = []string{names.Finalizer, "example.com/theirs"}
	c := s.alone()
	c.Spec.ExtraPodSpec.MainContainer.Image = ""
	c.Finalizers = []string{"example.com/theirs", names.Finalizer}
	s.create(g)
	s.create(c)
	s.remove("chat", &graph{}, background)
	s.remove("solo", &component{}, background)
	harness.Eventually(s, patience, "ours is gone, and theirs is not", func() (bool, string) {
		s.get("chat", g)
		s.get("solo", c)
		want := []string{"example.com/theirs"}
		return slices.Equal(g.Finalizers, want) && slices.Equal(c.Finalizers, want), ""
	})
	s.patch("chat", &graph{}, `{"metadata":{"finalizers":null}}`)
	s.patch("solo", &component{}, `{"metadata":{"finalizers":null}}`)
	s.ends()
}

const theirs = `{"metadata":{"finalizers":["example.com/theirs"]}}`

func aHeldGraphIsLeftAlone(s scene) {
	s.create(s.chat().Obj())
	s.settle(ofChat...)
	s.patch("chat", &graph{}, theirs)
	mark := s.mark()
	s.remove("chat", &graph{}, foreground)
	s.ends("dynamographdeployments/chat") // its children go, and stay away
	s.wroteNothing(mark)
	s.patch("chat", &graph{}, `{"metadata":{"finalizers":null}}`)
	s.ends()
}

func aHeldComponentComesBackLater(s scene) {
	s.create(s.chat().Obj())
	s.settle(ofChat...)
	s.patch("chat-decode", &component{}, theirs)
	was, mark := s.uid("chat-decode", &component{}), s.mark()
	s.remove("chat-decode", &component{}, foreground)
	s.settle("dynamocomponentdeployments/chat-decode", "deployments/chat-frontend")
	if made := s.creations(mark, s.ns); len(made) > 0 {
		s.Errorf("made while the component is held: %v", made)
	}
	var c component
	if s.get("chat-decode", &c); c.UID != was || c.DeletionTimestamp == nil {
		s.Errorf("the component is not being held: %v", c.ObjectMeta)
	}
	s.patch("chat-decode", &component{}, `{"metadata":{"finalizers":null}}`)
	s.awaitOther("chat-decode", &component{}, was)
	s.settle(ofChat...)
	s.remove("chat", &graph{}, background)
	s.ends()
}

// inEtcd is a graph whose components find each other in etcd. Both names of its workers begin alike.
func (s scene) inEtcd() *v1alpha1.DynamoGraphDeployment {
	worker := builders.Args("python3 -m dynamo.vllm --model acme/tiny-1b")
	return builders.Graph(s.ns, "chat").Annotation(names.AnnotationDiscoveryBackend, names.DiscoveryEtcd).
		Service("decode", v1alpha1.ComponentTypeWorker, worker).Service("decode2", v1alpha1.ComponentTypeWorker, worker).Obj()
}

var ofInEtcd = []string{"deployments/chat-decode", "deployments/chat-decode2"}

func aStrippedFinalizerComesBack(s scene) {
	s.create(s.inEtcd())
	s.settle(ofInEtcd...)
	s.patch("chat-decode", &component{}, `{"metadata":{"finalizers":null}}`)
	s.awaitFinalizer("chat-decode", true)
	s.remove("chat", &graph{}, background)
	s.ends()
}

func aNeedlessFinalizerGoes(s scene) {
	s.create(s.inEtcd())
	s.settle(ofInEtcd...)
	if !s.hasOurs("chat-decode") {
		s.Errorf("the component has no finalizer of ours")
	}
	s.patch("chat", &graph{}, `{"metadata":{"annotations":{"`+names.AnnotationDiscoveryBackend+`":null}}}`)
	s.awaitFinalizer("chat-decode", false)
	s.remove("chat", &graph{}, background)
	s.ends()
}

func anInvalidComponentGoes(s scene) {
	c := s.alone()
	c.Spec.Annotations = map[string]string{names.AnnotationDiscoveryBackend: names.DiscoveryEtcd}
	s.create(c)
	s.settle("deployments/solo")
	if !s.hasOurs("solo") {
		s.Errorf("the component has no finalizer of ours")
	}
	s.patch("solo", &component{}, `{"spec":{"extraPodSpec":{"mainContainer":{"image":""}}}}`)
	s.remove("solo", &component{}, background)
	s.ends()
}

// keysInEtcd is what becomes of the keys of a component.
func keysInEtcd(etcd *harness.Etcd) map[string]func(scene) {
	stories := map[string]func(scene, *harness.Etcd){
		"exactly the keys of a component go with it":                          exactlyItsKeysGo,
		"the keys of a graph go with it in the background":                    func(s scene, e *harness.Etcd) { keysOfAGraphGo(s, e, background) },
		"the keys of a graph go with it in the foreground":                    func(s scene, e *harness.Etcd) { keysOfAGraphGo(s, e, foreground) },
		"the keys of pods that are orphaned stay":                             keysOfOrphansStay,
		"keys that a component of another graph is found under stay with it":  keysOfAllGraphsGoWithTheLast,
		"the finalizer comes before everything else and is one patch of it":   theFinalizerComesFirst,
		"a component without a graph has its keys deleted under its own name": keysOfAComponentAloneGo,
	}
	with := map[string]func(scene){}
	for name, story := range stories {
		with[name] = func(s scene) { story(s, etcd) }
	}
	return with
}

// keys returns the keys of the story.
func (s scene) keys(etcd *harness.Etcd) []string {
	s.Helper()
	return slices.DeleteFunc(etcd.Keys(), func(key string) bool { return !strings.Contains(key, s.ns) })
}

func (s scene) wantKeys(etcd *harness.Etcd, want ...string) {
	s.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, s.keys(etcd), cmpopts.EquateEmpty()); diff != "" {
		s.Errorf("keys (-want +got):\n%s", diff)
	}
}

func exactlyItsKeysGo(s scene, etcd *harness.Etcd) {
	below := "/" + s.ns + "-chat/components/"
	stay := []string{
		below + "decode", below + "decode2/generate:1", below + "decodes", below + "decode0", below + "decode.", below + "frontend/x",
		"/" + s.ns + "-chat2/components/decode/generate:1", "/" + s.ns + "-chat/models/decode/x", "/x/" + s.ns + "-chat/components/decode/x",
	}
	s.create(s.inEtcd())
	s.settle(ofInEtcd...)
	etcd.Put(append([]string{below + "decode/generate:1", below + "decode/generate:2", below + "decode/"}, stay...)...)
	was := s.uid("chat-decode", &component{})
	s.remove("chat-decode", &component{}, background)
	s.awaitOther("chat-decode", &component{}, was)
	s.wantKeys(etcd, stay...)
	s.settle(ofInEtcd...)
	s.remove("chat", &graph{}, background)
	s.ends()
	s.wantKeys(etcd, slices.DeleteFunc(stay, func(key string) bool { return key == below+"decode2/generate:1" })...)
}

func keysOfAGraphGo(s scene, etcd *harness.Etcd, policy metav1.DeletionPropagation) {
	below := "/" + s.ns + "-chat/components/"
	s.create(s.inEtcd())
	s.settle(ofInEtcd...)
	etcd.Put(below+"decode/a", below+"decode2/b")
	mark := s.mark()
	s.remove("chat", &graph{}, policy)
	s.ends()
	s.wantKeys(etcd)
	got := s.since(mark, s.ns)
	slices.Sort(got)
	if want := []string{"patch dynamocomponentdeployments/chat-decode", "patch dynamocomponentdeployments/chat-decode2"}; !slices.Equal(want, got) {
		s.Errorf("the operator wrote %v, want %v", got, want)
	}
}

func keysOfOrphansStay(s scene, etcd *harness.Etcd) {
	key := "/" + s.ns + "-chat/components/decode/a"
	s.create(s.inEtcd())
	s.settle(ofInEtcd...)
	etcd.Put(key)
	was := s.uid("chat-decode", &component{})
	s.remove("chat-decode", &component{}, orphan)
	s.awaitOther("chat-decode", &component{}, was)
	s.settle(ofInEtcd...)
	s.wantKeys(etcd, key) // its pods are still there
	s.remove("chat", &graph{}, background)
	s.ends()
	s.wantKeys(etcd)
}

func keysOfAllGraphsGoWithTheLast(s scene, etcd *harness.Etcd) {
	global := func(name string) *v1alpha1.DynamoGraphDeployment {
		return builders.Graph(s.ns, name).Annotation(names.AnnotationDiscoveryBackend, names.DiscoveryEtcd).
			Service(s.ns, v1alpha1.ComponentTypeWorker, func(c *v1alpha1.DynamoComponentDeploymentSharedSpec) { c.GlobalDynamoNamespace = true }).Obj()
	}
	s.create(global("a"))
	s.create(global("b"))
	s.settle("deployments/"+names.Component("a", s.ns), "deployments/"+names.Component("b", s.ns))
	key := "/dynamo/components/" + s.ns + "/x"
	etcd.Put(key)
	s.remove("a", &graph{}, background)
	s.awaitGone(names.Component("a", s.ns), &component{})
	s.wantKeys(etcd, key)
	s.remove("b", &graph{}, background)
	s.ends()
	s.wantKeys(etcd)
}

func theFinalizerComesFirst(s scene, _ *harness.Etcd) {
	mark := s.mark()
	s.create(s.inEtcd())
	s.settle(ofInEtcd...)
	var about []string
	for _, each := range s.since(mark, s.ns) {
		if strings.HasSuffix(each, "/chat-decode") {
			about = append(about, each)
		}
	}
	want := []string{"create dynamocomponentdeployments/chat-decode", "patch dynamocomponentdeployments/chat-decode"}
	if len(about) < 4 || !slices.Equal(about[:2], want) || slices.Contains(about[2:], want[1]) {
		s.Errorf("the operator wrote %v, want %v before everything else", about, want)
	}
	var c component
	if s.get("chat-decode", &c); c.Generation != 1 {
		s.Errorf("the component is in generation %d", c.Generation)
	}
	s.remove("chat", &graph{}, background)
	s.ends()
}

func keysOfAComponentAloneGo(s scene, etcd *harness.Etcd) {
	c := s.alone()
	c.Spec.Annotations = map[string]string{names.AnnotationDiscoveryBackend: names.DiscoveryEtcd}
	s.create(c)
	s.settle("deployments/solo")
	etcd.Put("/"+s.ns+"-solo/components/solo/a", "/"+s.ns+"-solo/components/solo2/a")
	s.remove("solo", &component{}, foreground)
	s.ends()
	s.wantKeys(etcd, "/"+s.ns+"-solo/components/solo2/a")
}
