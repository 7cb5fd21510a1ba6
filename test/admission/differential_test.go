// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/config/crd"
	"github.com/dynamo-operator/dynamo-operator/internal/admission"
	"github.com/dynamo-operator/dynamo-operator/internal/offline"
	"github.com/dynamo-operator/dynamo-operator/test/admission/cases"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// How many objects are made at random, besides one for every case.
const (
	newObjects     = 300
	changedObjects = 150
	randomGraphs   = 40
)

// seen is what the API server was seen to enforce: rules of ours by name and kind, and rules of definitions by their message.
type seen map[string]bool

// note takes note of a refusal. Who breaks several rules at once does not show which of them is enforced.
func (s seen) note(kind string, rules, server []string) {
	if len(rules) == 1 {
		s[rules[0]+" of "+kind] = true
	}
	for _, said := range server {
		s[kind+": "+said] = true
	}
}

// complain fails for every rule that was not seen.
func (s seen) complain(t *testing.T, transition bool) {
	t.Helper()
	for _, rule := range admission.Rules() {
		for _, kind := range rule.Kinds {
			if rule.Places&admission.Schema != 0 && rule.Transition == transition && !s[rule.Name+" of "+kind] {
				t.Errorf("the API server was never seen to refuse what breaks %s of %s", rule.Name, kind)
			}
		}
	}
	definitions, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range definitions {
		for _, rule := range rulesOf(d.Spec.Versions[0].Schema.OpenAPIV3Schema) {
			said := func(text string) bool {
				return strings.HasPrefix(text, d.Spec.Names.Kind+": ") && strings.HasSuffix(text, ": "+rule.Message)
			}
			if strings.Contains(rule.Rule, "oldSelf") == transition && !slices.ContainsFunc(slices.Collect(maps.Keys(s)), said) {
				t.Errorf("nothing was seen to break the rule %q of the definition of %s", rule.Message, d.Spec.Names.Kind)
			}
		}
	}
}

// rulesOf are the rules in a schema.
func rulesOf(schema *apiextensionsv1.JSONSchemaProps) apiextensionsv1.ValidationRules {
	rules := schema.XValidations
	for _, member := range schema.Properties {
		rules = append(rules, rulesOf(&member)...)
	}
	if items := schema.Items; items != nil && items.Schema != nil {
		rules = append(rules, rulesOf(items.Schema)...)
	}
	if values := schema.AdditionalProperties; values != nil && values.Schema != nil {
		rules = append(rules, rulesOf(values.Schema)...)
	}
	return rules
}

func TestNewObjectsAreJudgedAlikeByAll(t *testing.T) {
	t.Parallel()
	namespace := harness.Namespace(t)
	every, bases := all(t)
	refused := seen{}
	try := func(name string, object map[string]any) {
		object = placed(t, object, namespace)
		server := causes(t, dryCreate(t, object))
		filled := runtime.DeepCopyJSON(object)
		definition(t, object).Default(filled)
		rules := ours(refusals(t, filled)) // a webhook sees what the API server has filled in
		compare(t, name, server, definition(t, object).Create(t.Context(), filled).All(), rules)
		if len(server) > 0 {
			kind, _ := object["kind"].(string)
			refused.note(kind, rules, server)
		}
	}
	fresh := slices.DeleteFunc(every, func(c cases.Case) bool { return c.Old != nil })
	for _, c := range fresh {
		try(c.Kind+" "+c.Rule+" ("+c.Name+")", c.Object)
	}
	for seed := range uint64(newObjects) {
		chosen := some(seed, fresh)
		object := bases[chosen[0].Kind]
		for _, c := range chosen {
			object = cases.Merge(object, c.Change)
		}
		try(title(seed, chosen), object)
	}
	for seed := range uint64(randomGraphs) {
		object := graph(t, seed, namespace)
		try(fmt.Sprintf("graph of seed %d", seed), object)
		name, change := spoilt(seed, object, fresh)
		try(fmt.Sprintf("graph of seed %d, %s", seed, name), cases.Merge(object, change))
	}
	refused.complain(t, false)
}

