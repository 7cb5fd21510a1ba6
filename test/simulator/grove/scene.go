// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	"github.com/ai-dynamo/grove/operator/api/common"
	"github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// scene is a PodCliqueSet with everything that was made for it.
type scene struct {
	// set is nil if only its leftovers are there.
	set     *v1alpha1.PodCliqueSet
	groups  map[string]*v1alpha1.PodCliqueScalingGroup
	cliques map[string]*v1alpha1.PodClique
	// pods are those of all cliques, and empty if pods are only numbers.
	pods []corev1.Pod

	// members are the PodCliques that the set asks for, in the order of its template.
	members []member
	// hash stands for all templates of the set.
	hash string
}

// member is one PodClique that a PodCliqueSet asks for.
type member struct {
	name     string
	template *v1alpha1.PodCliqueTemplateSpec
	hash     string
	replica  int
	// group is nil outside of scaling groups, and groupReplica has no meaning there.
	group        *v1alpha1.PodCliqueScalingGroup
	groupReplica int
}

// groupPlan is one PodCliqueScalingGroup that a PodCliqueSet asks for.
type groupPlan struct {
	name    string
	config  *v1alpha1.PodCliqueScalingGroupConfig
	replica int
}

// look reads a PodCliqueSet and its children from the API server. Nothing is cached, so no rule acts on old news.
func (s *Simulator) look(ctx context.Context, key client.ObjectKey) (*scene, error) {
	sc := &scene{
		set:    &v1alpha1.PodCliqueSet{},
		groups: map[string]*v1alpha1.PodCliqueScalingGroup{}, cliques: map[string]*v1alpha1.PodClique{},
	}
	err := s.api.Get(ctx, key, sc.set)
	switch {
	case apierrors.IsNotFound(err):
		sc.set = nil
	case err != nil:
		return nil, fmt.Errorf("get PodCliqueSet: %w", err)
	}
	mine := []client.ListOption{
		client.InNamespace(key.Namespace), client.MatchingLabels(common.GetDefaultLabelsForPodCliqueSetManagedResources(key.Name)),
	}
	var groups v1alpha1.PodCliqueScalingGroupList
	if err := s.list(ctx, &groups, mine); err != nil {
		return nil, err
	}
	for i := range groups.Items {
		sc.groups[groups.Items[i].Name] = &groups.Items[i]
	}
	var cliques v1alpha1.PodCliqueList
	if err := s.list(ctx, &cliques, mine); err != nil {
		return nil, err
	}
	for i := range cliques.Items {
		sc.cliques[cliques.Items[i].Name] = &cliques.Items[i]
	}
	if s.pods {
		var pods corev1.PodList
		if err := s.list(ctx, &pods, mine); err != nil {
			return nil, err
		}
		sc.pods = pods.Items
	}
	return sc, sc.plan()
}

// list finds nothing of a kind whose API is not served: where all kinds of Grove are taken away, a PodCliqueSet can be the
// last one to go.
func (s *Simulator) list(ctx context.Context, list client.ObjectList, opts []client.ListOption) error {
	err := s.api.List(ctx, list, opts...)
	if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		return fmt.Errorf("list %T: %w", list, err)
	}
	return nil
}

// plan works out which PodCliques the set asks for.
func (sc *scene) plan() error {
	if sc.set == nil {
		return nil
	}
	hashes := map[string]string{}
	for _, t := range sc.set.Spec.Template.Cliques {
		hash, err := templateHash(t)
		if err != nil {
			return err
		}
		hashes[t.Name] = hash
	}
	var err error
	if sc.hash, err = hashOf(hashes); err != nil {
		return err
	}
	grouped := sc.addGroupMembers(hashes)
	for r := range int(sc.set.Spec.Replicas) {
		for _, t := range sc.set.Spec.Template.Cliques {
			if !grouped[t.Name] {
				name := common.GeneratePodCliqueName(common.ResourceNameReplica{Name: sc.set.Name, Replica: r}, t.Name)
				sc.members = append(sc.members, member{name: name, template: t, hash: hashes[t.Name], replica: r})
			}
		}
	}
	return nil
}

// addGroupMembers adds the PodCliques of groups that exist, and returns which cliques belong to any group.
func (sc *scene) addGroupMembers(hashes map[string]string) map[string]bool {
	grouped := map[string]bool{}
	for _, plan := range groupPlans(sc.set) {
		group := sc.groups[plan.name]
		for _, t := range sc.set.Spec.Template.Cliques {
			if !slices.Contains(plan.config.CliqueNames, t.Name) {
				continue
			}
			grouped[t.Name] = true
			if group == nil {
				continue
			}
			for g := range int(group.Spec.Replicas) {
				name := common.GeneratePodCliqueName(common.ResourceNameReplica{Name: group.Name, Replica: g}, t.Name)
				sc.members = append(sc.members, member{
					name: name, template: t, hash: hashes[t.Name], replica: plan.replica, group: group, groupReplica: g,
				})
			}
		}
	}
	return grouped
}

