// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package grove_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// trial is an edit of a PodCliqueSet that is refused for a reason, or accepted if there is none.
type trial struct {
	startup v1alpha1.CliqueStartupType
	edit    edit
	reason  string
}

// edit gets the first clique of a set and its whole template.
type edit func(*v1alpha1.PodCliqueTemplateSpec, *v1alpha1.PodCliqueSetTemplateSpec)

func (tr trial) check(t *testing.T, err error) {
	t.Helper()
	switch {
	case tr.reason == "" && err != nil:
		t.Errorf("refused: %v", err)
	case tr.reason != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tr.reason)):
		t.Errorf("got %v, want a refusal with %q", err, tr.reason)
	}
}

// created tries edits before a set is created.
func created(t *testing.T, trials map[string]trial) {
	t.Helper()
	ns := harness.Namespace(t)
	for name, tr := range trials {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := chat(ns)
			tr.edit(set.Spec.Template.Cliques[0], &set.Spec.Template)
			tr.check(t, harness.Client(t).Create(t.Context(), set, client.DryRunAll))
		})
	}
}

// changed tries edits on a set that exists.
func changed(t *testing.T, trials map[string]trial) {
	t.Helper()
	for name, tr := range trials {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := chat(harness.Namespace(t))
			if tr.startup != "" {
				set.Spec.Template.StartupType = &tr.startup
			}
			create(t, set)
			tr.edit(set.Spec.Template.Cliques[0], &set.Spec.Template)
			tr.check(t, harness.Client(t).Update(t.Context(), set))
		})
	}
}

func TestAllCliquesHaveOneScheduler(t *testing.T) {
	t.Parallel()
	refused := "spec.template.cliques[].spec.podSpec.schedulerName has to be the same"
	one := func(name string) edit {
		return func(c *v1alpha1.PodCliqueTemplateSpec, _ *v1alpha1.PodCliqueSetTemplateSpec) {
			c.Spec.PodSpec.SchedulerName = name
		}
	}
	all := func(_ *v1alpha1.PodCliqueTemplateSpec, set *v1alpha1.PodCliqueSetTemplateSpec) {
		for _, c := range set.Cliques {
			c.Spec.PodSpec.SchedulerName = "kai-scheduler"
		}
	}
	created(t, map[string]trial{
		"created with none":                 {edit: one("")},
		"created with two":                  {edit: one("kai-scheduler"), reason: refused},
		"created with none and the default": {edit: one("default-scheduler")},
	})
	changed(t, map[string]trial{
		"changed for one": {edit: one("kai-scheduler"), reason: refused},
		"changed for all": {edit: all},
	})
}

func TestNamesHaveAtMost45CharactersTogether(t *testing.T) {
	t.Parallel()
	aClique := func(total int) edit {
		return func(c *v1alpha1.PodCliqueTemplateSpec, _ *v1alpha1.PodCliqueSetTemplateSpec) {
			c.Name = strings.Repeat("w", total-len("chat"))
		}
	}
	aGroup := func(total int) edit {
		return func(_ *v1alpha1.PodCliqueTemplateSpec, set *v1alpha1.PodCliqueSetTemplateSpec) {
			set.PodCliqueScalingGroupConfigs[0].Name = strings.Repeat("g", total-len("chat")-len("decode-ldr"))
		}
	}
	created(t, map[string]trial{
		"45 without a group": {edit: aClique(45)},
		"46 without a group": {edit: aClique(46), reason: "spec.template.cliques[].name is too long, see www"},
		"45 with a group":    {edit: aGroup(45)},
		"46 with a group":    {edit: aGroup(46), reason: "spec.template.cliques[].name is too long, see decode-ldr, decode-wkr"},
	})
}

