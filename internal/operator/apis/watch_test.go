// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// server answers discovery: kinds by group and version, or an error for all.
type server struct {
	discovery.ServerResourcesInterface

	kinds map[string][]string
	err   error
}

func (s *server) ServerResourcesForGroupVersion(gv string) (*metav1.APIResourceList, error) {
	if s.err != nil {
		return nil, s.err
	}
	kinds, ok := s.kinds[gv]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, gv)
	}
	list := &metav1.APIResourceList{}
	for _, kind := range kinds {
		list.APIResources = append(list.APIResources, metav1.APIResource{Kind: kind})
	}
	return list, nil
}

// listener writes down what it is told, and what counted at that moment.
type listener struct {
	watch  *Watch
	heard  []string
	refuse API
}

func (l *listener) Came(_ context.Context, api API, kinds []schema.GroupVersionKind) error {
	l.heard = append(l.heard, fmt.Sprintf("came %s %d, counts %v", api, len(kinds), counts(l.watch.Served(), api)))
	if api == l.refuse {
		return errors.New("not now")
	}
	return nil
}

func (l *listener) Gone(_ context.Context, api API, _ []schema.GroupVersionKind) error {
	l.heard = append(l.heard, fmt.Sprintf("gone %s, counts %v", api, counts(l.watch.Served(), api)))
	return nil
}

func (l *listener) Changed(context.Context) { l.heard = append(l.heard, "changed") }

func counts(c input.Capabilities, api API) bool {
	i := slices.IndexFunc(table(), func(e entry) bool { return e.api == api })
	return *table()[i].flag(&c)
}

const groveGroup = "grove.io/v1alpha1"

func TestAnAPICountsOnlyWhileAllOfItIsServedAndWatched(t *testing.T) {
	t.Parallel()
	s := &server{kinds: map[string][]string{groveGroup: {"PodCliqueSet", "PodClique"}}}
	w := &Watch{Discovery: s, Log: testr.New(t)}
	l := &listener{watch: w}
	w.Listener = l
	if err := w.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.look(t.Context()) // nothing new: nobody hears of it
	s.kinds[groveGroup] = append(s.kinds[groveGroup], "PodCliqueScalingGroup")
	s.kinds["leaderworkerset.x-k8s.io/v1"] = []string{"LeaderWorkerSet"}
	l.refuse = LWS
	w.look(t.Context())
	s.err = errors.New("the server is busy")
	w.look(t.Context()) // what cannot be found out stays
	s.err, l.refuse = nil, ""
	w.look(t.Context())
	delete(s.kinds, groveGroup)
	w.look(t.Context())
	want := strings.Join([]string{
		"changed", // the first look
		"came grove 3, counts false", "came lws 1, counts false", "changed",
		"came lws 1, counts false", "changed",
		"gone grove, counts false", "changed",
	}, "\n")
	if diff := cmp.Diff(want, strings.Join(l.heard, "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(input.Capabilities{LWS: true}, w.Served()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheFirstLookNeedsAnAnswer(t *testing.T) {
	t.Parallel()
	w := &Watch{Discovery: &server{err: errors.New("refused")}, Log: testr.New(t), Listener: &listener{}}
	if err := w.Look(t.Context()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
}

func TestEveryKindHasADefinition(t *testing.T) {
	t.Parallel()
	all := definitions()
	for _, name := range []string{
		"podcliquesets.grove.io", "leaderworkersets.leaderworkerset.x-k8s.io", "podgroups.scheduling.volcano.sh", "queues.scheduling.run.ai",
		"inferencepools.inference.networking.k8s.io", "virtualservices.networking.istio.io",
	} {
		if !all[name] {
			t.Errorf("changes of %s go unnoticed", name)
		}
	}
	for _, e := range table() {
		if len(e.kinds) != len(e.plurals) {
			t.Errorf("%s has %d kinds and %d plurals", e.api, len(e.kinds), len(e.plurals))
		}
	}
}
