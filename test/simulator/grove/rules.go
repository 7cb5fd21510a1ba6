// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/ai-dynamo/grove/operator/api/common"
	"github.com/ai-dynamo/grove/operator/api/common/constants"
	"github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// rule does one thing that Grove does, and says whether there was anything to do.
type rule func(context.Context, *scene) (bool, error)

// reconcile takes a PodCliqueSet one step further. A rule that makes or deletes objects ends the step, because the others
// have to see them.
func (s *Simulator) reconcile(ctx context.Context, key client.ObjectKey) (bool, error) {
	sc, err := s.look(ctx, key)
	if err != nil {
		return false, err
	}
	if sc.set == nil || sc.set.DeletionTimestamp != nil {
		return s.clear(ctx, sc)
	}
	moved := false
	for _, r := range []struct {
		apply rule
		last  bool
	}{
		{s.guard, false}, {s.accept, false},
		{s.prune, true}, {s.makeGroups, true}, {s.makeCliques, true}, {s.pushTemplates, false}, {s.acknowledge, false},
		{s.reportGroups, false}, {s.reportSet, false}, {s.rollGroups, true}, {s.runCliques, false},
	} {
		applied, err := r.apply(ctx, sc)
		moved = moved || applied
		if err != nil || applied && r.last {
			return moved, err
		}
	}
	return moved, nil
}

// clear deletes what was made for a deleted PodCliqueSet, because not every test has a garbage collector, and lets the
// set go when nothing is left.
func (s *Simulator) clear(ctx context.Context, sc *scene) (bool, error) {
	left := len(sc.groups) + len(sc.cliques) + len(sc.pods)
	var doomed []client.Object
	for _, group := range sc.groups {
		doomed = append(doomed, group)
	}
	for _, clique := range sc.cliques {
		doomed = append(doomed, clique)
	}
	for i := range sc.pods {
		doomed = append(doomed, &sc.pods[i])
	}
	moved, err := s.remove(ctx, doomed)
	if moved || err != nil || left > 0 {
		return moved, err
	}
	if sc.set == nil || !controllerutil.RemoveFinalizer(sc.set, constants.FinalizerPodCliqueSet) {
		return false, nil
	}
	if err := s.api.Update(ctx, sc.set); err != nil {
		return false, fmt.Errorf("remove the finalizer: %w", err)
	}
	return true, nil
}

// remove deletes objects, except for those that are on their way out already.
func (s *Simulator) remove(ctx context.Context, objects []client.Object) (bool, error) {
	moved := false
	for _, obj := range objects {
		if obj.GetDeletionTimestamp() != nil {
			continue
		}
		moved = true
		if err := s.api.Delete(ctx, obj, client.Preconditions{UID: new(obj.GetUID())}); client.IgnoreNotFound(err) != nil {
			return moved, fmt.Errorf("delete %s: %w", obj.GetName(), err)
		}
	}
	return moved, nil
}

// guard makes sure that a PodCliqueSet does not go before its children.
func (s *Simulator) guard(ctx context.Context, sc *scene) (bool, error) {
	if !controllerutil.AddFinalizer(sc.set, constants.FinalizerPodCliqueSet) {
		return false, nil
	}
	if err := s.api.Update(ctx, sc.set); err != nil {
		return false, fmt.Errorf("add the finalizer: %w", err)
	}
	return true, nil
}

// accept notes the hash of the templates. The first one is no update.
func (s *Simulator) accept(ctx context.Context, sc *scene) (bool, error) {
	status := sc.set.Status.DeepCopy()
	before := status.CurrentGenerationHash
	if before != nil && *before == sc.hash {
		return false, nil
	}
	status.CurrentGenerationHash = &sc.hash
	if before != nil {
		status.RollingUpdateProgress = &v1alpha1.PodCliqueSetRollingUpdateProgress{UpdateStartedAt: metav1.Now()}
		status.UpdatedReplicas = 0
	}
	return s.reportSetAs(ctx, sc.set, status)
}