// groupPlans lists the scaling groups of all replicas of a PodCliqueSet.
func groupPlans(set *v1alpha1.PodCliqueSet) []groupPlan {
	var plans []groupPlan
	configs := set.Spec.Template.PodCliqueScalingGroupConfigs
	for r := range int(set.Spec.Replicas) {
		for i := range configs {
			name := common.GeneratePodCliqueScalingGroupName(common.ResourceNameReplica{Name: set.Name, Replica: r}, configs[i].Name)
			plans = append(plans, groupPlan{name: name, config: &configs[i], replica: r})
		}
	}
	return plans
}

// templateHash changes with everything that a running pod cannot be given, and with nothing else: the number of pods in
// particular is not part of it.
func templateHash(t *v1alpha1.PodCliqueTemplateSpec) (string, error) {
	return hashOf(struct {
		Labels, Annotations map[string]string
		Spec                corev1.PodSpec
	}{t.Labels, t.Annotations, t.Spec.PodSpec})
}

func hashOf(value any) (string, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("hash templates: %w", err)
	}
	sum := fnv.New64a()
	sum.Write(content)
	return rand.SafeEncodeString(strconv.FormatUint(sum.Sum64(), 10)), nil
}

// newGroup is a PodCliqueScalingGroup as Grove makes it.
func newGroup(set *v1alpha1.PodCliqueSet, plan groupPlan) *v1alpha1.PodCliqueScalingGroup {
	group := &v1alpha1.PodCliqueScalingGroup{}
	group.Name, group.Namespace = plan.name, set.Namespace
	group.Labels = madeFor(set, plan.replica)
	group.Labels[common.LabelAppNameKey] = plan.name
	group.Labels[common.LabelComponentKey] = common.LabelComponentNamePodCliqueScalingGroup
	group.Spec = v1alpha1.PodCliqueScalingGroupSpec{
		Replicas:     ptr.Deref(plan.config.Replicas, 1),
		MinAvailable: new(ptr.Deref(plan.config.MinAvailable, 1)),
		CliqueNames:  plan.config.CliqueNames,
	}
	return group
}

// newClique is a PodClique as Grove makes it.
func newClique(set *v1alpha1.PodCliqueSet, m member) *v1alpha1.PodClique {
	clique := &v1alpha1.PodClique{}
	clique.Name, clique.Namespace = m.name, set.Namespace
	m.template.Spec.DeepCopyInto(&clique.Spec)
	clique.Spec.MinAvailable = new(ptr.Deref(clique.Spec.MinAvailable, clique.Spec.Replicas))
	dress(clique, set, m)
	return clique
}

// dress gives a PodClique what can change while it lives. Where template and Grove use the same label, Grove wins.
func dress(clique *v1alpha1.PodClique, set *v1alpha1.PodCliqueSet, m member) {
	clique.Annotations = maps.Clone(m.template.Annotations)
	clique.Labels = madeFor(set, m.replica)
	for key, value := range m.template.Labels {
		if _, taken := clique.Labels[key]; !taken {
			clique.Labels[key] = value
		}
	}
	gang := common.GeneratePodGangNameForPodCliqueOwnedByPodCliqueSet(set, m.replica)
	clique.Labels[common.LabelComponentKey] = common.LabelComponentNamePodCliqueSetPodClique
	if m.group != nil {
		clique.Labels[common.LabelComponentKey] = common.LabelComponentNamePodCliqueScalingGroupPodClique
		clique.Labels[common.LabelPodCliqueScalingGroup] = m.group.Name
		clique.Labels[common.LabelPodCliqueScalingGroupReplicaIndex] = strconv.Itoa(m.groupReplica)
		if own := common.GeneratePodGangNameForPodCliqueOwnedByPCSG(set, m.replica, m.group, m.groupReplica); own != gang {
			clique.Labels[common.LabelBasePodGang] = gang
			gang = own
		}
	}
	clique.Labels[common.LabelAppNameKey] = m.name
	clique.Labels[common.LabelPodGang] = gang
	clique.Labels[common.LabelPodTemplateHash] = m.hash
	m.template.Spec.PodSpec.DeepCopyInto(&clique.Spec.PodSpec)
}

// madeFor returns the labels of everything that Grove makes for a replica of a PodCliqueSet.
func madeFor(set *v1alpha1.PodCliqueSet, replica int) map[string]string {
	labels := common.GetDefaultLabelsForPodCliqueSetManagedResources(set.Name)
	labels[common.LabelPodCliqueSetReplicaIndex] = strconv.Itoa(replica)
	return labels
}
