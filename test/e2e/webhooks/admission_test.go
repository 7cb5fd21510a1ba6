// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/certs"
	server "github.com/dynamo-operator/dynamo-operator/internal/operator/webhook"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// observed is what a server told its observer.
type observed struct {
	mu    sync.Mutex
	lines []string
}

func (o *observed) observe(_ *certs.Options, s *server.Options) {
	s.Observe = func(j server.Judgement) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.lines = append(o.lines, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", j.Kind, j.Operation, j.Result, strings.Join(j.Reasons, " "))))
	}
}

func (o *observed) all() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.lines)
}

func TestUsersHearWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.install()
	var o observed
	s.run(o.observe)
	err := harness.Client(t).Create(t.Context(), bad(s.namespace, "graph"))
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || !apierrors.IsForbidden(err) || !mention(err, graphWebhook+": spec.services[") {
		t.Fatalf("got %v", err)
	}
	details := status.ErrStatus.Details
	if details == nil || len(details.Causes) == 0 || details.Causes[0].Field != "spec.services[decode]" || details.Kind != v1alpha1.KindDynamoGraphDeployment {
		t.Errorf("details for programs: %+v", details)
	}
	if want := []string{"DynamoGraphDeployment CREATE denied service-names-distinct"}; !slices.Equal(o.all(), want) {
		t.Errorf("observed %v", o.all())
	}
}

func TestEveryKindIsJudged(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.install()
	var o observed
	s.run(o.observe)
	checkpoint := &v1alpha1.DynamoCheckpoint{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "checkpoint"}}
	checkpoint.Spec.Identity.Model, checkpoint.Spec.Identity.BackendFramework = "acme/tiny-1b", "vllm"
	checkpoint.Spec.Job.PodTemplateSpec.Spec.Containers = []corev1.Container{{Name: names.MainContainer, Image: builders.Image}}
	for kind, object := range map[string]client.Object{
		v1alpha1.KindDynamoGraphDeployment: good(s.namespace, "graph"), v1alpha1.KindDynamoComponentDeployment: component(s.namespace),
		v1alpha1.KindDynamoModel: model(s.namespace), v1alpha1.KindDynamoGraphDeploymentScalingAdapter: adapter(s.namespace),
		v1alpha1.KindDynamoGraphDeploymentRequest: request(s.namespace, ""), v1alpha1.KindDynamoCheckpoint: checkpoint,
	} {
		if err := harness.Client(t).Create(t.Context(), object); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if !slices.Contains(o.all(), kind+" CREATE allowed") {
			t.Errorf("%s was not judged: %v", kind, o.all())
		}
		if err := patch(t, object, `{"metadata":{"labels":{"a":"b"}}}`); err != nil {
			t.Errorf("label of %s: %v", kind, err)
		}
		if slices.Contains(o.all(), kind+" UPDATE allowed") {
			t.Errorf("a label of %s was judged", kind)
		}
	}
}

func TestWarningsReachTheUser(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.install()
	s.run(nil)
	var heard warnings
	config := rest.CopyConfig(harness.RESTConfig(t, localcluster.UserAdmin))
	config.WarningHandler = &heard
	api, err := client.New(config, client.Options{Scheme: harness.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	g := good(s.namespace, "graph")
	g.Spec.Services["Decode"].DynamoNamespace = new("other")
	if err := api.Create(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(heard.all(), func(line string) bool { return strings.Contains(line, "spec.services[Decode].dynamoNamespace") }) {
		t.Errorf("heard %v", heard.all())
	}
}

// warnings is a client's ear.
type warnings struct {
	mu    sync.Mutex
	lines []string
}

// HandleWarningHeader is called for every warning of an answer.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, text)
}

func (w *warnings) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.lines)
}

func TestGraphsAreStampedOnceWhenTheyAreMade(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.install()
	s.run(nil)
	api := harness.Client(t)
	fresh, known := good(s.namespace, "fresh"), builders.TwoComponents(s.namespace, "known").Annotation(names.AnnotationOriginVersion, "0.9").Obj()
	for _, g := range []*v1alpha1.DynamoGraphDeployment{fresh, known} {
		if err := api.Create(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	if fresh.Annotations[names.AnnotationOriginVersion] != "1.2.3" || known.Annotations[names.AnnotationOriginVersion] != "0.9" {
		t.Errorf("stamped %v and %v", fresh.Annotations, known.Annotations)
	}
	if err := patch(t, fresh, `{"metadata":{"annotations":null}}`); err != nil {
		t.Fatal(err)
	}
	if fresh.Annotations[names.AnnotationOriginVersion] != "" {
		t.Error("an update was stamped")
	}
}

func TestALargeGraphIsJudged(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.install()
	s.run(nil)
	g := manyEnvs(good(s.namespace, "large"))
	if err := harness.Client(t).Create(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if err := patch(t, g, `{"spec":{"services":{"Decode":{"replicas":2}}}}`); err != nil {
		t.Errorf("a change: %v", err)
	}
	g.ResourceVersion, g.UID, g.Name = "", "", "other"
	g.Spec.Services["decode"] = g.Spec.Services["Decode"]
	if err := harness.Client(t).Create(t.Context(), g); !mention(err, graphWebhook) {
		t.Errorf("a bad one: %v", err)
	}
}

// request is a request for a deployment, in a namespace of its own choice.
func request(namespace, target string) *v1alpha1.DynamoGraphDeploymentRequest {
	r := &v1alpha1.DynamoGraphDeploymentRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "request"}}
	r.Spec.Model, r.Spec.Backend = "acme/tiny-1b", "vllm"
	r.Spec.ProfilingConfig.ProfilerImage = builders.Image
	r.Spec.ProfilingConfig.Config = &apiextensionsv1.JSON{Raw: []byte(`{"sla":{"ttft":200}}`)}
	if target != "" {
		r.Spec.DeploymentOverrides = &v1alpha1.DeploymentOverridesSpec{Namespace: target}
	}
	return r
}

func TestARequestReachesOnlyWhereItsAuthorMay(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.install()
	var o observed
	s.run(o.observe)
	theirs := harness.Namespace(t)
	jane := "jane-" + s.namespace
	s.allow(jane, s.namespace, "dynamographdeploymentrequests")
	api, err := client.New(harness.RESTConfig(t, jane), client.Options{Scheme: harness.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, patience, "jane's right to request", func() (bool, string) {
		err := api.Create(t.Context(), request(s.namespace, ""), client.DryRunAll)
		return err == nil, fmt.Sprint(err)
	})
	err = api.Create(t.Context(), request(s.namespace, theirs))
	if !apierrors.IsForbidden(err) || !mention(err, "spec.deploymentOverrides.namespace", theirs) {
		t.Fatalf("a request for a namespace that is not jane's: %v", err)
	}
	if !slices.Contains(o.all(), "DynamoGraphDeploymentRequest CREATE denied forbidden") {
		t.Errorf("observed %v", o.all())
	}
	s.allow(jane, theirs, "dynamographdeployments")
	harness.Eventually(t, patience, "jane's reach", func() (bool, string) {
		err := api.Create(t.Context(), request(s.namespace, theirs))
		return err == nil, fmt.Sprint(err)
	})
}

// allow lets a user create something in a namespace.
func (s *site) allow(user, namespace, resource string) {
	s.t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: user}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"nvidia.com"}, Resources: []string{resource}, Verbs: []string{"create"}}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
	}
	for _, object := range []client.Object{role, binding} {
		if err := harness.Client(s.t).Create(s.t.Context(), object); err != nil {
			s.t.Fatal(err)
		}
	}
}
