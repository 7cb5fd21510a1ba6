// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"github.com/dynamo-operator/dynamo-operator/config/crd"
)

var update = flag.Bool("update", false, "write the costs anew")

const costsFile = "testdata/costs.txt"

// What the API server allows a rule, and all rules of a definition together, to cost in the worst case.
const (
	ruleLimit       = 10_000_000
	definitionLimit = 100_000_000
)

func TestDefaultsAreFilledInAndNullsAreDropped(t *testing.T) {
	t.Parallel()
	d := definition(t, "DynamoGraphDeployment")
	got := object(t, `{spec: {backendFramework: null, restart: {id: a, strategy: {}}, services: {a: {multinode: {}, replicas: null}}}}`)
	d.Default(got)
	want := object(t, `{spec: {restart: {id: a, strategy: {type: Sequential}}, services: {a: {multinode: {nodeCount: 2}}}}, status: {observedGeneration: -1}}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTypesAndRulesAreJudgedAsTheAPIServerDoes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		object string
		want   []string
	}{
		"fine": {object: `{spec: {services: {a: {replicas: 1}}}}`},
		"a rule": {
			object: `{spec: {services: {a: {ingress: {enabled: true}}}}}`,
			want:   []string{`spec.services[a].ingress.host: Invalid value: an enabled ingress needs a host`},
		},
		"a limit does not keep rules from being judged": {
			object: `{spec: {services: {a: {replicas: -1, ingress: {enabled: true}}}}}`,
			want: []string{
				`spec.services.a.replicas: Invalid value: -1: spec.services.a.replicas in body should be greater than or equal to 0`,
				`spec.services[a].ingress.host: Invalid value: an enabled ingress needs a host`,
			},
		},
		"a type does": {
			object: `{spec: {backendFramework: 1, services: {a: {ingress: {enabled: true}}}}}`,
			want: []string{
				`spec.backendFramework: Invalid value: "integer": spec.backendFramework in body must be of type string: "integer"`,
				`spec.backendFramework: Unsupported value: 1: supported values: "sglang", "vllm", "trtllm"`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, err := range definition(t, "DynamoGraphDeployment").Create(t.Context(), object(t, tc.object)).All() {
				got = append(got, err.Error())
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnUpdateIsNotBlamedForWhatItLeavesAlone(t *testing.T) {
	t.Parallel()
	d := definition(t, "DynamoGraphDeployment")
	old := object(t, `{spec: {services: {a: {ingress: {enabled: true}}, b: {}}}}`)
	for changed, refused := range map[string]bool{
		`{metadata: {labels: {a: b}}, spec: {services: {a: {ingress: {enabled: true}}, b: {}}}}`:                false,
		`{spec: {services: {a: {ingress: {enabled: true}}, b: {replicas: 2}}}}`:                                 false,
		`{spec: {services: {a: {ingress: {enabled: true, useVirtualService: true}}, b: {}}}}`:                   true,
		`{spec: {services: {a: {ingress: {enabled: true, host: h}}, b: {}}}}`:                                   false,
		`{spec: {services: {a: {ingress: {enabled: true}}, b: {multinode: {nodeCount: 2}}}}}`:                   true,
		`{spec: {services: {a: {ingress: {enabled: true}}, b: {}}}, status: {state: failed}}`:                   false,
		`{spec: {backendFramework: vllm, services: {a: {ingress: {enabled: true}}, b: {}}}}`:                    true,
		`{spec: {services: {a: {ingress: {enabled: true}}, b: {}, c: {}}}}`:                                     true,
		`{spec: {services: {a: {ingress: {enabled: true}}, b: {sharedMemory: {disabled: true}, replicas: 0}}}}`: false,
	} {
		if errs := d.Update(t.Context(), object(t, changed), old).All(); (len(errs) > 0) != refused {
			t.Errorf("%s: refused should be %v, got %v", changed, refused, errs)
		}
	}
}

func TestThereIsNoDefinitionOfOtherKinds(t *testing.T) {
	t.Parallel()
	if _, err := Of("Deployment"); err == nil {
		t.Error("no error")
	}
}

// The file shows what a change of a rule does to its cost.
func TestRulesStayCheap(t *testing.T) {
	t.Parallel()
	definitions, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, d := range definitions {
		structural := definition(t, d.Spec.Names.Kind).structural
		w := walk{t: t}
		w.schema(d.Spec.Names.Kind, structural, model.SchemaDeclType(structural, true), bounded(1))
		if w.total > definitionLimit {
			t.Errorf("%s: rules cost %d together, allowed are %d", d.Name, w.total, definitionLimit)
		}
		slices.Sort(w.lines)
		lines = append(lines, append(w.lines, fmt.Sprintf("%s: %d together\n", d.Spec.Names.Kind, w.total))...)
	}
	got := strings.Join(lines, "")
	if *update {
		if err := os.WriteFile(costsFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(costsFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", costsFile, diff)
	}
}

// times is how often a rule is evaluated at most. Where no limit is set, it is as often as fits into a request.
type times struct {
	n         uint64
	unlimited bool
}

func bounded(n uint64) times { return times{n: n} }

func (m times) by(limit *int64) times {
	if limit == nil {
		return times{unlimited: true}
	}
	return times{n: m.n * uint64(*limit), unlimited: m.unlimited}
}

// walk estimates the costs of all rules of a definition as the API server does when it is installed.
type walk struct {
	t     *testing.T
	lines []string
	total uint64
}

func (w *walk) schema(path string, s *schema.Structural, decl *cel.DeclType, often times) {
	if decl == nil {
		return
	}
	w.rules(path, s, decl, often)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if member, ok := decl.Fields[name]; ok {
			inner := s.Properties[name]
			w.schema(path+"."+name, &inner, member.Type, often)
		}
	}
	var items, properties *int64
	if s.ValueValidation != nil {
		items, properties = s.ValueValidation.MaxItems, s.ValueValidation.MaxProperties
	}
	if s.Items != nil {
		w.schema(path+"[]", s.Items, decl.ElemType, often.by(items))
	}
	if values := s.AdditionalProperties; values != nil && values.Structural != nil {
		w.schema(path+"{}", values.Structural, decl.ElemType, often.by(properties))
	}
}

func (w *walk) rules(path string, s *schema.Structural, decl *cel.DeclType, often times) {
	w.t.Helper()
	if len(s.XValidations) == 0 {
		return
	}
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	results, err := schemacel.Compile(s, decl, celconfig.PerCallLimit, base, schemacel.StoredExpressionsEnvLoader())
	if err != nil {
		w.t.Fatal(err)
	}
	for i, r := range results {
		if r.Error != nil {
			w.t.Fatalf("%s: %v", path, r.Error)
		}
		n := often.n
		if often.unlimited {
			n = r.MaxCardinality
		}
		cost := r.MaxCost * n
		if cost > ruleLimit {
			w.t.Errorf("%s: %q costs %d, allowed are %d", path, s.XValidations[i].Message, cost, ruleLimit)
		}
		w.total += cost
		w.lines = append(w.lines, fmt.Sprintf("%s: %d: %s\n", path, cost, s.XValidations[i].Message))
	}
}

func definition(t *testing.T, kind string) *Definition {
	t.Helper()
	d, err := Of(kind)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(asJSON, &members); err != nil { // whole numbers stay whole
		t.Fatal(err)
	}
	return members
}
