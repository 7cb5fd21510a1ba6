// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "sigs.k8s.io/json"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// What Observe is told, besides the names of rules.
const (
	allowed = "allowed"
	denied  = "denied"

	reasonForbidden   = "forbidden"
	reasonBadRequest  = "bad_request"
	reasonInternal    = "internal"
	reasonTimeout     = "timeout"
	reasonUnavailable = "unavailable"

	// unknownOperation stands for what cannot be read, and for whatever else somebody sends: labels of metrics are few.
	unknownOperation = "UNKNOWN"
)

// Reasons are why something is denied besides the rules, with an explanation of each.
func Reasons() map[string]string {
	return map[string]string{
		reasonForbidden:   "the author may not do what the object asks the operator to do",
		reasonBadRequest:  "the request is no admission review of the kind",
		reasonInternal:    "the operator failed",
		reasonTimeout:     "the API server did not answer a question in time",
		reasonUnavailable: "too many objects at once",
	}
}

// answer is what became of a review.
type answer struct {
	response admissionv1.AdmissionResponse
	// reasons are why it was denied, in a word each.
	reasons []string
}

// review works on one request.
type review func(ctx context.Context, request *admissionv1.AdmissionRequest) answer

// Handler serves all paths.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, k := range kinds() {
		mux.Handle(path(validate, k.name), s.handle(k.name, validate, func(ctx context.Context, r *admissionv1.AdmissionRequest) answer {
			return s.judge(ctx, k, r)
		}))
	}
	graph := v1alpha1.KindDynamoGraphDeployment
	mux.Handle(path(mutate, graph), s.handle(graph, mutate, s.stamp))
	mux.HandleFunc(pingPath, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// In HTTP/2 this asks the client to begin nothing new on the connection, and finishes the rest.
		if s.age.Load() == draining || r.ProtoMajor < 2 && s.connections.hasSurplus(r) {
			w.Header().Set("Connection", "close")
		}
		mux.ServeHTTP(w, r)
	})
}

// httpError is an answer that is no review.
type httpError struct {
	code   int
	reason string
	err    error
}

func (e *httpError) Error() string { return e.err.Error() }

// handle is everything around a review: bounds, encoding, counting.
func (s *Server) handle(kind, verb string, review review) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := s.options.Clock.Now()
		ctx, cancel := context.WithTimeout(r.Context(), s.options.Timeout)
		defer cancel()
		operation := unknownOperation
		var a answer
		request, leave, problem := s.receive(ctx, w, r)
		defer leave()
		if problem == nil {
			operation = known(request.Operation)
			a = s.safely(ctx, kind, request, review)
		}
		if status := a.response.Result; verb == mutate && status != nil {
			// A review that denies is a denial, whatever the configuration says about failures.
			problem = &httpError{int(status.Code), strings.Join(a.reasons, " "), errors.New(status.Message)}
		}
		if problem != nil {
			a.reasons = []string{problem.reason}
			http.Error(w, problem.Error(), problem.code)
		} else {
			s.send(w, request, a)
		}
		s.count(kind, verb, operation, a, began)
	})
}

// count tells the observer. A stamp that worked is no judgement.
func (s *Server) count(kind, verb, operation string, a answer, began time.Time) {
	result := allowed
	if !a.response.Allowed {
		result = denied
	}
	if verb == validate || result == denied {
		s.options.Observe(Judgement{Kind: kind, Operation: operation, Result: result, Reasons: a.reasons, Took: s.options.Clock.Since(began)})
	}
}

func known(o admissionv1.Operation) string {
	switch o {
	case admissionv1.Create, admissionv1.Update, admissionv1.Delete, admissionv1.Connect:
		return string(o)
	}
	return unknownOperation
}

