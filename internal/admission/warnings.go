// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// serviceWarnings are about what is allowed in services and components, and hardly meant.
func serviceWarnings() []Rule {
	return []Rule{
		{
			Name: "dynamo-namespace-ignored", Kinds: services(), Level: Warning, Places: Lint | Webhook, Reference: true, check: eachPart(dynamoNamespace),
			Says: "`dynamoNamespace` is deprecated, and differs from the one that is used.",
		},
		{
			Name: "autoscaling-ignored", Kinds: services(), Level: Warning, Places: Lint | Webhook, Reference: true, check: eachPart(autoscaling),
			Says: "`autoscaling` is deprecated and ignored.",
		},
		{
			Name: "model-not-named", Kinds: services(), Level: Warning, Places: Lint | Webhook, check: eachPart(modelNotNamed),
			Says: "`modelRef` without a name has no effect.",
		},
		{
			Name: "checkpoint-several-nodes", Kinds: services(), Level: Warning, Places: Lint | Webhook, check: eachPart(checkpointNodes),
			Says: "A checkpoint holds the processes of one pod. The pods of a replica of several nodes cannot all start from it.",
		},
		{
			Name: "annotation-misspelt", Kinds: services(), Level: Warning, Places: Lint | Webhook, check: misspelt,
			Says: "An annotation that nobody knows is nearly that of a switch of the operator.",
		},
	}
}

func dynamoNamespace(p part) field.ErrorList {
	s := p.DynamoComponentDeploymentSharedSpec
	given := ptr.Deref(s.DynamoNamespace, "")
	if given == "" || given == p.dynamoNamespace {
		return nil
	}
	return field.ErrorList{field.Invalid(p.at.Child("dynamoNamespace"), given,
		fmt.Sprintf("deprecated and ignored, %q is used: remove it", p.dynamoNamespace))}
}

func autoscaling(p part) field.ErrorList {
	if s := p.DynamoComponentDeploymentSharedSpec; s.Autoscaling == nil {
		return nil
	}
	return field.ErrorList{field.Invalid(p.at.Child("autoscaling"), "",
		"deprecated and ignored: set scalingAdapter.enabled, and let an autoscaler scale the adapter")}
}

func modelNotNamed(p part) field.ErrorList {
	if p.ModelRef == nil || p.ModelRef.Name != "" {
		return nil
	}
	return field.ErrorList{field.Required(p.at.Child("modelRef", "name"),
		"empty, so that no DynamoModel finds the component: name the base model, or remove modelRef")}
}

func checkpointNodes(p part) field.ErrorList {
	if p.Checkpoint == nil || !p.Checkpoint.Enabled || !p.IsMultinode() {
		return nil
	}
	return field.ErrorList{field.Invalid(p.at.Child("checkpoint"), "", "a checkpoint holds the processes of one pod, and a replica here has several")}
}

// graphWarnings are about what is allowed in graphs, and hardly meant.
func graphWarnings() []Rule {
	row := func(name, says string, judge func(*v1alpha1.DynamoGraphDeployment) field.ErrorList) Rule {
		return Rule{Name: name, Says: says, Kinds: graphs(), Level: Warning, Places: Lint | Webhook, check: on(judge)}
	}
	claims := row("claims-die-with-graph", "Claims that a graph creates are deleted with it, unless it has the annotation `nvidia.com/retain-pvcs`.", claimsFate)
	claims.Level, claims.Places = Note, Lint
	return []Rule{
		row("claim-names-distinct", "A claim is listed twice.", claimsDistinct),
		row("mount-undeclared", "A service mounts a claim that the graph does not list.", mountsDeclared),
		row("variable-hidden", "A variable of the graph hides one of the same name that a container sets.", variablesHidden),
		row("frontends-several", "Several frontends would be published under one host.", frontendsSeveral),
		row("pickers-several", "A graph has several endpoint pickers, and one pool.", pickersSeveral),
		row("frontend-stopped", "No frontend has a replica, and other services have.", frontendStopped),
		claims,
	}
}

func claimsDistinct(g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	var errs field.ErrorList
	first := map[string]int{}
	for i, p := range g.Spec.PVCs {
		name := ptr.Deref(p.Name, "")
		if at, ok := first[name]; ok && name != "" {
			errs = append(errs, field.Invalid(field.NewPath("spec", "pvcs").Index(i).Child("name"), name,
				fmt.Sprintf("spec.pvcs[%d] is called %q too: remove one of them", at, name)))
			continue
		}
		first[name] = i
	}
	return errs
}

