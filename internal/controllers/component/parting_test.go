// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// waitOut plays a component whose etcd never answers, from the moment at which an operator first sees its deletion, and
// tells what happens when, in seconds after the deletion. Each question takes as long as etcd hangs.
func waitOut(first, hangs time.Duration) []string {
	deleted := time.Unix(1000, 0)
	end, now := deleted.Add(patience), deleted.Add(first)
	var happened []string
	note := func(what string) {
		happened = append(happened, fmt.Sprintf("%v %s", now.Sub(deleted).Seconds(), what))
	}
	var p parting
	for {
		if p.isDue(now, end) {
			note("ask")
			took := hangs
			if left := end.Sub(now); left > 0 {
				took = min(hangs, left)
			}
			now = now.Add(took)
			p = p.failed(errors.New("silence"), now)
		}
		if event, news := p.news("/keys/", now, end); news {
			note(event.Reason)
			p.said = event.Reason
		}
		pause := p.pause(now, end)
		if pause == 0 {
			note("go")
			return happened
		}
		now = now.Add(pause)
	}
}

func TestAnEtcdThatDoesNotAnswerDelaysADeletionByThirtySecondsAtMost(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		first, hangs time.Duration
		want         []string
	}{
		"it refuses at once": {want: []string{
			"0 ask", "0 CleanupFailed", "1 ask", "3 ask", "7 ask", "15 ask", "23 ask", "30 CleanupAbandoned", "30 go",
		}},
		"it hangs": {hangs: 5 * time.Second, want: []string{
			"0 ask", "5 CleanupFailed", "6 ask", "13 ask", "22 ask", "30 CleanupAbandoned", "30 go",
		}},
		"there was no operator for an hour": {first: time.Hour, want: []string{"3600 ask", "3600 CleanupAbandoned", "3600 go"}},
	} {
		if diff := cmp.Diff(tc.want, waitOut(tc.first, tc.hangs)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPartingsAreRememberedByComponentAndForgottenWithIt(t *testing.T) {
	t.Parallel()
	c := &v1alpha1.DynamoComponentDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "one"}}
	again := c.DeepCopy()
	again.UID = "two"
	var all partings
	all.put(c, all.of(c).failed(errors.New("silence"), time.Unix(1000, 0)))
	if p := all.of(c); p.tries != 1 {
		t.Errorf("remembered: %v", p)
	}
	if p := all.of(again); p.tries != 0 || p.uid != "two" {
		t.Errorf("of another component of the same name: %v", p)
	}
	all.drop(client.ObjectKeyFromObject(c))
	if len(all.by) > 0 {
		t.Errorf("left: %v", all.by)
	}
}

func TestOnlyComponentsThatAreFoundInAnEtcdOfTheOperatorLeaveKeys(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		annotation, flag, address string
		want                      bool
	}{
		"by the operator's flag":      {flag: names.DiscoveryEtcd, address: "etcd:2379", want: true},
		"by annotation":               {annotation: names.DiscoveryEtcd, flag: names.DiscoveryKubernetes, address: "etcd:2379", want: true},
		"not by annotation":           {annotation: names.DiscoveryKubernetes, flag: names.DiscoveryEtcd, address: "etcd:2379"},
		"by neither":                  {flag: names.DiscoveryKubernetes, address: "etcd:2379"},
		"in an etcd nobody told of":   {flag: names.DiscoveryEtcd},
		"an annotation that is empty": {flag: names.DiscoveryEtcd, address: "etcd:2379", want: true},
	} {
		c := &v1alpha1.DynamoComponentDeployment{}
		c.Spec.Annotations = map[string]string{names.AnnotationDiscoveryBackend: tc.annotation}
		if got := leavesKeys(c, input.Settings{DiscoveryBackend: tc.flag, EtcdAddress: tc.address}); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestKeysAreThoseOfTheReferenceWithASlashAtTheirEnd(t *testing.T) {
	t.Parallel()
	of := func(change func(*v1alpha1.DynamoComponentDeployment)) string {
		c := &v1alpha1.DynamoComponentDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "chat-decode"}}
		change(c)
		return keysOf(c, input.Settings{})
	}
	got := map[string]string{
		"of a graph": of(func(c *v1alpha1.DynamoComponentDeployment) {
			c.Spec.ServiceName, c.Spec.Labels = "Decode", map[string]string{names.LabelGraph: "chat"}
		}),
		"of all graphs": of(func(c *v1alpha1.DynamoComponentDeployment) {
			c.Spec.ServiceName, c.Spec.GlobalDynamoNamespace = "Decode", true
		}),
		"alone": of(func(*v1alpha1.DynamoComponentDeployment) {}),
	}
	want := map[string]string{
		"of a graph": "/ns-chat/components/Decode/", "of all graphs": "/dynamo/components/Decode/", "alone": "/ns-chat-decode/components/chat-decode/",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
