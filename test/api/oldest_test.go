// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/version"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/dynamo-operator/dynamo-operator/config/crd"
	"github.com/dynamo-operator/dynamo-operator/config/webhook"
)

// oldestLanguage is the language that rules may be written in for the oldest release that the charts accept. A release takes in what
// the one before it understands, so that it can be rolled back.
func oldestLanguage(t *testing.T) *environment.EnvSet {
	t.Helper()
	minor := 0
	for _, chart := range []string{"crds", "platform"} {
		text, err := os.ReadFile("../../charts/" + chart + "/Chart.yaml")
		if err != nil {
			t.Fatal(err)
		}
		named := regexp.MustCompile(`(?m)^kubeVersion: "?'?>=1\.(\d+)\.`).FindSubmatch(text)
		if named == nil {
			t.Fatalf("chart %s does not say which Kubernetes it needs", chart)
		}
		n, err := strconv.Atoi(string(named[1]))
		if err != nil {
			t.Fatal(err)
		}
		if minor != 0 && n != minor {
			t.Errorf("one chart needs Kubernetes 1.%d, the other 1.%d", minor, n)
		}
		minor = n
	}
	return environment.MustBaseEnvSet(version.MajorMinor(1, uint(minor-1)))
}

func TestTheRulesOfTheDefinitionsAreForTheOldestRelease(t *testing.T) {
	t.Parallel()
	language := oldestLanguage(t)
	all, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	rules := 0
	for _, d := range all {
		for _, v := range d.Spec.Versions {
			root := structural(t, v.Schema.OpenAPIV3Schema)
			found, problems := compiled(language, d.Name, root, true)
			rules += found
			for _, p := range problems {
				t.Error(p)
			}
		}
	}
	if rules < 20 {
		t.Errorf("%d rules were found; the test proves nothing", rules)
	}
}

func TestARuleOfALaterReleaseIsRefused(t *testing.T) {
	t.Parallel()
	later := structural(t, &apiextensionsv1.JSONSchemaProps{
		Type: "string", XValidations: apiextensionsv1.ValidationRules{{Rule: "isSemver(self)"}},
	})
	if _, problems := compiled(oldestLanguage(t), "later", later, false); len(problems) != 1 {
		t.Errorf("problems: %v", problems)
	}
	condition := &matchconditions.MatchCondition{Name: "later", Expression: "isSemver(object.spec.version)"}
	if err := conditionProblem(oldestLanguage(t), condition); err == nil {
		t.Error("a condition of a webhook is not refused")
	}
}

func TestTheConditionsOfWebhooksAreForTheOldestRelease(t *testing.T) {
	t.Parallel()
	validating, mutating, err := webhook.Both()
	if err != nil {
		t.Fatal(err)
	}
	var conditions []admissionregistrationv1.MatchCondition
	for _, w := range validating.Webhooks {
		conditions = append(conditions, w.MatchConditions...)
	}
	for _, w := range mutating.Webhooks {
		conditions = append(conditions, w.MatchConditions...)
	}
	if len(conditions) == 0 {
		t.Error("no conditions were found; the test proves nothing")
	}
	language := oldestLanguage(t)
	for _, c := range conditions {
		if err := conditionProblem(language, (*matchconditions.MatchCondition)(&c)); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

func conditionProblem(language *environment.EnvSet, c *matchconditions.MatchCondition) error {
	made := admissioncel.NewCompiler(language).CompileCELExpression(c, admissioncel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.NewExpressions)
	if made.Error != nil {
		return made.Error
	}
	return nil
}

// structural is a schema as the API server works with it.
func structural(t *testing.T, props *apiextensionsv1.JSONSchemaProps) *schema.Structural {
	t.Helper()
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, &internal, nil); err != nil {
		t.Fatal(err)
	}
	s, err := schema.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// compiled compiles all rules at and below a place in a schema, and returns how many there are and what is wrong with them.
func compiled(language *environment.EnvSet, at string, s *schema.Structural, root bool) (rules int, problems []string) {
	results, err := schemacel.Compile(s, model.SchemaDeclType(s, root || s.XEmbeddedResource), celconfig.PerCallLimit, language, schemacel.NewExpressionsEnvLoader())
	if err != nil {
		problems = append(problems, fmt.Sprintf("%s: %v", at, err))
	}
	for i, r := range results {
		rules++
		if r.Error != nil {
			problems = append(problems, fmt.Sprintf("%s: rule %q: %v", at, s.XValidations[i].Rule, r.Error))
		}
		if r.MessageExpressionError != nil {
			problems = append(problems, fmt.Sprintf("%s: message of rule %q: %v", at, s.XValidations[i].Rule, r.MessageExpressionError))
		}
	}
	below := map[string]*schema.Structural{}
	for name, inner := range s.Properties {
		below["."+name] = &inner
	}
	if s.Items != nil {
		below["[]"] = s.Items
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		below["{}"] = s.AdditionalProperties.Structural
	}
	for name, inner := range below {
		found, wrong := compiled(language, at+name, inner, false)
		rules, problems = rules+found, append(problems, wrong...)
	}
	return rules, problems
}
