// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	_ "embed"
	"slices"
)

const (
	// Module is the Go module with the API and the CRDs of Grove, in the version that go.mod requires.
	Module = "github.com/ai-dynamo/grove/operator/api@v0.1.0-alpha.6"
	// CRDs is the pattern of the files in it.
	CRDs = "core/v1alpha1/crds/*.yaml"
	// PolicyName is in the message of every refusal.
	PolicyName = "grove-simulator"
)

//go:embed admission.yaml
var admission []byte

// Admission returns a manifest of the policy that stands for Grove's validating webhook. Of its rules it has those that
// an operator can run into by changing a PodCliqueSet:
//
//   - minAvailable of cliques and groups, startsAfter and the startup type cannot be changed, nor can the names and the
//     order of cliques if the start is explicit;
//   - all cliques have the same scheduler;
//   - the names of set, group and clique have at most 45 characters together;
//   - on create, minAvailable is between one and the number of replicas.
func Admission() []byte { return slices.Clone(admission) }
