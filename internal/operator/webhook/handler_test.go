// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
)

// notebook writes down what a server tells its observer and its log.
type notebook struct {
	mu       sync.Mutex
	observed []string
	logged   []string
}

func (n *notebook) observe(j Judgement) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.observed = append(n.observed, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", j.Kind, j.Operation, j.Result, strings.Join(j.Reasons, " "))))
	if j.Took < 0 {
		n.observed = append(n.observed, "negative time")
	}
}

func (n *notebook) log(prefix, args string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.logged = append(n.logged, prefix+" "+args)
}

// newServer returns a server that writes into a notebook.
func newServer(t testing.TB, change func(*Options)) (*Server, *notebook) {
	t.Helper()
	n := &notebook{}
	o := Options{
		Address: "127.0.0.1:0", Certificates: newCertificates(t), Version: "1.2.3", Observe: n.observe,
		Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)), Log: funcr.New(n.log, funcr.Options{Verbosity: 1}),
	}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s, n
}

// reviewOf is a request of the API server.
func reviewOf(kind string, operation admissionv1.Operation, old, obj any) *admissionv1.AdmissionReview {
	raw := func(v any) runtime.RawExtension {
		content, err := json.Marshal(v)
		if err != nil {
			panic(err) // a mistake in the test
		}
		return runtime.RawExtension{Raw: content}
	}
	return &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "u1", Operation: operation, Namespace: "team", Name: "x", Object: raw(obj), OldObject: raw(old),
			Kind:     metav1.GroupVersionKind{Group: "nvidia.com", Version: "v1alpha1", Kind: kind},
			UserInfo: authenticationv1.UserInfo{Username: "jane", Groups: []string{"g"}},
		},
	}
}

// post sends bytes to a path.
func post(s *Server, path, body string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json; charset=utf-8")
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, request)
	return w
}

// ask sends a review and reads the answer.
func ask(t testing.TB, s *Server, path string, review *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
	t.Helper()
	body, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	w := post(s, path, string(body))
	if w.Code != http.StatusOK {
		t.Fatalf("answered %d: %s", w.Code, w.Body)
	}
	answer := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(w.Body.Bytes(), answer); err != nil {
		t.Fatal(err)
	}
	if answer.Response == nil || answer.Response.UID != review.Request.UID || answer.APIVersion != "admission.k8s.io/v1" || answer.Kind != "AdmissionReview" {
		t.Fatalf("no answer to the question: %s", w.Body)
	}
	return answer.Response
}

const graphPath = "/validate-nvidia-com-v1alpha1-dynamographdeployment"

// badGraph breaks two rules and gives a reason to warn.
func badGraph() *v1alpha1.DynamoGraphDeployment {
	g := builders.TwoComponents("team", "x").Obj()
	g.Spec.Services["Decode"].Replicas = new(int32(-1))
	g.Spec.Services["Decode"].DynamoNamespace = new("other")
	g.Spec.Services["Frontend"].Ingress = &v1alpha1.IngressSpec{Enabled: true}
	return g
}

