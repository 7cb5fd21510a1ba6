// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package graph reconciles DynamoGraphDeployments: spec to components or a PodCliqueSet and what they share, their status
// to the graph's.
package graph

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	grovev1alpha1 "github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/admission"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/internal/render/workload/grove"
)

// Place is where a graph stands: everything its plan depends on besides itself.
type Place struct {
	input.Graph
	// MissingClaims are claims that the graph expects to find and that are not there.
	MissingClaims []string
	// MissingQueue is the KAI queue that its pods should wait in and that is not there, empty for none.
	MissingQueue string
	// UnreadQueue is the one of which the operator may not find out whether it is there, empty for none.
	UnreadQueue string
	// KeyProblem is why there is no key pair for mpirun.
	KeyProblem error
}

// circumstances are what a plan depends on besides its graph, as text.
func (p Place) circumstances() string {
	live := ""
	if p.Live != nil {
		live = fmt.Sprint(p.Live.UID, p.Live.Generation, p.Live.Annotations[names.AnnotationSurroundings])
	}
	return fmt.Sprint(p.OnGrove, live, p.Worlds, p.Replicas, p.Restarts, p.Settings.Serves, p.Settings.SSHKey.Fingerprint(),
		p.MissingClaims, p.MissingQueue, p.KeyProblem)
}

// Desired is pure: equal graphs and places give equal plans.
func Desired(g *v1alpha1.DynamoGraphDeployment, p Place, scheme *runtime.Scheme) controllers.Plan {
	problems := append(admission.Graph(g), p.problems(g)...)
	if len(problems) > 0 {
		return controllers.Plan{Problems: problems}
	}
	stages, problems := render.Graph(g, p.Graph)
	if len(problems) > 0 {
		return controllers.Plan{Problems: problems}
	}
	return controllers.Prepare(scheme, g, stages)
}

// problems are what the graph lacks in its cluster.
func (p Place) problems(g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	var problems field.ErrorList
	for i, claim := range g.Spec.PVCs {
		if claim.Name != nil && slices.Contains(p.MissingClaims, *claim.Name) {
			problems = append(problems, field.Invalid(field.NewPath("spec", "pvcs").Index(i).Child("name"), *claim.Name,
				"there is no such claim: create it, or set create: true with storageClass, size and volumeAccessMode"))
		}
	}
	annotations := field.NewPath("metadata", "annotations")
	if p.MissingQueue != "" {
		problems = append(problems, field.Invalid(annotations.Key(names.AnnotationQueue), p.MissingQueue,
			"KAI queue not found in cluster: create it, or name one that exists"))
	}
	if p.OnGrove && !p.Settings.Serves.Grove {
		problems = append(problems, field.Forbidden(annotations.Key(names.AnnotationEnableGrove),
			"the graph runs on Grove, whose API the cluster no longer serves: install Grove again, or set this to \"false\" to move the graph off it"))
	}
	if p.KeyProblem != nil {
		problems = append(problems, field.InternalError(field.NewPath("spec", "services"), p.KeyProblem))
	}
	return problems
}

// onGrove decides how a graph's workloads are run. What the user says goes. A graph that says nothing stays where it is:
// that Grove comes to a cluster must not move everything that runs there. A new one runs on Grove where there is Grove.
func onGrove(g *v1alpha1.DynamoGraphDeployment, served bool, children apply.Children) bool {
	said := strings.ToLower(g.Annotations[names.AnnotationEnableGrove])
	switch {
	case said == names.False:
		return false
	case len(ofKind(children, cliqueSetKind.Kind)) > 0, !served && ranOnGrove(g):
		return true
	case said == "" && len(ofKind(children, componentKind.Kind)) > 0:
		return false
	}
	return served
}

// ranOnGrove tells from the status that the graph's pods were Grove's. It is asked when Grove's objects cannot be read.
func ranOnGrove(g *v1alpha1.DynamoGraphDeployment) bool {
	for _, service := range g.Status.Services {
		if service.ComponentKind == v1alpha1.ComponentKindPodClique || service.ComponentKind == v1alpha1.ComponentKindPodCliqueScalingGroup {
			return true
		}
	}
	return false
}

// ofKind returns the children of one kind.
func ofKind(children apply.Children, kind string) apply.Children {
	found := apply.Children{}
	for key, child := range children {
		if key.Kind == kind {
			found[key] = child
		}
	}
	return found
}

// inTheWay are the workloads of a graph that moved to another orchestrator or away from it, and the kinds of objects
// that wait until they are gone: both sides use the same names.
func inTheWay(onGrove bool, children apply.Children) (apply.Children, []string) {
	if onGrove {
		return ofKind(children, componentKind.Kind), []string{cliqueSetKind.Kind, "Service", "Ingress", "VirtualService", "PodDisruptionBudget"}
	}
	return ofKind(children, cliqueSetKind.Kind), []string{componentKind.Kind}
}

// changing returns the services whose pods would be replaced by rendering them in the surroundings they have.
func changing(g *v1alpha1.DynamoGraphDeployment, in input.Graph) map[string]bool {
	stages, problems := render.Graph(g, in)
	if len(problems) > 0 {
		return nil
	}
	var rendered *grovev1alpha1.PodCliqueSet
	for _, stage := range stages {
		for _, object := range stage {
			if set, ok := object.Object.(*grovev1alpha1.PodCliqueSet); ok {
				rendered = set
			}
		}
	}
	changing := map[string]bool{}
	if rendered == nil {
		return changing
	}
	is, was := grove.Templates(rendered), grove.Templates(in.Live)
	for _, service := range slices.Sorted(maps.Keys(g.Spec.Services)) {
		for _, clique := range []string{names.Clique(service), names.LeaderClique(service), names.WorkerClique(service)} {
			next, ok := is[clique]
			if !ok {
				continue
			}
			live := was[clique]
			if same, err := apply.Contained(&next, &live); err != nil || !same {
				changing[service] = true
			}
		}
	}
	return changing
}
