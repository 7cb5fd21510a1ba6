// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/config/crd"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/admission/cases"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	patience = 30 * time.Second
	holder   = "example.com/hold"
)

// otherGroup is where a test has definitions of its own, which it can change beside the other tests.
type otherGroup string

// store has every object that breaks a rule stored before there are rules. Rules come to definitions that have objects already.
func (group otherGroup) store(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	namespace := harness.Namespace(t)
	strict := group.definitions(t)
	group.install(t, strict, true)
	every, _ := all(t)
	stored := map[string]*unstructured.Unstructured{}
	for _, c := range every {
		if c.Old != nil || !c.Broken {
			continue
		}
		object := group.object(t, c, namespace, len(stored))
		err := harness.Client(t).Create(t.Context(), object)
		if apierrors.IsInvalid(err) {
			continue // broken by type or limit, which no definition ever let through
		}
		if err != nil {
			t.Fatal(err)
		}
		stored[c.Kind+" "+c.Rule+" ("+c.Name+")"] = object
	}
	group.install(t, strict, false)
	return stored
}

func TestWhatWasStoredBeforeItsRulesCanStillBeWorkedOnAndDeleted(t *testing.T) {
	t.Parallel()
	refused := 0
	for name, object := range otherGroup("stored.example.com").store(t) {
		if againRefused(t, object) {
			refused++
		}
		workOn(t, name, object)
		remove(t, name, object)
	}
	if refused < 20 {
		t.Errorf("only %d objects broke a rule", refused)
	}
}

// definitions are ours in another group.
func (group otherGroup) definitions(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	definitions, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range definitions {
		d.Name, d.Spec.Group, d.Spec.Names.ShortNames = d.Spec.Names.Plural+"."+string(group), string(group), nil
	}
	return definitions
}

// install installs definitions, or changes those that are there, and waits until they are in force.
func (group otherGroup) install(t *testing.T, strict []*apiextensionsv1.CustomResourceDefinition, loose bool) {
	t.Helper()
	for _, d := range strict {
		d = d.DeepCopy()
		if loose {
			harness.DropRules(d)
			if err := localcluster.InstallCRDs(t.Context(), harness.RESTConfig(t, localcluster.UserAdmin), []*apiextensionsv1.CustomResourceDefinition{d}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		live := &apiextensionsv1.CustomResourceDefinition{}
		if err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(d), live); err != nil {
			t.Fatal(err)
		}
		live.Spec = d.Spec
		if err := harness.Client(t).Update(t.Context(), live); err != nil {
			t.Fatal(err)
		}
	}
	if loose {
		return
	}
	group.awaitForce(t)
}

// awaitForce waits until each definition that has rules refuses what breaks one of them.
func (group otherGroup) awaitForce(t *testing.T) {
	t.Helper()
	every, _ := all(t)
	waited := map[string]bool{}
	for _, c := range every {
		byRule := slices.Contains([]string{"services-given", "model-name", "profiler-config", "ingress-host"}, c.Rule)
		if !c.Broken || waited[c.Kind] || !byRule {
			continue
		}
		waited[c.Kind] = true
		harness.Eventually(t, patience, "the rules of "+c.Kind, func() (bool, string) {
			err := harness.Client(t).Create(t.Context(), group.object(t, c, "default", 0), client.DryRunAll)
			return apierrors.IsInvalid(err), fmt.Sprint(err)
		})
	}
}

// object is that of a case in the other group.
func (group otherGroup) object(t *testing.T, c cases.Case, namespace string, number int) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: placed(t, c.Object, namespace)}
	object.SetAPIVersion(string(group) + "/v1alpha1")
	object.SetName(fmt.Sprintf("stored-%d", number))
	object.SetFinalizers([]string{holder})
	object.SetOwnerReferences(nil) // there is no such owner, and the object would be collected
	return object
}

// againRefused tells whether the object would be refused if it were new.
func againRefused(t *testing.T, object *unstructured.Unstructured) bool {
	t.Helper()
	anew := &unstructured.Unstructured{Object: map[string]any{"spec": object.Object["spec"]}}
	anew.SetGroupVersionKind(object.GroupVersionKind())
	anew.SetNamespace(object.GetNamespace())
	anew.SetName("anew")
	err := harness.Client(t).Create(t.Context(), anew, client.DryRunAll)
	return apierrors.IsInvalid(err)
}

// workOn does what controllers and users do to objects without changing their spec.
func workOn(t *testing.T, name string, object *unstructured.Unstructured) {
	t.Helper()
	api := harness.Client(t)
	conditions := []any{map[string]any{
		"type": "Ready", "status": "False", "reason": "Refused", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}
	status := map[string]any{"observedGeneration": int64(1), "conditions": conditions, "readyEndpoints": int64(0), "totalEndpoints": int64(0), "replicas": int64(0)}
	object.Object["status"] = status
	if err := api.Status().Update(t.Context(), object); err != nil {
		t.Errorf("%s: status: %v", name, err)
	}
	object.SetLabels(map[string]string{"example.com/seen": "yes"})
	object.SetFinalizers([]string{holder, holder + "-too"})
	if err := api.Update(t.Context(), object); err != nil {
		t.Errorf("%s: labels and finalizers: %v", name, err)
	}
}

// remove deletes an object that a finalizer holds, and takes the finalizer off.
func remove(t *testing.T, name string, object *unstructured.Unstructured) {
	t.Helper()
	api := harness.Client(t)
	if err := api.Delete(t.Context(), object); err != nil {
		t.Fatalf("%s: delete: %v", name, err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatalf("%s: read what is being deleted: %v", name, err)
	}
	object.SetFinalizers(nil)
	if err := api.Update(t.Context(), object); err != nil {
		t.Errorf("%s: take the finalizers off: %v", name, err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
		t.Errorf("%s: still there: %v", name, err)
	}
}
