// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/test/faults"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// TestWhatIsDeletedWhileThereIsNoOperatorGoesAndStaysAway deletes under nobody's eyes and starts an operator afterwards.
func TestWhatIsDeletedWhileThereIsNoOperatorGoesAndStaysAway(t *testing.T) {
	for _, policy := range []metav1.DeletionPropagation{background, foreground} {
		by := " by " + strings.ToLower(string(policy)) + " deletion"
		for name, story := range map[string]func(scene, metav1.DeletionPropagation){
			"a graph":                      aGraphGoesUnseen,
			"a component of a graph":       aComponentOfAGraphGoesUnseen,
			"a graph with keys in etcd":    keysOfAGraphGoUnseen,
			"a graph that is made again":   aGraphIsMadeAgainUnseen,
			"an orphaned graph that stays": aGraphIsOrphanedUnseen,
		} {
			t.Run(name+by, func(t *testing.T) {
				t.Parallel()
				story(newScene(t, harness.Namespace(t), &writes{}), policy)
			})
		}
	}
}

// operator starts an operator for the story's namespace.
func (s scene) operator(flags ...string) *harness.Operator {
	s.Helper()
	return harness.StartOperator(s, s.ns, harness.WithTransport(s.wrap), harness.WithFlags(flags...))
}

func aGraphGoesUnseen(s scene, policy metav1.DeletionPropagation) {
	first := s.operator()
	s.create(s.chat().Obj())
	s.settle(ofChat...)
	first.Stop()
	mark := s.mark()
	s.remove("chat", &graph{}, policy)
	s.ends() // nobody has to be waited for
	s.operator()
	s.ends()
	s.wroteNothing(mark)
}

func aComponentOfAGraphGoesUnseen(s scene, policy metav1.DeletionPropagation) {
	first := s.operator()
	s.create(s.chat().Obj())
	s.settle(ofChat...)
	first.Stop()
	s.remove("chat-decode", &component{}, policy)
	s.awaitGone("chat-decode", &component{})
	s.operator()
	s.settle(ofChat...)
	s.remove("chat", &graph{}, policy)
	s.ends()
}

func keysOfAGraphGoUnseen(s scene, policy metav1.DeletionPropagation) {
	etcd := harness.StartEtcd(s)
	first := s.operator("--etcdAddr=" + etcd.Address)
	s.create(s.inEtcd())
	s.settle(ofInEtcd...)
	first.Stop()
	etcd.Put("/"+s.ns+"-chat/components/decode/a", "/"+s.ns+"-chat/components/decode2/a", "/"+s.ns+"-other/components/decode/a")
	s.remove("chat", &graph{}, policy)
	s.settle("dynamocomponentdeployments/chat-decode", "dynamocomponentdeployments/chat-decode2") // they wait
	s.operator("--etcdAddr=" + etcd.Address)
	s.ends()
	s.wantKeys(etcd, "/"+s.ns+"-other/components/decode/a")
}

func aGraphIsMadeAgainUnseen(s scene, policy metav1.DeletionPropagation) {
	first := s.operator()
	s.create(s.chat().Obj())
	s.settle(ofChat...)
	first.Stop()
	before := s.identities()
	s.remove("chat", &graph{}, policy)
	s.awaitGone("chat", &graph{})
	s.create(s.chat().Obj())
	s.operator()
	s.watch("everything is another's now", func(faults.Versions) (bool, string) {
		now := s.identities()
		for _, object := range ofChat {
			// The Service of a model belongs to whoever serves it, and that is no graph.
			if object != modelService && (now[object] == "" || now[object] == before[object]) {
				return false, object
			}
		}
		return true, ""
	})
	s.settle(ofChat...)
	s.remove("chat", &graph{}, policy)
	s.ends()
}

// aGraphIsOrphanedUnseen orphans a graph whose children are deleted by the policy afterwards.
func aGraphIsOrphanedUnseen(s scene, policy metav1.DeletionPropagation) {
	first := s.operator()
	s.create(s.chat().Obj())
	s.settle(ofChat...)
	before := s.identities()
	first.Stop()
	s.remove("chat", &graph{}, orphan)
	s.awaitGone("chat", &graph{})
	s.operator()
	s.settle(ofChat...)
	for object, was := range before {
		if s.identities()[object] != was {
			s.Errorf("%s did not stay", object)
		}
	}
	s.remove("chat-decode", &component{}, policy)
	s.remove("chat-frontend", &component{}, policy)
	s.awaitGone("chat-decode", &component{})
	s.awaitGone("chat-frontend", &component{})
	// Whoever orphans a graph keeps what it had besides its components.
	s.ends("dynamographdeploymentscalingadapters/chat-decode", "persistentvolumeclaims/weights",
		"rolebindings/chat-k8s-service-discovery-binding", "roles/chat-k8s-service-discovery-role", "serviceaccounts/chat-k8s-service-discovery")
}