func TestARefusalNamesEveryProblem(t *testing.T) {
	t.Parallel()
	s, n := newServer(t, nil)
	got := ask(t, s, graphPath, reviewOf(v1alpha1.KindDynamoGraphDeployment, admissionv1.Create, nil, badGraph()))
	lines := strings.Split(got.Result.Message, "\n")
	if got.Allowed || got.Result.Code != http.StatusForbidden || got.Result.Reason != metav1.StatusReasonForbidden || len(lines) != 2 {
		t.Fatalf("allowed %t: %+v", got.Allowed, got.Result)
	}
	want := []string{"spec.services[Decode].replicas", "spec.services[Frontend].ingress.host"}
	for i, at := range want {
		cause := got.Result.Details.Causes[i]
		if !strings.HasPrefix(lines[i], at+": ") || cause.Field != at || at+": "+cause.Message != lines[i] || cause.Type == "" {
			t.Errorf("problem %d: %q, %+v", i, lines[i], cause)
		}
	}
	if got.Result.Details.Kind != v1alpha1.KindDynamoGraphDeployment || got.Result.Details.Name != "x" || got.Result.Details.Group != "nvidia.com" {
		t.Errorf("details %+v", got.Result.Details)
	}
	if len(got.Warnings) == 0 {
		t.Error("no warning arrived")
	}
	if diff := cmp.Diff([]string{"DynamoGraphDeployment CREATE denied ingress-host replicas-not-negative"}, n.observed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatIsAllowedWithoutALook(t *testing.T) {
	t.Parallel()
	const kind = v1alpha1.KindDynamoGraphDeployment
	good := builders.TwoComponents("team", "x").Obj()
	deleting := badGraph()
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	status := reviewOf(kind, admissionv1.Update, good, badGraph())
	status.Request.SubResource = "status"
	elsewhere := reviewOf(kind, admissionv1.Create, nil, badGraph())
	elsewhere.Request.Namespace = "excluded"
	for name, review := range map[string]*admissionv1.AdmissionReview{
		"what follows the rules":   reviewOf(kind, admissionv1.Create, nil, good),
		"what is being deleted":    reviewOf(kind, admissionv1.Update, good, deleting),
		"a deletion":               reviewOf(kind, admissionv1.Delete, badGraph(), nil),
		"a connection":             reviewOf(kind, admissionv1.Connect, nil, nil),
		"a status":                 status,
		"what others look after":   elsewhere,
		"an update without a care": reviewOf(kind, admissionv1.Update, good, good),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, n := newServer(t, func(o *Options) { o.Excluded = func(namespace string) bool { return namespace == "excluded" } })
			if got := ask(t, s, graphPath, review); !got.Allowed || got.Result != nil {
				t.Errorf("refused: %+v", got.Result)
			}
			if diff := cmp.Diff([]string{kind + " " + string(review.Request.Operation) + " allowed"}, n.observed); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnUpdateIsJudgedWithWhatWas(t *testing.T) {
	t.Parallel()
	s, _ := newServer(t, nil)
	old, obj := builders.TwoComponents("team", "x").Obj(), builders.TwoComponents("team", "x").Obj()
	old.Spec.BackendFramework, obj.Spec.BackendFramework = v1alpha1.BackendFrameworkVLLM, v1alpha1.BackendFrameworkSGLang
	got := ask(t, s, graphPath, reviewOf(v1alpha1.KindDynamoGraphDeployment, admissionv1.Update, old, obj))
	if got.Allowed || !strings.Contains(got.Result.Message, "spec.backendFramework") {
		t.Errorf("allowed %t: %+v", got.Allowed, got.Result)
	}
}

func TestReviewsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	const kind = v1alpha1.KindDynamoGraphDeployment
	other := reviewOf(kind, admissionv1.Create, nil, badGraph())
	other.Request.Kind.Version = "v9"
	for name, c := range map[string]struct {
		review *admissionv1.AdmissionReview
		want   string
	}{
		"another kind":      {reviewOf(v1alpha1.KindDynamoModel, admissionv1.Create, nil, badGraph()), kind + " CREATE denied bad_request"},
		"another version":   {other, kind + " CREATE denied bad_request"},
		"another operation": {reviewOf(kind, "MERGE", nil, badGraph()), kind + " UNKNOWN denied bad_request"},
		"no object":         {reviewOf(kind, admissionv1.Create, nil, nil), kind + " CREATE denied bad_request"},
		"no such object":    {reviewOf(kind, admissionv1.Create, nil, []int{1}), kind + " CREATE denied bad_request"},
		"no old object":     {reviewOf(kind, admissionv1.Update, nil, badGraph()), kind + " UPDATE denied bad_request"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, n := newServer(t, nil)
			if got := ask(t, s, graphPath, c.review); got.Allowed || got.Result.Code != http.StatusBadRequest {
				t.Errorf("allowed %t: %+v", got.Allowed, got.Result)
			}
			if diff := cmp.Diff([]string{c.want}, n.observed); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequestsThatAreNoReviews(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*http.Request)
		body   string
		want   int
	}{
		"a get":            {func(r *http.Request) { r.Method = http.MethodGet }, "", http.StatusMethodNotAllowed},
		"a form":           {func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, "{}", http.StatusUnsupportedMediaType},
		"no type":          {func(r *http.Request) { r.Header.Del("Content-Type") }, "{}", http.StatusUnsupportedMediaType},
		"nothing":          {func(*http.Request) {}, "", http.StatusBadRequest},
		"no review":        {func(*http.Request) {}, `{"apiVersion":"v1","kind":"Pod"}`, http.StatusBadRequest},
		"an old version":   {func(*http.Request) {}, `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"1"}}`, http.StatusBadRequest},
		"no request":       {func(*http.Request) {}, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, http.StatusBadRequest},
		"nobody asks":      {func(*http.Request) {}, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}`, http.StatusBadRequest},
		"far too much":     {func(*http.Request) {}, strings.Repeat(" ", largestBody+1), http.StatusRequestEntityTooLarge},
		"an unknown place": {func(r *http.Request) { r.URL.Path = "/validate" }, "{}", http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, n := newServer(t, nil)
			request := httptest.NewRequest(http.MethodPost, graphPath, strings.NewReader(c.body))
			request.Header.Set("Content-Type", "application/json")
			c.change(request)
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, request)
			if w.Code != c.want {
				t.Errorf("answered %d: %s", w.Code, w.Body)
			}
			if c.want != http.StatusNotFound && (len(n.observed) != 1 || n.observed[0] != "DynamoGraphDeployment UNKNOWN denied bad_request") {
				t.Errorf("observed %v", n.observed)
			}
		})
	}
}

func TestAPanicIsAnAnswerAndSaysNothingOfTheObject(t *testing.T) {
	t.Parallel()
	const secret = "sk-do-not-log-me"
	graph := builders.TwoComponents("team", "x").Env("TOKEN", secret).Obj()
	s, n := newServer(t, func(o *Options) { o.Excluded = func(string) bool { panic("an object with " + secret) } })
	review := reviewOf(v1alpha1.KindDynamoGraphDeployment, admissionv1.Create, nil, graph)
	if got := ask(t, s, graphPath, review); got.Allowed || got.Result.Code != http.StatusInternalServerError {
		t.Errorf("allowed %t: %+v", got.Allowed, got.Result)
	}
	// A failure to stamp has to look like one, so that the API server can ignore it.
	body, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	if w := post(s, "/mutate-nvidia-com-v1alpha1-dynamographdeployment", string(body)); w.Code != http.StatusInternalServerError {
		t.Errorf("answered %d: %s", w.Code, w.Body)
	}
	const denial = "DynamoGraphDeployment CREATE denied internal"
	if diff := cmp.Diff([]string{denial, denial}, n.observed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	all := strings.Join(n.logged, "\n")
	if !strings.Contains(all, "handler_test.go") || strings.Contains(all, secret) {
		t.Errorf("the log does not tell where, or tells what: %s", all)
	}
}

// requestFor is a request whose graph is made in a namespace.
func requestFor(namespace string) *v1alpha1.DynamoGraphDeploymentRequest {
	r := &v1alpha1.DynamoGraphDeploymentRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "x"}}
	r.Spec.Model, r.Spec.Backend = "acme/tiny-1b", "vllm"
	r.Spec.ProfilingConfig.ProfilerImage = builders.Image
	r.Spec.ProfilingConfig.Config = rawJSON(`{"sla":{}}`)
	if namespace != "" {
		r.Spec.DeploymentOverrides = &v1alpha1.DeploymentOverridesSpec{Namespace: namespace}
	}
	return r
}

func TestNobodyUsesTheOperatorsRightsElsewhere(t *testing.T) {
	t.Parallel()
	const kind = v1alpha1.KindDynamoGraphDeploymentRequest
	changed := requestFor("theirs")
	changed.Spec.Model = "acme/other"
	for name, c := range map[string]struct {
		operation admissionv1.Operation
		old, obj  *v1alpha1.DynamoGraphDeploymentRequest
		may       bool
		err       error
		asked     string
		want      string
	}{
		"beside itself":          {admissionv1.Create, nil, requestFor(""), false, nil, "", "allowed"},
		"in its own namespace":   {admissionv1.Create, nil, requestFor("team"), false, nil, "", "allowed"},
		"where they may":         {admissionv1.Create, nil, requestFor("theirs"), true, nil, "jane [g] theirs", "allowed"},
		"where they may not":     {admissionv1.Create, nil, requestFor("theirs"), false, nil, "jane [g] theirs", "denied forbidden"},
		"moved by a change":      {admissionv1.Update, requestFor(""), requestFor("theirs"), false, nil, "jane [g] theirs", "denied forbidden"},
		"changed where it is":    {admissionv1.Update, requestFor("theirs"), changed, false, nil, "jane [g] theirs", "denied forbidden"},
		"as it was":              {admissionv1.Update, requestFor("theirs"), requestFor("theirs"), false, nil, "", "allowed"},
		"when nobody can tell":   {admissionv1.Create, nil, requestFor("theirs"), true, errors.New("refused"), "jane [g] theirs", "denied internal"},
		"when nobody has a time": {admissionv1.Create, nil, requestFor("theirs"), true, context.DeadlineExceeded, "jane [g] theirs", "denied timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := ""
			s, n := newServer(t, func(o *Options) {
				o.MayCreate = func(ctx context.Context, user authenticationv1.UserInfo, namespace string) (bool, error) {
					asked = fmt.Sprintf("%s %v %s", user.Username, user.Groups, namespace)
					if _, bounded := ctx.Deadline(); !bounded {
						t.Error("the question has no deadline")
					}
					return c.may, c.err
				}
			})
			got := ask(t, s, path(validate, kind), reviewOf(kind, c.operation, c.old, c.obj))
			if asked != c.asked || n.observed[0] != kind+" "+string(c.operation)+" "+c.want {
				t.Errorf("asked %q, observed %q", asked, n.observed)
			}
			if strings.HasSuffix(c.want, "forbidden") && !strings.HasPrefix(got.Result.Message, "spec.deploymentOverrides.namespace: Forbidden") {
				t.Errorf("got %+v", got.Result)
			}
		})
	}
}

func TestAnOperatorOfOneNamespaceAsksNobodyAboutOthers(t *testing.T) {
	t.Parallel()
	const kind = v1alpha1.KindDynamoGraphDeploymentRequest
	s, n := newServer(t, func(o *Options) {
		o.Restricted = true
		o.MayCreate = func(context.Context, authenticationv1.UserInfo, string) (bool, error) {
			return false, errors.New("it may not ask")
		}
	})
	ask(t, s, path(validate, kind), reviewOf(kind, admissionv1.Create, nil, requestFor("theirs")))
	if want := kind + " CREATE denied request-stays-in-namespace"; n.observed[0] != want {
		t.Errorf("observed %q, want %q", n.observed, want)
	}
}

func TestWithoutAnyoneToAskNobodyMay(t *testing.T) {
	t.Parallel()
	const kind = v1alpha1.KindDynamoGraphDeploymentRequest
	s, _ := newServer(t, nil)
	if got := ask(t, s, path(validate, kind), reviewOf(kind, admissionv1.Create, nil, requestFor("theirs"))); got.Allowed {
		t.Error("it was allowed")
	}
}

func TestNewGraphsAreStamped(t *testing.T) {
	t.Parallel()
	const kind = v1alpha1.KindDynamoGraphDeployment
	plain := builders.TwoComponents("team", "x")
	elsewhere := reviewOf(kind, admissionv1.Create, nil, plain.Obj())
	elsewhere.Request.Namespace = "excluded"
	for name, c := range map[string]struct {
		review  *admissionv1.AdmissionReview
		version string
		want    string
	}{
		"without annotations": {
			reviewOf(kind, admissionv1.Create, nil, plain.Obj()), "1.2.3",
			`[{"op":"add","path":"/metadata/annotations","value":{"nvidia.com/dynamo-operator-origin-version":"1.2.3"}}]`,
		},
		"with others": {
			reviewOf(kind, admissionv1.Create, nil, plain.Clone().Annotation("a", "b").Obj()), "1.2.3",
			`[{"op":"add","path":"/metadata/annotations/nvidia.com~1dynamo-operator-origin-version","value":"1.2.3"}]`,
		},
		"not twice":                 {reviewOf(kind, admissionv1.Create, nil, plain.Clone().Annotation(names.AnnotationOriginVersion, "1").Obj()), "1.2.3", ""},
		"not later":                 {reviewOf(kind, admissionv1.Update, plain.Obj(), plain.Obj()), "1.2.3", ""},
		"not by one without a name": {reviewOf(kind, admissionv1.Create, nil, plain.Obj()), "", ""},
		"not where others are":      {elsewhere, "1.2.3", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, n := newServer(t, func(o *Options) {
				o.Version, o.Excluded = c.version, func(namespace string) bool { return namespace == "excluded" }
			})
			got := ask(t, s, path(mutate, kind), c.review)
			if diff := cmp.Diff(c.want, string(got.Patch)); diff != "" || !got.Allowed || (got.PatchType == nil) != (c.want == "") {
				t.Errorf("allowed %t, type %v (-want +got):\n%s", got.Allowed, got.PatchType, diff)
			}
			if len(n.observed) > 0 {
				t.Errorf("a stamp was counted as a judgement: %v", n.observed)
			}
		})
	}
}
