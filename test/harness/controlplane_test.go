// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/config/crd"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
)

func TestMain(m *testing.M) {
	Main(m, WithAudit())
}

func TestNamespacesOfTwoTestsDiffer(t *testing.T) {
	t.Parallel()
	first, second := Namespace(t), Namespace(t)
	if first == second {
		t.Fatalf("two namespaces are both called %q", first)
	}
	var namespace corev1.Namespace
	if err := Client(t).Get(t.Context(), client.ObjectKey{Name: first}, &namespace); err != nil {
		t.Fatalf("get namespace: %v", err)
	}
}

func TestNamespaceNameIsADNSLabel(t *testing.T) {
	t.Parallel()
	for _, test := range []string{
		"TestShort", "TestWith/sub_test#01", "Test" + strings.Repeat("VeryLong", 20), "Test/-/", "TestÜmläut",
	} {
		name := namespaceName(test, "abc123")
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			t.Errorf("namespace %q of test %q: %v", name, test, problems)
		}
	}
}

func TestOurCRDsAreServed(t *testing.T) {
	t.Parallel()
	crds, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, wanted := range crds {
		var served apiextensionsv1.CustomResourceDefinition
		if err := Client(t).Get(t.Context(), client.ObjectKey{Name: wanted.Name}, &served); err != nil {
			t.Errorf("get CRD %s: %v", wanted.Name, err)
		}
	}
}

func TestKubectlTalksToTheControlPlane(t *testing.T) {
	t.Parallel()
	namespace := Namespace(t)
	stdout, stderr, err := Kubectl(t, "get", "namespace", namespace, "-o", "name")
	if err != nil {
		t.Fatalf("kubectl: %v\n%s", err, stderr)
	}
	if want := "namespace/" + namespace + "\n"; stdout != want {
		t.Errorf("kubectl printed %q, want %q", stdout, want)
	}
}

func TestUnknownUserIsAddedWithoutRights(t *testing.T) {
	t.Parallel()
	stranger, err := client.New(RESTConfig(t, "stranger"), client.Options{Scheme: Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	review := &authenticationv1.SelfSubjectReview{}
	if err := stranger.Create(t.Context(), review); err != nil {
		t.Fatalf("ask who I am: %v", err)
	}
	if got := review.Status.UserInfo.Username; got != "stranger" {
		t.Errorf("the API server calls the user %q, want stranger", got)
	}
	if err := stranger.List(t.Context(), &corev1.SecretList{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing secrets: %v, want forbidden", err)
	}
}

func TestAuditLogHasARequestOnceItIsAnswered(t *testing.T) {
	t.Parallel()
	namespace := Namespace(t)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "seen", Namespace: namespace}}
	if err := Client(t).Create(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	records, next, err := localcluster.ReadAudit(AuditLog(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, r := range records {
		if r.User == localcluster.UserAdmin && r.Verb == "create" && r.Resource == "configmaps" && r.Namespace == namespace {
			found++
		}
	}
	if found != 1 {
		t.Errorf("found %d records of creating the ConfigMap, want 1", found)
	}
	if again, _, err := localcluster.ReadAudit(AuditLog(t), next); err != nil || containsID(again, records[0].ID) {
		t.Errorf("reading on from %d repeats records or fails: %v", next, err)
	}
}

func containsID(records []localcluster.AuditRecord, id string) bool {
	for _, r := range records {
		if r.ID == id {
			return true
		}
	}
	return false
}

func TestEventuallyStopsAskingOnceTheAnswerIsYes(t *testing.T) {
	t.Parallel()
	asked := 0
	Eventually(t, time.Minute, "third question", func() (bool, string) {
		asked++
		return asked == 3, "not yet"
	})
	if asked != 3 {
		t.Errorf("asked %d times, want 3", asked)
	}
}