func mountsDeclared(g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	listed := map[string]bool{"": true} // a mount without a name is refused elsewhere
	for _, p := range g.Spec.PVCs {
		listed[ptr.Deref(p.Name, "")] = true
	}
	var errs field.ErrorList
	for _, p := range parts(g) {
		for i, v := range p.VolumeMounts {
			if !listed[v.Name] {
				errs = append(errs, field.Invalid(p.at.Child("volumeMounts").Index(i).Child("name"), v.Name,
					fmt.Sprintf("%q is not in spec.pvcs: pods wait until somebody makes a claim of that name", v.Name)))
			}
		}
	}
	return errs
}

func variablesHidden(g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	var errs field.ErrorList
	for _, p := range parts(g) {
		if p.ExtraPodSpec == nil || p.ExtraPodSpec.MainContainer == nil {
			continue
		}
		at := p.at.Child("extraPodSpec", "mainContainer", "env")
		for i, v := range p.ExtraPodSpec.MainContainer.Env {
			graph, ok := variable(g.Spec.Envs, v.Name)
			if _, own := variable(p.Envs, v.Name); !ok || own || equality.Semantic.DeepEqual(graph, v) {
				continue
			}
			errs = append(errs, field.Invalid(at.Index(i), v.Name,
				fmt.Sprintf("%s of spec.envs is used instead: set it in envs of the service to have your own", v.Name)))
		}
	}
	return errs
}

// variable is the last of that name, which is the one that counts.
func variable(envs []corev1.EnvVar, name string) (corev1.EnvVar, bool) {
	for _, v := range slices.Backward(envs) {
		if v.Name == name {
			return v, true
		}
	}
	return corev1.EnvVar{}, false
}

// ofType are the names of a graph's services of a type.
func ofType(g *v1alpha1.DynamoGraphDeployment, componentType string) []string {
	return slices.DeleteFunc(sorted(g), func(name string) bool {
		s := g.Spec.Services[name]
		return s == nil || s.ComponentType != componentType
	})
}

func frontendsSeveral(g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	frontends := slices.DeleteFunc(ofType(g, v1alpha1.ComponentTypeFrontend), func(name string) bool { return g.Spec.Services[name].Ingress != nil })
	if len(frontends) < 2 {
		return nil
	}
	return field.ErrorList{field.Invalid(servicesPath(), "", fmt.Sprintf(
		"%s are frontends without an ingress of their own: where the operator publishes frontends they get the same host", strings.Join(frontends, ", ")))}
}

func pickersSeveral(g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	pickers := ofType(g, v1alpha1.ComponentTypeEPP)
	if len(pickers) < 2 {
		return nil
	}
	return field.ErrorList{field.Invalid(servicesPath(), "",
		fmt.Sprintf("%s are endpoint pickers, and only %s is asked: a graph has one pool", strings.Join(pickers, ", "), pickers[0]))}
}

func frontendStopped(g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	frontends := ofType(g, v1alpha1.ComponentTypeFrontend)
	runs := func(name string) bool {
		s := g.Spec.Services[name]
		return s != nil && (ptr.Deref(s.Replicas, 1) > 0 || s.ScalingAdapter != nil && s.ScalingAdapter.Enabled)
	}
	if len(frontends) == 0 || slices.ContainsFunc(frontends, runs) || !slices.ContainsFunc(sorted(g), runs) {
		return nil
	}
	return field.ErrorList{field.Invalid(servicesPath().Key(frontends[0]).Child("replicas"), 0, "no frontend has a replica, so that nothing answers requests")}
}

func claimsFate(g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	if g.Annotations[names.AnnotationRetainClaims] == names.True {
		return nil
	}
	var made []string
	for _, p := range g.Spec.PVCs {
		if name := ptr.Deref(p.Name, ""); name != "" && ptr.Deref(p.Create, false) {
			made = append(made, name)
		}
	}
	if len(made) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "pvcs"), "", fmt.Sprintf(
		"what is on %s is deleted with the graph, unless its annotation %s is %q", strings.Join(made, ", "), names.AnnotationRetainClaims, names.True))}
}
