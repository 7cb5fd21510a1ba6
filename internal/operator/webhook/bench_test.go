// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
)

// BenchmarkReview is what the operator has to do for a new graph of two components: from the bytes of a review to those of its
// answer, without the connection.
func BenchmarkReview(b *testing.B) {
	graph := v1alpha1.KindDynamoGraphDeployment
	body, err := json.Marshal(reviewOf(graph, admissionv1.Create, nil, builders.TwoComponents("team", "x").Obj()))
	if err != nil {
		b.Fatal(err)
	}
	s, _ := newServer(b, nil)
	handler := s.Handler()
	for _, verb := range []string{validate, mutate} {
		b.Run(verb, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodPost, path(verb, graph), bytes.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatal(w.Body.String())
				}
			}
		})
	}
}
