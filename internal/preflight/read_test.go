// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dynamo-operator/dynamo-operator/config/manager"
)

// shipped is the Deployment of the manifests for one namespace, as it is in a cluster.
func shipped(t *testing.T, namespace string) appsv1.Deployment {
	t.Helper()
	all, err := manager.Restricted()
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range all {
		if u.GetKind() != "Deployment" {
			continue
		}
		d := appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &d); err != nil {
			t.Fatal(err)
		}
		d.Namespace = namespace
		return d
	}
	t.Fatal("the manifests have no Deployment")
	return appsv1.Deployment{}
}

func TestTheShippedOperatorOfOneNamespaceIsKnownAsSuch(t *testing.T) {
	t.Parallel()
	for _, namespace := range []string{"team-a", "team-b"} {
		o, ok := operatorOf(shipped(t, namespace))
		if !ok || o.Restricted != namespace {
			t.Errorf("in %s: %+v", namespace, o)
		}
	}
}

func TestAFlagIsReadAsItsProcessReadsIt(t *testing.T) {
	t.Parallel()
	env := []corev1.EnvVar{
		{Name: "POD_NAMESPACE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}},
		{Name: "TEAM", Value: "team-a"}, {Name: "SECRET", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "k"}}},
	}
	for name, tc := range map[string]struct {
		words []string
		want  string
	}{
		"nothing":           {[]string{"--leader-elect"}, ""},
		"one word":          {[]string{"--restrictedNamespace=x"}, "x"},
		"one dash":          {[]string{"-restrictedNamespace=x"}, "x"},
		"two words":         {[]string{"--restrictedNamespace", "x", "--leader-elect"}, "x"},
		"a field":           {[]string{"--restrictedNamespace=$(POD_NAMESPACE)"}, "here"},
		"a field, apart":    {[]string{"--restrictedNamespace", "$(POD_NAMESPACE)"}, "here"},
		"a variable":        {[]string{"--restrictedNamespace=$(TEAM)-x"}, "team-a-x"},
		"a Secret":          {[]string{"--restrictedNamespace=$(SECRET)"}, "$(SECRET)"},
		"the last counts":   {[]string{"--restrictedNamespace=x", "--restrictedNamespace=y"}, "y"},
		"another flag":      {[]string{"--restrictedNamespaces=x"}, ""},
		"a word, no flag":   {[]string{"restrictedNamespace=x"}, ""},
		"nothing behind it": {[]string{"--restrictedNamespace"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := flagOf("here", corev1.Container{Args: tc.words, Env: env}, "restrictedNamespace"); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestAWebhookIsAskedAboutWhatItSelects(t *testing.T) {
	t.Parallel()
	only := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "team-a"}}
	here, there := labels.Set{corev1.LabelMetadataName: "team-a"}, labels.Set{corev1.LabelMetadataName: "team-b"}
	rule := func(resource string, operation admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
		return []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{operation},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"nvidia.com"}, APIVersions: []string{"*"}, Resources: []string{resource}},
		}}
	}
	graph := rule(graphs, admissionregistrationv1.Create)
	for name, tc := range map[string]struct {
		hook hook
		set  labels.Set
		want bool
	}{
		"every namespace":           {hook{rules: graph}, there, true},
		"every one, unread":         {hook{rules: graph}, nil, true},
		"this namespace":            {hook{rules: graph, namespaces: only}, here, true},
		"another namespace":         {hook{rules: graph, namespaces: only}, there, false},
		"unread":                    {hook{rules: graph, namespaces: only}, nil, false},
		"an empty selector, unread": {hook{rules: graph, namespaces: &metav1.LabelSelector{}}, nil, true},
		"labelled objects":          {hook{rules: graph, objects: only}, here, false},
		"another kind":              {hook{rules: rule("dynamomodels", admissionregistrationv1.Create)}, here, false},
		"every kind":                {hook{rules: rule("*", admissionregistrationv1.OperationAll)}, here, true},
		"updates":                   {hook{rules: rule(graphs, admissionregistrationv1.Update)}, here, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.hook.asked(tc.set); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestEachPresetAsksForTheRightsThatItNeeds(t *testing.T) {
	t.Parallel()
	has := func(p Preset, verb, resource, namespace string) bool {
		for _, r := range (Question{Install: "i", Namespace: "n", Preset: p}).rights() {
			if r.Install && r.Verb == verb && r.Resource == resource && r.Namespace == namespace {
				return true
			}
		}
		return false
	}
	type answers struct{ clusterRole, role, escalate, webhooks, statefulSets, policies bool }
	want := map[Preset]answers{
		PresetNone:        {clusterRole: true, role: true, escalate: true, webhooks: true, statefulSets: true},
		PresetDevelopment: {clusterRole: true, role: true, escalate: true, webhooks: true, statefulSets: true},
		PresetProduction:  {clusterRole: true, role: true, escalate: true, webhooks: true, statefulSets: true, policies: true},
		PresetMultiTenant: {role: true, statefulSets: true, policies: true},
	}
	got := map[Preset]answers{}
	for _, p := range Presets() {
		got[p] = answers{
			clusterRole:  has(p, "create", "clusterroles.rbac.authorization.k8s.io", ""),
			role:         has(p, "create", "roles.rbac.authorization.k8s.io", "i"),
			escalate:     has(p, "escalate", "clusterroles.rbac.authorization.k8s.io", ""),
			webhooks:     has(p, "create", "mutatingwebhookconfigurations.admissionregistration.k8s.io", ""),
			statefulSets: has(p, "create", "statefulsets.apps", "i"), policies: has(p, "create", "networkpolicies.networking.k8s.io", "i"),
		}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(answers{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheTimeIsThatOfTheServer(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Date", at.Format(http.TimeFormat)) }))
	defer server.Close()
	told := &serverTime{}
	if _, ok := told.last(); ok {
		t.Error("it knows the time before anybody told")
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := told.wrap(http.DefaultTransport).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if got, ok := told.last(); !ok || !got.Equal(at) {
		t.Errorf("got %v, %t", got, ok)
	}
}