// receive reads a review. Whoever sends has little time for it, and few may send much at once: a caller that holds back its
// body, or has a large one, is in nobody's way. Only so many reviews are then worked on at once. Whoever calls has to leave
// when the work is done.
func (s *Server) receive(ctx context.Context, w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionRequest, func(), *httpError) {
	nothing := func() {}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, nothing, &httpError{http.StatusMethodNotAllowed, reasonBadRequest, errors.New("admission reviews are posted")}
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, nothing, &httpError{http.StatusUnsupportedMediaType, reasonBadRequest, errors.New("an admission review is application/json")}
	}
	if r.ContentLength < 0 || r.ContentLength > largeBody {
		leave, problem := s.enter(ctx, w, s.large)
		if problem != nil {
			return nil, nothing, problem
		}
		defer leave()
	}
	connection := http.NewResponseController(w)                 // a recorder of a test has no deadlines, and needs none
	_ = connection.SetReadDeadline(time.Now().Add(bodyTimeout)) //nolint:forbidigo // the kernel does not know the injected clock
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestBody))
	// The server goes on reading to learn that the client left, and would take the deadline for that.
	_ = connection.SetReadDeadline(time.Time{})
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		problem := fmt.Errorf("an admission review has at most %d bytes", tooLarge.Limit)
		return nil, nothing, &httpError{http.StatusRequestEntityTooLarge, reasonBadRequest, problem}
	}
	if err != nil {
		return nil, nothing, &httpError{http.StatusBadRequest, reasonBadRequest, errors.New("the admission review broke off")}
	}
	leave, problem := s.enter(ctx, w, s.slots)
	if problem != nil {
		return nil, nothing, problem
	}
	request, problem := decode(body)
	return request, leave, problem
}

// enter waits for a place among those who do something at once.
func (s *Server) enter(ctx context.Context, w http.ResponseWriter, places chan struct{}) (func(), *httpError) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		w.Header().Set("Retry-After", "1")
		return nil, &httpError{http.StatusServiceUnavailable, reasonUnavailable, errors.New("too many admission reviews at once")}
	}
}

func decode(body []byte) (*admissionv1.AdmissionRequest, *httpError) {
	review := &admissionv1.AdmissionReview{}
	if err := utiljson.UnmarshalCaseSensitivePreserveInts(body, review); err != nil {
		return nil, &httpError{http.StatusBadRequest, reasonBadRequest, errors.New("the body is no admission review")} // the cause may quote it
	}
	if review.APIVersion != admissionv1.SchemeGroupVersion.String() || review.Kind != "AdmissionReview" {
		return nil, &httpError{http.StatusBadRequest, reasonBadRequest, errors.New("the body is no AdmissionReview of admission.k8s.io/v1")}
	}
	if review.Request == nil || review.Request.UID == "" {
		return nil, &httpError{http.StatusBadRequest, reasonBadRequest, errors.New("the admission review has no request with a uid")}
	}
	return review.Request, nil
}

// safely runs a review and answers for it where it panics.
func (s *Server) safely(ctx context.Context, kind string, r *admissionv1.AdmissionRequest, review review) (a answer) {
	defer func() {
		if cause := recover(); cause != nil {
			// The cause may quote the object; where it happened does not.
			s.options.Log.Error(errors.New("panic"), "A webhook panicked", "kind", kind, "namespace", r.Namespace, "name", r.Name,
				"type", fmt.Sprintf("%T", cause), "stack", string(debug.Stack()))
			a = internal("the operator failed to judge this object; its log tells where")
		}
	}()
	return review(ctx, r)
}

// send writes the answer to a review.
func (s *Server) send(w http.ResponseWriter, r *admissionv1.AdmissionRequest, a answer) {
	a.response.UID = r.UID
	content, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Response: &a.response,
	})
	if err != nil {
		http.Error(w, "the answer could not be encoded", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(content); err != nil {
		s.options.Log.V(1).Info("An answer was not taken", "reason", err.Error())
	}
}

// refuse is an answer that denies.
func refuse(code int32, reason metav1.StatusReason, message string, words ...string) answer {
	return answer{reasons: words, response: admissionv1.AdmissionResponse{
		Result: &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message},
	}}
}

func badRequest(format string, args ...any) answer {
	return refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, fmt.Sprintf(format, args...), reasonBadRequest)
}

func internal(message string) answer {
	return refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError, message, reasonInternal)
}

func allow(warnings ...string) answer {
	return answer{response: admissionv1.AdmissionResponse{Allowed: true, Warnings: warnings}}
}
