// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rbac carries the roles the operator is shipped with, so that tests and the local cluster run it with exactly
// those rights.
package rbac

import (
	_ "embed"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

//go:embed role.yaml
var managerRole []byte

//go:embed restricted/role.yaml
var restrictedRole []byte

//go:embed planner_role.yaml
var plannerRole []byte

//go:embed epp_role.yaml
var eppRole []byte

// ManagerRole returns the ClusterRole of an operator of all namespaces.
func ManagerRole() (*rbacv1.ClusterRole, error) { return decode(managerRole) }

// RestrictedRole returns the Role of an operator of one namespace.
func RestrictedRole() (*rbacv1.Role, error) {
	r := &rbacv1.Role{}
	if err := yaml.UnmarshalStrict(restrictedRole, r); err != nil {
		return nil, fmt.Errorf("decode a shipped role: %w", err)
	}
	return r, nil
}

// WorkloadRoles returns the ClusterRoles that the operator binds to accounts of workloads.
func WorkloadRoles() ([]*rbacv1.ClusterRole, error) {
	planner, err := decode(plannerRole)
	if err != nil {
		return nil, err
	}
	epp, err := decode(eppRole)
	return []*rbacv1.ClusterRole{planner, epp}, err
}

// clusterScoped are the resources of the operator's role that no Role can give rights to.
var clusterScoped = map[string]bool{
	"customresourcedefinitions": true, "validatingwebhookconfigurations": true, "mutatingwebhookconfigurations": true,
	"clusterroles": true, "queues": true, "tokenreviews": true, "subjectaccessreviews": true, "selfsubjectreviews": true,
}

// Namespaced are the rules that a Role can give.
func Namespaced(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var kept []rbacv1.PolicyRule
	for _, rule := range rules {
		rule.Resources = slices.DeleteFunc(slices.Clone(rule.Resources), func(r string) bool { return clusterScoped[r] })
		if len(rule.Resources) > 0 {
			kept = append(kept, rule)
		}
	}
	return kept
}

func decode(manifest []byte) (*rbacv1.ClusterRole, error) {
	r := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(manifest, r); err != nil {
		return nil, fmt.Errorf("decode a shipped role: %w", err)
	}
	return r, nil
}