func TestChangesAreJudgedAlikeByAll(t *testing.T) {
	t.Parallel()
	namespace := harness.Namespace(t)
	every, bases := all(t)
	refused := seen{}
	number := 0
	try := func(name string, old, object map[string]any) {
		number++
		called := map[string]any{"metadata": map[string]any{"name": fmt.Sprintf("object-%d", number)}}
		stored := &unstructured.Unstructured{Object: placed(t, cases.Merge(old, called), namespace)}
		if err := harness.Client(t).Create(t.Context(), stored); err != nil {
			t.Errorf("%s: what is to be changed is refused: %v", name, err)
			return
		}
		before := runtime.DeepCopyJSON(stored.Object)
		changed := placed(t, cases.Merge(object, called), namespace)
		stored.Object["spec"] = changed["spec"]
		server := causes(t, harness.Client(t).Update(t.Context(), stored.DeepCopy(), client.DryRunAll))
		filled := runtime.DeepCopyJSON(stored.Object)
		definition(t, filled).Default(filled)
		rules := ours(admission.Judge(stored.GetKind(), typed(t, before), typed(t, filled), admission.Circumstances{}).Errors)
		compare(t, name, server, definition(t, filled).Update(t.Context(), filled, before).All(), rules)
		if len(server) > 0 {
			refused.note(stored.GetKind(), rules, server)
		}
	}
	updates := slices.DeleteFunc(slices.Clone(every), func(c cases.Case) bool { return c.Old == nil })
	for _, c := range updates {
		try(c.Kind+" "+c.Rule+" ("+c.Name+")", c.Old, c.Object)
	}
	for seed := range uint64(changedObjects) {
		chosen := some(seed, every)
		old, object := bases[chosen[0].Kind], bases[chosen[0].Kind]
		if c := chosen[0]; c.Old != nil {
			old = c.Old
		}
		for _, c := range chosen {
			object = cases.Merge(object, c.Change)
		}
		try(title(seed, chosen), old, object)
	}
	refused.complain(t, true)
}

func TestTheCommandLineSaysWhatRulesAndDefinitionsSay(t *testing.T) {
	t.Parallel()
	every, bases := all(t)
	operator := offline.DefaultOperator()
	operator.Settings.Serves.LWS = true
	try := func(name string, object map[string]any) {
		object = placed(t, object, "team-a")
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		report := offline.Lint([]offline.File{{Name: "f", Content: text}}, operator)
		said := map[string]bool{}
		for _, p := range report.Findings {
			said[p.Rule+" "+p.Field()] = true
			if p.Level == admission.Refusal && p.Line == 0 {
				t.Errorf("%s: nobody knows where %s is", name, p.Field())
			}
		}
		errs := refusals(t, object)
		for _, f := range admission.Examine(typed(t, object), admission.Circumstances{}) {
			if !said[f.Rule+" "+f.Err.Field] {
				t.Errorf("%s: the command line keeps back %s: %s", name, f.Rule, f.Text())
			}
		}
		filled := runtime.DeepCopyJSON(object)
		definition(t, object).Default(filled)
		faults := definition(t, object).Create(t.Context(), filled).All()
		others := slices.ContainsFunc(report.Findings, func(p offline.Problem) bool { return p.Rule == "rendering" })
		if (report.Count(admission.Refusal) > 0) != (len(errs)+len(faults) > 0 || others) {
			t.Errorf("%s: rules say %v, definitions %v, and the command line %v", name, errs, faults, report.Findings)
		}
	}
	fresh := slices.DeleteFunc(every, func(c cases.Case) bool {
		return c.Old != nil || c.Circumstances.Restricted || c.Circumstances.InferencePools != 0
	})
	for _, c := range fresh {
		try(c.Kind+" "+c.Rule+" ("+c.Name+")", c.Object)
	}
	for seed := range uint64(newObjects) {
		chosen := some(seed, fresh)
		object := bases[chosen[0].Kind]
		for _, c := range chosen {
			object = cases.Merge(object, c.Change)
		}
		try(title(seed, chosen), object)
	}
}

// refusals are the errors of a new object by our own rules.
func refusals(t testing.TB, object map[string]any) field.ErrorList {
	t.Helper()
	kind, _ := object["kind"].(string)
	return admission.Judge(kind, nil, typed(t, object), admission.Circumstances{}).Errors
}

// some are one to four cases of one kind.
func some(seed uint64, from []cases.Case) []cases.Case {
	random := rand.New(rand.NewPCG(seed, 0))
	first := from[random.IntN(len(from))]
	chosen := []cases.Case{first}
	same := slices.DeleteFunc(slices.Clone(from), func(c cases.Case) bool { return c.Kind != first.Kind || c.Old != nil })
	for range random.IntN(4) {
		if len(same) > 0 {
			chosen = append(chosen, same[random.IntN(len(same))])
		}
	}
	return chosen
}

// graph is a good graph made at random.
func graph(t testing.TB, seed uint64, namespace string) map[string]any {
	t.Helper()
	made := builders.NewGenerator(seed).Graph(namespace, "g")
	made.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.KindDynamoGraphDeployment))
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(made)
	if err != nil {
		t.Fatal(err)
	}
	delete(object, "status")
	return object
}

// spoilt changes some service of a graph by what spoils a component.
func spoilt(seed uint64, object map[string]any, from []cases.Case) (string, map[string]any) {
	random := rand.New(rand.NewPCG(seed, 1))
	parts := slices.DeleteFunc(slices.Clone(from), func(c cases.Case) bool {
		return c.Kind != v1alpha1.KindDynamoComponentDeployment || c.Change["metadata"] != nil
	})
	c := parts[random.IntN(len(parts))]
	services, _, _ := unstructured.NestedMap(object, "spec", "services")
	names := slices.Sorted(maps.Keys(services))
	change := map[string]any{"spec": map[string]any{"services": map[string]any{names[random.IntN(len(names))]: c.Change["spec"]}}}
	return c.Rule + " (" + c.Name + ")", change
}
