// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// frozen is what the policy of these tests says.
const frozen = "bindings are frozen until Monday"

// freezeBindings has the API server answer 422 to the operator of a namespace when it changes a binding, until the returned
// function is called.
func freezeBindings(t *testing.T, ns string) (thaw func()) {
	t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{rbacv1.GroupName}, APIVersions: []string{"v1"}, Resources: []string{"rolebindings"}},
				},
			}}},
			MatchConditions: []admissionv1.MatchCondition{{
				Name: "operator", Expression: fmt.Sprintf("request.userInfo.username == %q", "operator-"+ns),
			}},
			Validations: []admissionv1.Validation{{Expression: "false", Message: frozen, Reason: new(metav1.StatusReasonInvalid)}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: ns, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	create(t, policy)
	create(t, binding)
	thaw = func() {
		for _, object := range []client.Object{binding, policy} {
			if err := client.IgnoreNotFound(harness.Client(t).Delete(t.Context(), object)); err != nil {
				t.Errorf("delete the policy: %v", err)
			}
		}
	}
	operator := as(t, "operator-"+ns)
	harness.Eventually(t, patience, "the policy is in force", func() (bool, string) {
		note := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/note":"tried"}}}`))
		err := operator.Patch(t.Context(), bindingOf(t, ns), note, client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), frozen), fmt.Sprint(err)
	})
	return thaw
}

// bindingOf is the discovery binding of graph chat.
func bindingOf(t *testing.T, ns string) *rbacv1.RoleBinding {
	t.Helper()
	b := &rbacv1.RoleBinding{}
	if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: names.DiscoveryBinding("chat")}, b); err != nil {
		t.Fatal(err)
	}
	return b
}

// A 422 may mean that a role cannot be changed. It must not be taken for that when it means something else: whoever asks
// for a deletion then gets round the policy, and takes the rights away from pods that run.
func TestABindingThatAPolicyKeepsFromChangingIsNotReplaced(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	harness.StartOperator(t, ns)
	create(t, builders.TwoComponents(ns, "chat").Obj())
	harness.AwaitReady(t, ns, "chat")
	before := bindingOf(t, ns)
	thaw := freezeBindings(t, ns)
	strip := client.RawPatch(types.MergePatchType, []byte(`{"subjects":[]}`))
	if err := harness.Client(t).Patch(t.Context(), bindingOf(t, ns), strip); err != nil {
		t.Fatal(err)
	}
	awaitMessage(t, ns, "chat", frozen)
	if now := bindingOf(t, ns); now.UID != before.UID {
		t.Error("the binding was deleted and made anew")
	}
	thaw()
	harness.Eventually(t, patience, "the subjects are back", func() (bool, string) {
		return len(bindingOf(t, ns).Subjects) == len(before.Subjects), "not yet"
	})
	harness.AwaitReady(t, ns, "chat")
	if now := bindingOf(t, ns); now.UID != before.UID {
		t.Error("the binding was deleted and made anew")
	}
}

func TestABindingToAnotherRoleIsReplaced(t *testing.T) {
	t.Parallel()
	for name, strip := range map[string]func(*rbacv1.RoleBinding){
		"with our marks":    func(*rbacv1.RoleBinding) {},
		"without our label": func(b *rbacv1.RoleBinding) { delete(b.Labels, names.LabelApplied) }, // the cache does not show it
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := harness.Namespace(t)
			harness.SimulateDeployments(t, ns)
			operator := harness.StartOperator(t, ns)
			create(t, builders.TwoComponents(ns, "chat").Obj())
			harness.AwaitReady(t, ns, "chat")
			right := bindingOf(t, ns)
			operator.Stop()
			if err := harness.Client(t).Delete(t.Context(), right); err != nil {
				t.Fatal(err)
			}
			wrong := right.DeepCopy()
			wrong.UID, wrong.ResourceVersion, wrong.RoleRef.Name = "", "", "view"
			strip(wrong)
			create(t, wrong)
			harness.StartOperator(t, ns)
			harness.Eventually(t, patience, "the role is right", func() (bool, string) {
				b := &rbacv1.RoleBinding{}
				if err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(right), b); err != nil {
					return false, err.Error()
				}
				return b.RoleRef == right.RoleRef, b.RoleRef.Name
			})
			harness.AwaitReady(t, ns, "chat")
		})
	}
}
