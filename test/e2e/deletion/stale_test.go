// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// delay holds back what an operator hears about one resource.
type delay struct {
	resource string

	mu   sync.Mutex
	over chan struct{} // nil for no delay
}

func (d *delay) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(req)
		if err == nil && req.URL.Query().Get("watch") != "" && strings.HasSuffix(req.URL.Path, "/"+d.resource) {
			answer.Body = &delayed{ReadCloser: answer.Body, by: d}
		}
		return answer, err
	})
}

// start holds news back until the returned function is called.
func (d *delay) start(t testing.TB) (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	over := make(chan struct{})
	d.over = over
	end = sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.over = nil
		close(over)
	})
	t.Cleanup(end) // an operator cannot be stopped while it waits
	return end
}

func (d *delay) wait() {
	d.mu.Lock()
	over := d.over
	d.mu.Unlock()
	if over != nil {
		<-over
	}
}

type delayed struct {
	io.ReadCloser
	by *delay
}

func (d *delayed) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	d.by.wait()
	return n, err
}

// TestAnOperatorThatHearsLateOfADeletionUndoesNothing has it see what becomes of children before it hears of their owner.
func TestAnOperatorThatHearsLateOfADeletionUndoesNothing(t *testing.T) {
	for name, story := range map[string]func(scene){
		"an orphaned graph":                       orphansAreNotTakenBack,
		"a graph deleted in the background":       func(s scene) { nothingIsMadeAgain(s, "dynamographdeployments", false) },
		"components of a graph in the foreground": func(s scene) { nothingIsMadeAgain(s, "dynamocomponentdeployments", true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(newScene(t, harness.Namespace(t), &writes{}))
		})
	}
}

// late starts an operator that can be made to hear late of a resource.
func (s scene) late(resource string) *delay {
	s.Helper()
	d := &delay{resource: resource}
	harness.StartOperator(s, s.ns, harness.WithTransport(func(next http.RoundTripper) http.RoundTripper { return d.wrap(s.wrap(next)) }))
	return d
}

func orphansAreNotTakenBack(s scene) {
	late := s.late("dynamographdeployments")
	s.create(s.chat().Obj())
	s.settle(ofChat...)
	before, mark := s.identities(), s.mark()
	end := late.start(s)
	s.remove("chat", &graph{}, orphan)
	s.awaitGone("chat", &graph{})
	s.settle(ofChat...)
	s.wroteNothing(mark)
	end()
	s.settle(ofChat...)
	if diff := cmp.Diff(before, s.identities()); diff != "" {
		s.Errorf("(-before +after):\n%s", diff)
	}
	s.remove("chat-decode", &component{}, background)
	s.remove("chat-frontend", &component{}, background)
	s.remove("chat-decode", &adapter{}, background)
	s.remove("weights", &corev1.PersistentVolumeClaim{}, background)
	s.remove(names.DiscoveryAccount("chat"), &corev1.ServiceAccount{}, background)
	s.remove(names.DiscoveryRole("chat"), &rbacv1.Role{}, background)
	s.remove(names.DiscoveryBinding("chat"), &rbacv1.RoleBinding{}, background)
	s.ends()
}

func nothingIsMadeAgain(s scene, resource string, inForeground bool) {
	late := s.late(resource)
	s.create(s.chat().Obj())
	s.settle(ofChat...)
	mark, policy := s.mark(), background
	if inForeground {
		policy = foreground
	}
	end := late.start(s)
	s.remove("chat", &graph{}, policy)
	s.ends()
	end()
	s.ends()
	if made := s.creations(mark, s.ns); len(made) > 0 {
		s.Errorf("made again: %v", made)
	}
}
