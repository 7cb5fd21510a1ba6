// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/dynamo-operator/dynamo-operator/config/rbac"
	"github.com/dynamo-operator/dynamo-operator/internal/render/access"
)

// manager is the ClusterRole of an operator of all namespaces.
func manager(t *testing.T) *rbacv1.ClusterRole {
	t.Helper()
	role, err := rbac.ManagerRole()
	if err != nil {
		t.Fatal(err)
	}
	return role
}

// restricted is the Role of an operator of one namespace.
func restricted(t *testing.T) *rbacv1.Role {
	t.Helper()
	role, err := rbac.RestrictedRole()
	if err != nil {
		t.Fatal(err)
	}
	return role
}

// rights are the rules of a role one by one, without those for certain names only.
func rights(rules []rbacv1.PolicyRule) map[string]bool {
	all := map[string]bool{}
	for _, rule := range rules {
		if len(rule.ResourceNames) > 0 {
			continue
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all[strings.TrimPrefix(fmt.Sprintf("%s %s/%s", verb, group, resource), " ")] = true
				}
			}
		}
	}
	return all
}

// beyond are the rights that a role hands out and the operator does not have. It can hand them out all the same, because it may
// bind these roles by their names, or because an administrator has bound them. Each needs a reason.
var beyond = map[string]map[string]string{
	"dynamo-operator-planner": {
		"create nvidia.com/dynamographdeployments":                    "a planner may make graphs; the operator makes none",
		"update nvidia.com/dynamographdeployments":                    "a planner writes graphs back whole; the operator patches them",
		"update nvidia.com/dynamocomponentdeployments":                "a planner writes components back whole; the operator patches them",
		"patch nvidia.com/dynamographdeploymentscalingadapters/scale": "a planner scales through adapters; the operator reads what it wrote there",
	},
	"dynamo-operator-epp": {
		"get /pods": "a picker reads single pods; the operator reads all of a namespace at once",
		"get inference.networking.x-k8s.io/inferencepools":           experimental,
		"list inference.networking.x-k8s.io/inferencepools":          experimental,
		"watch inference.networking.x-k8s.io/inferencepools":         experimental,
		"get inference.networking.x-k8s.io/inferenceobjectives":      experimental,
		"list inference.networking.x-k8s.io/inferenceobjectives":     experimental,
		"watch inference.networking.x-k8s.io/inferenceobjectives":    experimental,
		"get inference.networking.x-k8s.io/inferencemodelrewrites":   experimental,
		"list inference.networking.x-k8s.io/inferencemodelrewrites":  experimental,
		"watch inference.networking.x-k8s.io/inferencemodelrewrites": experimental,
	},
}

const experimental = "a picker reads the experimental kinds of its own API; the operator knows none of them"

func TestWhatWorkloadsMayDoIsPartOfWhatTheOperatorMayDo(t *testing.T) {
	t.Parallel()
	workloads, err := rbac.WorkloadRoles()
	if err != nil {
		t.Fatal(err)
	}
	handed := map[string][]rbacv1.PolicyRule{}
	for _, w := range workloads {
		handed[w.Name] = w.Rules
	}
	first, _ := access.Discovery("any", "graph")
	for _, object := range first {
		if role, ok := object.(*rbacv1.Role); ok {
			handed["discovery"] = role.Rules
		}
	}
	if len(handed) != 3 {
		t.Fatalf("roles are missing: %v", slices.Collect(maps.Keys(handed)))
	}
	for name, rules := range map[string][]rbacv1.PolicyRule{"everywhere": manager(t).Rules, "in one namespace": restricted(t).Rules} {
		has := rights(rules)
		for role, rules := range handed {
			for right := range rights(rules) {
				if has[right] == (beyond[role][right] != "") {
					t.Errorf("%s, %s: %s: the operator has it: %t, excepted: %q", name, role, right, has[right], beyond[role][right])
				}
			}
			for right := range beyond[role] {
				if !rights(rules)[right] {
					t.Errorf("%s has no %s any more: take the exception away", role, right)
				}
			}
		}
	}
}

func TestRolesThatAreBoundInNamespacesSayNothingAboutTheCluster(t *testing.T) {
	t.Parallel()
	workloads, err := rbac.WorkloadRoles()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range workloads {
		if diff := cmp.Diff(w.Rules, rbac.Namespaced(w.Rules)); diff != "" {
			t.Errorf("%s is bound by RoleBindings, which do not give (-):\n%s", w.Name, diff)
		}
	}
}

// TestAccountsOfARestrictedInstallationAreThoseThatTheOperatorMakesElsewhere compares the two ways in which workloads get their
// rights.
func TestAccountsOfARestrictedInstallationAreThoseThatTheOperatorMakesElsewhere(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("restricted/workloads.yaml")
	if err != nil {
		t.Fatal(err)
	}
	roles := map[string][]rbacv1.PolicyRule{}
	bound := map[string]string{}
	for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatal(err)
		}
		switch kind.Kind {
		case "Role":
			var r rbacv1.Role
			if err := yaml.UnmarshalStrict(document, &r); err != nil {
				t.Fatal(err)
			}
			roles[r.Name] = r.Rules
		case "RoleBinding":
			var b rbacv1.RoleBinding
			if err := yaml.UnmarshalStrict(document, &b); err != nil {
				t.Fatal(err)
			}
			bound[b.Subjects[0].Name] = b.RoleRef.Name
		}
	}
	workloads, err := rbac.WorkloadRoles()
	if err != nil {
		t.Fatal(err)
	}
	for i, account := range []string{"planner-serviceaccount", "epp-serviceaccount"} {
		if diff := cmp.Diff(workloads[i].Rules, roles[bound[account]]); diff != "" {
			t.Errorf("%s (-everywhere +in one namespace):\n%s", account, diff)
		}
	}
}
