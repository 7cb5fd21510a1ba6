// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rbac carries the role the operator is shipped with, so that tests and the local cluster run it with exactly
// those rights.
package rbac

import (
	_ "embed"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

//go:embed role.yaml
var role []byte

// ManagerRole returns the operator's ClusterRole.
func ManagerRole() (*rbacv1.ClusterRole, error) {
	r := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(role, r); err != nil {
		return nil, fmt.Errorf("decode the operator's role: %w", err)
	}
	return r, nil
}