func TestMinimumsAreBetweenOneAndReplicasAtFirst(t *testing.T) {
	t.Parallel()
	ofClique := func(n *int32) edit {
		return func(c *v1alpha1.PodCliqueTemplateSpec, _ *v1alpha1.PodCliqueSetTemplateSpec) { c.Spec.MinAvailable = n }
	}
	ofGroup := func(n *int32) edit {
		return func(_ *v1alpha1.PodCliqueTemplateSpec, set *v1alpha1.PodCliqueSetTemplateSpec) {
			set.PodCliqueScalingGroupConfigs[0].MinAvailable = n
		}
	}
	clique := "spec.template.cliques[].spec.minAvailable has to be between 1 and replicas, see web"
	group := "spec.template.podCliqueScalingGroups[].minAvailable has to be between 1 and replicas, see decode"
	created(t, map[string]trial{
		"none in a clique":   {edit: ofClique(nil)},
		"all of a clique":    {edit: ofClique(new(int32(3)))},
		"zero in a clique":   {edit: ofClique(new(int32(0))), reason: clique},
		"more than a clique": {edit: ofClique(new(int32(4))), reason: clique},
		"none in a group":    {edit: ofGroup(nil)},
		"all of a group":     {edit: ofGroup(new(int32(2)))},
		"zero in a group":    {edit: ofGroup(new(int32(0))), reason: group},
		"more than a group":  {edit: ofGroup(new(int32(3))), reason: group},
	})
}

func TestMinimumsCannotBeChanged(t *testing.T) {
	t.Parallel()
	changed(t, map[string]trial{
		"of a clique": {
			edit: func(c *v1alpha1.PodCliqueTemplateSpec, _ *v1alpha1.PodCliqueSetTemplateSpec) {
				c.Spec.MinAvailable = new(int32(2))
			},
			reason: "spec.template.cliques[].spec.minAvailable cannot be changed, see web",
		},
		"of a clique to none": {
			edit: func(c *v1alpha1.PodCliqueTemplateSpec, _ *v1alpha1.PodCliqueSetTemplateSpec) {
				c.Spec.MinAvailable = nil
			},
			reason: "spec.template.cliques[].spec.minAvailable cannot be changed, see web",
		},
		"of a group": {
			edit: func(_ *v1alpha1.PodCliqueTemplateSpec, set *v1alpha1.PodCliqueSetTemplateSpec) {
				set.PodCliqueScalingGroupConfigs[0].MinAvailable = new(int32(2))
			},
			reason: "spec.template.podCliqueScalingGroups[].minAvailable cannot be changed, see decode",
		},
	})
}

func TestTheOrderOfStartsCannotBeChanged(t *testing.T) {
	t.Parallel()
	reverse := func(_ *v1alpha1.PodCliqueTemplateSpec, set *v1alpha1.PodCliqueSetTemplateSpec) {
		slices.Reverse(set.Cliques)
	}
	add := func(_ *v1alpha1.PodCliqueTemplateSpec, set *v1alpha1.PodCliqueSetTemplateSpec) {
		set.Cliques = append(set.Cliques, clique("more", 1, 1))
	}
	order := "names and order of spec.template.cliques cannot be changed"
	changed(t, map[string]trial{
		"by startsAfter": {
			startup: v1alpha1.CliqueStartupTypeExplicit,
			edit: func(c *v1alpha1.PodCliqueTemplateSpec, _ *v1alpha1.PodCliqueSetTemplateSpec) {
				c.Spec.StartsAfter = []string{"decode-ldr"}
			},
			reason: "spec.template.cliques[].spec.startsAfter cannot be changed, see web",
		},
		"by the startup type": {
			edit: func(_ *v1alpha1.PodCliqueTemplateSpec, set *v1alpha1.PodCliqueSetTemplateSpec) {
				set.StartupType = new(v1alpha1.CliqueStartupTypeExplicit)
			},
			reason: "spec.template.cliqueStartupType cannot be changed",
		},
		"by the order if it is explicit":      {startup: v1alpha1.CliqueStartupTypeExplicit, edit: reverse, reason: order},
		"by another clique if it is explicit": {startup: v1alpha1.CliqueStartupTypeExplicit, edit: add, reason: order},
		"otherwise the order is free":         {edit: reverse},
		"otherwise cliques may come":          {edit: add},
		"pods and counts are free": {
			startup: v1alpha1.CliqueStartupTypeExplicit,
			edit: func(c *v1alpha1.PodCliqueTemplateSpec, set *v1alpha1.PodCliqueSetTemplateSpec) {
				c.Spec.Replicas, c.Spec.PodSpec.Containers[0].Image, c.Annotations = 9, "example.test/second", nil
				set.PodCliqueScalingGroupConfigs[0].Replicas = new(int32(9))
			},
		},
	})
}
