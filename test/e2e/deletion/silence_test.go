// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// longest is how long an etcd that does not answer may hold up a deletion, and slack what a loaded machine adds to it.
const (
	longest = 30 * time.Second
	slack   = 15 * time.Second
)

// TestAnEtcdThatDoesNotAnswerDelaysADeletionAndIsNamed waits the real half minute.
func TestAnEtcdThatDoesNotAnswerDelaysADeletionAndIsNamed(t *testing.T) {
	for name, address := range map[string]func(*testing.T) (string, func() int){
		"nobody listens": func(t *testing.T) (string, func() int) { return harness.UnusedAddress(t), func() int { return 0 } },
		"it hangs":       hole,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etcd, asked := address(t)
			s := newScene(t, harness.Namespace(t), &writes{})
			s.operator("--etcdAddr=" + etcd)
			s.create(s.inEtcd())
			s.settle(ofInEtcd...)
			start := time.Now()
			s.remove("chat", &graph{}, background)
			s.awaitGone("chat", &graph{})
			s.awaitEvent(conditions.CleanupFailed, "chat-decode", etcd, "/"+s.ns+"-chat/components/decode/")
			s.awaitGone("chat-decode", &component{})
			s.awaitGone("chat-decode2", &component{})
			took := time.Since(start)
			if took > longest+slack || took < longest-2*time.Second {
				t.Errorf("the deletion took %s", took)
			}
			if n, most := asked(), int(took/time.Second)+2; n > most {
				t.Errorf("etcd was asked %d times in %s for two components", n, took)
			}
			s.awaitEvent(conditions.CleanupAbandoned, "chat-decode", etcd, "/"+s.ns+"-chat/components/decode/")
			s.ends()
			for _, reason := range []string{conditions.CleanupFailed, conditions.CleanupAbandoned} {
				if told := s.events(reason, "chat-decode"); len(told) != 1 {
					t.Errorf("%s was told %d times", reason, len(told))
				}
			}
		})
	}
}

func TestOfTwoAddressesTheOneThatAnswersDoesIt(t *testing.T) {
	address, asked := hole(t)
	etcd := harness.StartEtcd(t)
	s := newScene(t, harness.Namespace(t), &writes{})
	s.operator("--etcdAddr=" + address + "," + etcd.Address)
	s.create(s.inEtcd())
	s.settle(ofInEtcd...)
	etcd.Put("/"+s.ns+"-chat/components/decode/a", "/"+s.ns+"-chat/components/decode2/a")
	s.remove("chat", &graph{}, background)
	s.ends()
	s.wantKeys(etcd)
	if asked() == 0 {
		t.Error("the first address was not tried")
	}
	if told := s.events(conditions.CleanupFailed, "chat-decode"); len(told) > 0 {
		t.Errorf("told: %v", told)
	}
}

// hole is an address that takes connections and says nothing, and how often it was called.
func hole(t *testing.T) (string, func() int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var calls []net.Conn
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			call, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			calls = append(calls, call)
			mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
		for _, call := range calls {
			_ = call.Close()
		}
	})
	return listener.Addr().String(), func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(calls)
	}
}

// events are the notes of events with a reason about a component.
func (s scene) events(reason, component string) []string {
	s.Helper()
	var all eventsv1.EventList
	if err := harness.Client(s).List(s.Context(), &all, client.InNamespace(s.ns)); err != nil {
		s.Fatal(err)
	}
	var notes []string
	for _, e := range all.Items {
		if e.Reason == reason && e.Regarding.Name == component {
			notes = append(notes, e.Type+" "+e.Note)
		}
	}
	return notes
}

// awaitEvent waits for a warning about a component that contains some words.
func (s scene) awaitEvent(reason, component string, words ...string) {
	s.Helper()
	harness.Eventually(s, patience, reason+" is told", func() (bool, string) {
		notes := s.events(reason, component)
		return slices.ContainsFunc(notes, func(note string) bool {
			return strings.HasPrefix(note, "Warning ") && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(note, word) })
		}), fmt.Sprint(notes)
	})
}
