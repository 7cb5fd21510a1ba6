// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac_test

import (
	"bytes"
	"cmp"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/dynamo-operator/dynamo-operator/config/rbac"
)

var update = flag.Bool("update", false, "write the roles anew")

const (
	roleName = "dynamo-operator-manager"

	// The names of roles in markers say which operators run the code below them.
	both        = "both"
	clusterWide = "cluster-wide"
	oneOnly     = "restricted"
)

// marked are the rules of all markers, by the name of the role they are for.
func marked(t *testing.T) map[string][]rbacv1.PolicyRule {
	t.Helper()
	content, err := os.ReadFile("markers/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]rbacv1.PolicyRule{}
	for document := range bytes.SplitSeq(bytes.TrimPrefix(content, []byte("---\n")), []byte("\n---\n")) {
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict(document, &role); err != nil {
			t.Fatal(err)
		}
		all[role.Name] = role.Rules
	}
	return all
}

// merge folds the rules of all operators and those of one mode into one list, sorted. What all may do is not said again.
func merge(all, mode []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	had := rights(all)
	verbs := map[string][]string{}
	var merged []rbacv1.PolicyRule
	for i, rule := range slices.Concat(all, mode) {
		if i >= len(all) && covered(had, rule) {
			continue
		}
		if verbs[about(rule)] == nil {
			merged = append(merged, rule)
		}
		verbs[about(rule)] = append(verbs[about(rule)], rule.Verbs...)
	}
	for i := range merged {
		merged[i].Verbs = slices.Compact(slices.Sorted(slices.Values(verbs[about(merged[i])])))
	}
	slices.SortFunc(merged, func(a, b rbacv1.PolicyRule) int { return cmp.Compare(about(a), about(b)) })
	return merged
}

// covered tells whether a rule gives nothing beyond rights for every name.
func covered(had map[string]bool, rule rbacv1.PolicyRule) bool {
	rule.ResourceNames = nil
	for right := range rights([]rbacv1.PolicyRule{rule}) {
		if !had[right] {
			return false
		}
	}
	return true
}

// about is what a rule is about.
func about(rule rbacv1.PolicyRule) string {
	return strings.Join([]string{strings.Join(rule.APIGroups, "&"), strings.Join(rule.Resources, "&"), strings.Join(rule.ResourceNames, "&")}, " + ")
}

func TestTheRolesAreWhatTheMarkersSay(t *testing.T) {
	t.Parallel()
	rules := marked(t)
	for name := range rules {
		if name != both && name != clusterWide && name != oneOnly {
			t.Errorf("a marker is for the role %q, which is none of %q, %q and %q", name, both, clusterWide, oneOnly)
		}
	}
	kind := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	meta := metav1.ObjectMeta{Name: roleName}
	for path, role := range map[string]any{
		"role.yaml":            &rbacv1.ClusterRole{TypeMeta: kind("ClusterRole"), ObjectMeta: meta, Rules: merge(rules[both], rules[clusterWide])},
		"restricted/role.yaml": &rbacv1.Role{TypeMeta: kind("Role"), ObjectMeta: meta, Rules: rbac.Namespaced(merge(rules[both], rules[oneOnly]))},
	} {
		content, err := yaml.Marshal(role)
		if err != nil {
			t.Fatal(err)
		}
		want := append([]byte("# Made from the markers in the code by make generate; do not edit.\n"), content...)
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("config/rbac/%s is out of date; run make generate (-want +got):\n%s", path, diff)
		}
	}
}

// TestTheLeaseOfANamespaceIsWrittenByItsHolder is about the only objects that the two kinds of operators use in different ways.
func TestTheLeaseOfANamespaceIsWrittenByItsHolder(t *testing.T) {
	t.Parallel()
	verbs := func(rules []rbacv1.PolicyRule) []string {
		i := slices.IndexFunc(rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.ResourceNames, "dynamo-operator-namespace-scope")
		})
		return rules[i].Verbs
	}
	if diff := gocmp.Diff([]string{"list", "patch", "watch"}, verbs(manager(t).Rules)); diff != "" {
		t.Errorf("everywhere (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff([]string{"delete", "get", "list", "update", "watch"}, verbs(restricted(t).Rules)); diff != "" {
		t.Errorf("in one namespace (-want +got):\n%s", diff)
	}
}
