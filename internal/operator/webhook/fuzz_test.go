// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
)

func rawJSON(text string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(text)} }

// FuzzServe sends arbitrary bytes to every path, as a whole body and as the objects of a review that is well formed.
func FuzzServe(f *testing.F) {
	for _, seed := range []any{
		reviewOf(v1alpha1.KindDynamoGraphDeployment, admissionv1.Create, nil, badGraph()), badGraph(), builders.TwoComponents("team", "x").Obj(),
		requestFor("theirs"), &v1alpha1.DynamoModel{}, &v1alpha1.DynamoComponentDeployment{}, &v1alpha1.DynamoCheckpoint{}, nil, []int{},
	} {
		content, err := json.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content, content)
	}
	f.Add([]byte(`{"spec":{"services":{"a":null}}}`), []byte(`{"metadata":{"annotations":{"nvidia.com/reconcile":"x"}},"spec":{"services":{"a":{}}}}`))
	s, n := newServer(f, nil)
	f.Fuzz(func(t *testing.T, old, obj []byte) {
		for _, path := range Paths() {
			wellFormed(t, s, path, string(obj))
			for _, body := range reviews(path, old, obj) {
				wellFormed(t, s, path, body)
			}
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if slices.ContainsFunc(n.observed, func(line string) bool { return strings.HasSuffix(line, reasonInternal) }) {
			t.Errorf("a review panicked:\n%s", strings.Join(n.logged, "\n"))
		}
		n.observed, n.logged = nil, nil
	})
}

// reviews are well-formed but for their objects.
func reviews(path string, old, obj []byte) []string {
	var all []string
	for _, k := range kinds() {
		if !strings.HasSuffix(path, "-"+strings.ToLower(k.name)) {
			continue
		}
		for _, operation := range []admissionv1.Operation{admissionv1.Create, admissionv1.Update} {
			review := reviewOf(k.name, operation, nil, nil)
			if json.Valid(obj) {
				review.Request.Object.Raw = obj
			}
			if json.Valid(old) {
				review.Request.OldObject.Raw = old
			}
			if body, err := json.Marshal(review); err == nil {
				all = append(all, string(body))
			}
		}
	}
	return all
}

// wellFormed sends a body and looks at the answer as an API server does.
func wellFormed(t *testing.T, s *Server, path, body string) {
	t.Helper()
	w := post(s, path, body)
	if w.Code != http.StatusOK {
		if w.Code < 400 || w.Body.Len() == 0 {
			t.Errorf("%s answered %d without a word", path, w.Code)
		}
		return
	}
	answer := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(w.Body.Bytes(), answer); err != nil || answer.Response == nil || answer.Response.UID == "" {
		t.Fatalf("%s answered something else than a review: %s", path, w.Body)
	}
	if r := answer.Response; !r.Allowed && (r.Result == nil || r.Result.Code < 400 || r.Result.Message == "") {
		t.Errorf("%s denied without a reason: %s", path, w.Body)
	}
}
