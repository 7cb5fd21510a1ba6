// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// operation is one step of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// stamp writes on a new graph which operator saw it first.
func (s *Server) stamp(_ context.Context, r *admissionv1.AdmissionRequest) answer {
	if problem := unexpected(v1alpha1.KindDynamoGraphDeployment, r); problem != "" {
		return badRequest("%s", problem)
	}
	if r.Operation != admissionv1.Create || r.SubResource != "" || s.options.Version == "" || s.options.Excluded(r.Namespace) {
		return allow()
	}
	graph := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(r.Object.Raw, graph); err != nil {
		return badRequest("the object is no %s", v1alpha1.KindDynamoGraphDeployment)
	}
	if _, stamped := graph.Annotations[names.AnnotationOriginVersion]; stamped {
		return allow()
	}
	content, err := json.Marshal([]operation{stamping(graph.Annotations, s.options.Version)})
	if err != nil {
		return internal("the stamp could not be encoded")
	}
	a := allow()
	a.response.Patch, a.response.PatchType = content, new(admissionv1.PatchTypeJSONPatch)
	return a
}

// stamping adds the one annotation, and their map where there is none.
func stamping(there map[string]string, version string) operation {
	const at = "/metadata/annotations"
	if there == nil {
		return operation{"add", at, map[string]string{names.AnnotationOriginVersion: version}}
	}
	key := strings.NewReplacer("~", "~0", "/", "~1").Replace(names.AnnotationOriginVersion)
	return operation{"add", at + "/" + key, version}
}