// prune deletes groups and PodCliques that nobody asks for any more: of replicas that were scaled in, and of cliques and
// groups that left the template.
func (s *Simulator) prune(ctx context.Context, sc *scene) (bool, error) {
	wanted := map[string]bool{}
	for _, plan := range groupPlans(sc.set) {
		wanted[plan.name] = true
	}
	var doomed []client.Object
	for _, name := range slices.Sorted(maps.Keys(sc.groups)) {
		if !wanted[name] {
			doomed = append(doomed, sc.groups[name])
		}
	}
	clear(wanted)
	for _, m := range sc.members {
		wanted[m.name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(sc.cliques)) {
		if !wanted[name] {
			doomed = append(doomed, sc.withPods(sc.cliques[name])...)
		}
	}
	return s.remove(ctx, doomed)
}

// withPods returns a PodClique behind its pods, in the order in which they can be deleted: a pod that outlives its
// PodClique would pass for one of the next PodClique of that name.
func (sc *scene) withPods(clique *v1alpha1.PodClique) []client.Object {
	var objects []client.Object
	for i := range sc.pods {
		if sc.pods[i].Labels[common.LabelPodClique] == clique.Name {
			objects = append(objects, &sc.pods[i])
		}
	}
	return append(objects, clique)
}

// makeGroups makes scaling groups that are missing. Those that exist keep the number of replicas they were scaled to.
func (s *Simulator) makeGroups(ctx context.Context, sc *scene) (bool, error) {
	moved := false
	for _, plan := range groupPlans(sc.set) {
		if sc.groups[plan.name] != nil {
			continue
		}
		moved = true
		if err := s.make(ctx, sc.set, newGroup(sc.set, plan)); err != nil {
			return moved, err
		}
	}
	return moved, nil
}

// makeCliques makes PodCliques that are missing. Those that exist keep the number of pods they were scaled to.
func (s *Simulator) makeCliques(ctx context.Context, sc *scene) (bool, error) {
	moved := false
	for _, m := range sc.members {
		if sc.cliques[m.name] != nil {
			continue
		}
		moved = true
		var owner client.Object = sc.set
		if m.group != nil {
			owner = m.group
		}
		if err := s.make(ctx, owner, newClique(sc.set, m)); err != nil {
			return moved, err
		}
	}
	return moved, nil
}

func (s *Simulator) make(ctx context.Context, owner, obj client.Object) error {
	if err := controllerutil.SetControllerReference(owner, obj, s.api.Scheme()); err != nil {
		return fmt.Errorf("set owner of %s: %w", obj.GetName(), err)
	}
	if err := s.api.Create(ctx, obj); err != nil {
		return fmt.Errorf("create %s: %w", obj.GetName(), err)
	}
	return nil
}

// pushTemplates brings a new template to the PodCliques outside of groups in the replica whose turn it is.
func (s *Simulator) pushTemplates(ctx context.Context, sc *scene) (bool, error) {
	moved, turn := false, sc.turn()
	for _, m := range sc.members {
		clique := sc.cliques[m.name]
		if m.group != nil || m.replica != turn || clique.Labels[common.LabelPodTemplateHash] == m.hash {
			continue
		}
		moved = true
		dress(clique, sc.set, m)
		if err := s.api.Update(ctx, clique); err != nil {
			return moved, fmt.Errorf("update template of PodClique %s: %w", m.name, err)
		}
	}
	return moved, nil
}

// turn returns the replica of the set that a rolling update is at: the first that does not run the latest templates.
func (sc *scene) turn() int {
	for r := range int(sc.set.Spec.Replicas) {
		if !sc.updated(r) {
			return r
		}
	}
	return int(sc.set.Spec.Replicas)
}

// acknowledge reports the generation of a set whose objects are all written.
func (s *Simulator) acknowledge(ctx context.Context, sc *scene) (bool, error) {
	status := sc.set.Status.DeepCopy()
	status.ObservedGeneration = &sc.set.Generation
	return s.reportSetAs(ctx, sc.set, status)
}

// reportGroups brings the status of all groups up to date.
func (s *Simulator) reportGroups(ctx context.Context, sc *scene) (bool, error) {
	moved := false
	for _, name := range slices.Sorted(maps.Keys(sc.groups)) {
		group := sc.groups[name]
		status := sc.groupStatus(group)
		if equality.Semantic.DeepEqual(group.Status, status) {
			continue
		}
		moved = true
		group.Status = status
		if err := s.api.Status().Update(ctx, group); err != nil {
			return moved, fmt.Errorf("report PodCliqueScalingGroup %s: %w", name, err)
		}
	}
	return moved, nil
}

// reportSet brings the status of the PodCliqueSet up to date.
func (s *Simulator) reportSet(ctx context.Context, sc *scene) (bool, error) {
	return s.reportSetAs(ctx, sc.set, sc.setStatus())
}

func (s *Simulator) reportSetAs(ctx context.Context, set *v1alpha1.PodCliqueSet, status *v1alpha1.PodCliqueSetStatus) (bool, error) {
	if equality.Semantic.DeepEqual(set.Status, *status) {
		return false, nil
	}
	set.Status = *status
	if err := s.api.Status().Update(ctx, set); err != nil {
		return false, fmt.Errorf("report PodCliqueSet: %w", err)
	}
	return true, nil
}

// rollGroups takes down the next replica of each group that has to be replaced, in the replica of the set whose turn it
// is. makeCliques then makes its PodCliques again, from the new templates.
func (s *Simulator) rollGroups(ctx context.Context, sc *scene) (bool, error) {
	moved, turn := false, sc.turn()
	for _, plan := range groupPlans(sc.set) {
		if plan.replica != turn {
			continue
		}
		for _, g := range sc.nextToReplace(sc.groups[plan.name]) {
			var doomed []client.Object
			for _, m := range sc.groupMembers(plan.name, g) {
				doomed = append(doomed, sc.withPods(sc.cliques[m.name])...)
			}
			removed, err := s.remove(ctx, doomed)
			moved = moved || removed
			if err != nil {
				return moved, err
			}
		}
	}
	return moved, nil
}

// nextToReplace returns the replicas of a group that may be taken down now: all outdated ones that are not available
// anyway, or else the first outdated one once all others are available.
func (sc *scene) nextToReplace(group *v1alpha1.PodCliqueScalingGroup) []int {
	var outdated, broken []int
	available := 0
	for g := range int(group.Spec.Replicas) {
		state := sc.replicaState(group.Name, g)
		if state.available {
			available++
		}
		if !state.updated {
			outdated = append(outdated, g)
			if !state.available {
				broken = append(broken, g)
			}
		}
	}
	switch {
	case len(broken) > 0:
		return broken
	case len(outdated) > 0 && available == int(group.Spec.Replicas):
		return outdated[:1]
	default:
		return nil
	}
}

// runCliques takes every PodClique one step further.
func (s *Simulator) runCliques(ctx context.Context, sc *scene) (bool, error) {
	moved := false
	for _, m := range sc.members {
		clique := sc.cliques[m.name]
		stepped, err := s.step(ctx, sc, clique, sc.demand(m, clique, s.isHeld(m.name)))
		moved = moved || stepped
		if err != nil {
			return moved, err
		}
	}
	return moved, nil
}
