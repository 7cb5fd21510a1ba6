// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package offline does what the operator does, without a cluster: it reads manifests, judges and renders them with the
// functions that the controllers use, and returns what would be applied, in the order in which it would be applied.
//
// What the operator reads from a cluster counts as empty: no registry secrets, no marked service accounts, nothing that
// has a name already. Claims that a graph expects to find count as found. It holds no client and does no I/O.
package offline

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/admission"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// Operator is the operator that is played.
type Operator struct {
	Settings input.Settings
	// Namespace is the only one in which it works, empty for all.
	Namespace string
	// InferencePools says whether the cluster serves them. Nothing is refused for the sake of what is not known.
	InferencePools admission.Presence
	// Orchestrator is what runs the pods of every graph; empty leaves it to the operator's own rule.
	Orchestrator Orchestrator
}

// Orchestrator is what runs the pods of a graph.
type Orchestrator string

// The orchestrators. Deployment and LWS both mean components; LWS says that the cluster has LeaderWorkerSets.
const (
	Deployment Orchestrator = "deployment"
	LWS        Orchestrator = "lws"
	Grove      Orchestrator = "grove"
)

// circumstances are what the operator's rules depend on.
func (o Operator) circumstances() admission.Circumstances {
	return admission.Circumstances{Restricted: o.Namespace != "", InferencePools: o.InferencePools}
}

// Place is where a graph would stand: with nothing in the cluster yet but the APIs the operator was told of.
func (o Operator) Place(g *v1alpha1.DynamoGraphDeployment) input.Graph {
	in := input.Graph{Settings: o.Settings}
	in.Settings.Serves = o.serves()
	switch o.Orchestrator {
	case Grove:
		in.OnGrove = true
	case "":
		in.OnGrove = in.Settings.Serves.Grove && !strings.EqualFold(g.Annotations[names.AnnotationEnableGrove], names.False)
	}
	if r := g.Spec.Restart; r != nil {
		in.Restarts = map[string]string{}
		for service := range g.Spec.Services {
			in.Restarts[service] = r.ID // what is made anew is made with the token of a restart
		}
	}
	return in
}

// Component is a component where it would stand.
func (o Operator) Component(c *v1alpha1.DynamoComponentDeployment) input.Component {
	settings := o.Settings
	settings.Serves = o.serves()
	in := input.FromDeployment(c, settings, nil)
	in.World.Volcano = c.IsMultinode() && settings.Serves.Volcano
	return in
}

// serves are the APIs of the cluster. An orchestrator that was asked for is there.
func (o Operator) serves() input.Capabilities {
	serves := o.Settings.Serves
	serves.Grove = serves.Grove || o.Orchestrator == Grove
	serves.LWS = serves.LWS || o.Orchestrator == LWS
	return serves
}

// Objects returns everything that the operator would apply for the documents: for each graph its own objects, then those
// of its components in their order; for each component its objects. If anything is wrong with any document it returns
// every problem and no object, so that nobody takes a part for the whole.
func Objects(documents []Document, o Operator) ([]*unstructured.Unstructured, []Problem) {
	w := o.all(documents)
	for _, d := range documents {
		if kind := kindOf(d.Object); !slices.Contains(rendered(), kind) {
			w.complain(d, ruleRendering, field.ErrorList{field.NotSupported(field.NewPath("kind"), kind, rendered())})
		}
	}
	if len(w.problems) > 0 {
		return nil, w.problems
	}
	return w.objects, nil
}

// rendered are the kinds of which the objects are known that are made for them. For a model none are.
func rendered() []string {
	return []string{v1alpha1.KindDynamoGraphDeployment, v1alpha1.KindDynamoComponentDeployment, v1alpha1.KindDynamoModel}
}

// all judges and renders all documents.
func (o Operator) all(documents []Document) *work {
	w := &work{operator: o, encode: newEncoder(), taken: map[identity]entry{}, clashes: map[clash]bool{}}
	for _, d := range documents {
		w.give(d)
	}
	for _, d := range documents {
		w.document(d)
	}
	return w
}

// identity is what no two objects of a cluster share.
type identity struct {
	kind schema.GroupKind
	types.NamespacedName
}

func (i identity) String() string { return i.kind.Kind + " " + i.Name }

// entry is an object that has a name, and the document it was made for. Object is nil for a document itself.
type entry struct {
	document Document
	object   *unstructured.Unstructured
	shared   bool
}

// clash is two documents that want the same name for something.
type clash struct{ first, second client.Object }

// work is one run over all documents.
type work struct {
	operator Operator
	encode   encoder

	objects  []*unstructured.Unstructured
	taken    map[identity]entry
	clashes  map[clash]bool
	problems []Problem
}

