// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// kind is a kind that is judged.
type kind struct {
	name string
	// empty makes an object to decode into.
	empty func() runtime.Object
}

// kinds are all that are judged.
func kinds() []kind {
	return []kind{
		{v1alpha1.KindDynamoComponentDeployment, func() runtime.Object { return &v1alpha1.DynamoComponentDeployment{} }},
		{v1alpha1.KindDynamoGraphDeployment, func() runtime.Object { return &v1alpha1.DynamoGraphDeployment{} }},
		{v1alpha1.KindDynamoModel, func() runtime.Object { return &v1alpha1.DynamoModel{} }},
		{v1alpha1.KindDynamoGraphDeploymentRequest, func() runtime.Object { return &v1alpha1.DynamoGraphDeploymentRequest{} }},
		{v1alpha1.KindDynamoGraphDeploymentScalingAdapter, func() runtime.Object { return &v1alpha1.DynamoGraphDeploymentScalingAdapter{} }},
		{v1alpha1.KindDynamoCheckpoint, func() runtime.Object { return &v1alpha1.DynamoCheckpoint{} }},
	}
}

// path is where a kind is validated or mutated.
func path(verb, kind string) string {
	group := strings.ReplaceAll(v1alpha1.GroupVersion.Group, ".", "-")
	return "/" + verb + "-" + group + "-" + v1alpha1.GroupVersion.Version + "-" + strings.ToLower(kind)
}

// Paths are all paths that are served to the API server.
func Paths() []string {
	all := []string{path(mutate, v1alpha1.KindDynamoGraphDeployment)}
	for _, k := range kinds() {
		all = append(all, path(validate, k.name))
	}
	return all
}

// What is done at a path.
const (
	validate = "validate"
	mutate   = "mutate"
)