// give takes note of a document, so that nothing that is made for another one takes its name.
func (w *work) give(d Document) {
	id := identity{d.Object.GetObjectKind().GroupVersionKind().GroupKind(), client.ObjectKeyFromObject(d.Object)}
	if other, ok := w.taken[id]; ok {
		w.complain(d, ruleNames, field.ErrorList{field.Duplicate(field.NewPath("metadata", "name"),
			fmt.Sprintf("%s, also in %s", id.Name, other.document.Source))})
		w.clashes[clash{other.document.Object, d.Object}] = true
		return
	}
	w.taken[id] = entry{document: d}
}

func (w *work) complain(d Document, rule string, errs field.ErrorList) {
	w.problems = append(w.problems, d.problems(rule, errs)...)
}

// document judges and renders one document. Somebody who mends a file wants to hear of everything at once, but not twice: in
// the words of a rule before those of the definition, and of both before those of whoever cannot render it.
func (w *work) document(d Document) {
	if only := w.operator.Namespace; only != "" && d.Object.GetNamespace() != only {
		w.complain(d, ruleNames, field.ErrorList{field.Invalid(field.NewPath("metadata", "namespace"), d.Object.GetNamespace(),
			"the operator works in namespace "+only+" only")})
		return
	}
	var problems []Problem
	var said field.ErrorList
	add := func(rule string, errs field.ErrorList) {
		problems, said = append(problems, d.problems(rule, errs)...), append(said, errs...)
	}
	for _, f := range admission.Examine(d.Object, w.operator.circumstances()) {
		if f.Level == admission.Refusal {
			add(f.Rule, field.ErrorList{f.Err})
		}
	}
	add(ruleSchema, united(said, d.faults.Types)[len(said):])
	add(ruleSchema, around(said, d.faults.Rules))
	stages, errs := w.stages(d.Object)
	add(ruleRendering, united(said, errs)[len(said):])
	if len(problems) > 0 {
		byField(problems)
		w.problems = append(w.problems, problems...)
		return
	}
	w.add(d, d.Object, stages)
	w.components(d, stages)
}

// stages renders an object. Of most kinds nothing is rendered.
func (w *work) stages(object client.Object) (render.Stages, field.ErrorList) {
	switch o := object.(type) {
	case *v1alpha1.DynamoGraphDeployment:
		return render.Graph(o, w.operator.Place(o))
	case *v1alpha1.DynamoComponentDeployment:
		return render.Component(w.operator.Component(o))
	}
	return nil, nil
}

// components renders the components of a graph.
func (w *work) components(d Document, stages render.Stages) {
	for _, stage := range stages {
		for _, object := range stage {
			component, ok := object.Object.(*v1alpha1.DynamoComponentDeployment)
			if !ok {
				continue
			}
			component.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.KindDynamoComponentDeployment))
			inner, errs := w.stages(component)
			if errs = united(admission.Component(component), errs); len(errs) > 0 {
				w.complain(d, ruleRendering, errs)
				continue
			}
			w.add(d, component, inner)
		}
	}
}

// add takes the stages of an owner. An object that several owners share is there once, with all of them.
func (w *work) add(d Document, owner client.Object, stages render.Stages) {
	for _, stage := range stages {
		for _, rendered := range stage {
			object, err := w.encode.applied(rendered, owner)
			if err != nil {
				w.complain(d, ruleRendering, field.ErrorList{field.InternalError(nil, err)})
				continue
			}
			w.take(d, object, rendered.Belonging.IsShared())
		}
	}
}

// claimKind is made once and belongs to whoever was first.
var claimKind = schema.GroupKind{Kind: "PersistentVolumeClaim"}

func (w *work) take(d Document, object *unstructured.Unstructured, shared bool) {
	id := identity{object.GroupVersionKind().GroupKind(), client.ObjectKeyFromObject(object)}
	other, ok := w.taken[id]
	switch {
	case !ok:
		w.taken[id] = entry{document: d, object: object, shared: shared}
		w.objects = append(w.objects, object)
	case shared && other.shared:
		joinOwners(other.object, object)
	case id.kind == claimKind: // whoever comes second finds it, and leaves it as it is
	default:
		w.refuse(d, other.document, id)
	}
}

// refuse reports an object whose name another one has. Whatever else the two documents share follows from the first.
func (w *work) refuse(d, holder Document, id identity) {
	c := clash{holder.Object, d.Object}
	if w.clashes[c] {
		return
	}
	w.clashes[c] = true
	w.complain(d, ruleNames, field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), d.Object.GetName(),
		fmt.Sprintf("%s would be made twice, also for %s %s in %s", id, kindOf(holder.Object), holder.Object.GetName(), holder.Source))})
}
