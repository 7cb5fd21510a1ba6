// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/admission"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// judge answers for one kind.
func (s *Server) judge(ctx context.Context, k kind, r *admissionv1.AdmissionRequest) answer {
	if problem := unexpected(k.name, r); problem != "" {
		return badRequest("%s", problem)
	}
	switch {
	case r.Operation == admissionv1.Delete, r.Operation == admissionv1.Connect:
		return allow()
	case r.SubResource == "status": // what we wrote is not judged
		return allow()
	}
	obj := k.empty()
	if err := json.UnmarshalCaseSensitivePreserveInts(r.Object.Raw, obj); err != nil {
		return badRequest("the object is no %s", k.name)
	}
	if meta, ok := obj.(metav1.Object); ok && meta.GetDeletionTimestamp() != nil {
		return allow()
	}
	var old runtime.Object
	if r.Operation == admissionv1.Update {
		old = k.empty()
		if err := json.UnmarshalCaseSensitivePreserveInts(r.OldObject.Raw, old); err != nil {
			return badRequest("the old object is no %s", k.name)
		}
	}
	// Whose rules count in a namespace is settled by a Lease, which a tenant may be able to write. Whom the operator acts for
	// is not.
	if a, ok := s.deputy(ctx, r, old, obj); !ok {
		return a
	}
	if s.options.Excluded(r.Namespace) {
		return allow()
	}
	verdict := admission.Judge(k.name, old, obj, admission.Circumstances{
		Restricted:     s.options.Restricted,
		InferencePools: s.options.InferencePools(),
		Caller:         r.UserInfo.Username,
		ReplicaWriters: append(slices.Clone(s.options.ReplicaWriters), names.PlannerUser(r.Namespace)),
	})
	if len(verdict.Errors) > 0 {
		s.options.Log.V(1).Info("Refused a write", "kind", k.name, "namespace", r.Namespace, "name", r.Name, "fields", fields(verdict.Errors))
		return refusal(r, verdict, rulesOf(verdict.Errors)...)
	}
	return allow(verdict.Warnings...)
}

// rulesOf are the names of the rules that errors are about, each once, in the order of the names.
func rulesOf(errs field.ErrorList) []string {
	var all []string
	for _, err := range errs {
		all = append(all, cmp.Or(err.Origin, reasonInternal)) // whatever is not from the table could not be judged
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// fields are where the problems are. What is there is nobody's business but the user's.
func fields(errs field.ErrorList) []string {
	all := make([]string, len(errs))
	for i, err := range errs {
		all[i] = err.Field
	}
	return all
}

// unexpected tells what is wrong with a request for a path.
func unexpected(kind string, r *admissionv1.AdmissionRequest) string {
	if r.Kind.Group != v1alpha1.GroupVersion.Group || r.Kind.Version != v1alpha1.GroupVersion.Version || r.Kind.Kind != kind {
		return fmt.Sprintf("this webhook judges objects of kind %s of %s only", kind, v1alpha1.GroupVersion)
	}
	if known(r.Operation) == unknownOperation {
		return "this webhook does not know the operation"
	}
	return ""
}

// refusal says everything that is wrong: one line each for people, one cause each for programs.
func refusal(r *admissionv1.AdmissionRequest, v admission.Verdict, words ...string) answer {
	lines := make([]string, len(v.Errors))
	details := &metav1.StatusDetails{Name: r.Name, Group: r.Kind.Group, Kind: r.Kind.Kind, UID: r.UID}
	for i, err := range v.Errors {
		lines[i] = err.Error()
		details.Causes = append(details.Causes, metav1.StatusCause{
			Type: metav1.CauseType(err.Type), Field: err.Field, Message: err.ErrorBody(),
		})
	}
	a := refuse(http.StatusForbidden, metav1.StatusReasonForbidden, strings.Join(lines, "\n"), words...)
	a.response.Result.Details = details
	a.response.Warnings = v.Warnings
	return a
}

// deputy sees to it that nobody has the operator do what they may not do themselves: a request can have its graph made in
// another namespace.
func (s *Server) deputy(ctx context.Context, r *admissionv1.AdmissionRequest, old, obj runtime.Object) (answer, bool) {
	if s.options.Restricted {
		return answer{}, true // it makes graphs in its own namespace only, as a rule says, and may not ask about others
	}
	request, ok := obj.(*v1alpha1.DynamoGraphDeploymentRequest)
	if !ok || request.Spec.DeploymentOverrides == nil {
		return answer{}, true
	}
	namespace := request.Spec.DeploymentOverrides.Namespace
	if namespace == "" || namespace == r.Namespace {
		return answer{}, true
	}
	if before, ok := old.(*v1alpha1.DynamoGraphDeploymentRequest); ok && equality.Semantic.DeepEqual(before.Spec, request.Spec) {
		return answer{}, true
	}
	may, err := s.options.MayCreate(ctx, r.UserInfo, namespace)
	if err != nil {
		s.options.Log.Error(err, "The rights of a requester could not be looked up", "namespace", namespace)
		a := internal(fmt.Sprintf("whether you may create graphs in namespace %q could not be found out; try again", namespace))
		if errors.Is(err, context.DeadlineExceeded) {
			a.reasons = []string{reasonTimeout}
		}
		return a, false
	}
	if !may {
		at := field.NewPath("spec", "deploymentOverrides", "namespace")
		problem := field.Forbidden(at, fmt.Sprintf(
			"you may not create %s in namespace %q: leave this out to have the graph beside its request, or have the right granted",
			graphs, namespace))
		return refusal(r, admission.Verdict{Errors: field.ErrorList{problem}}, reasonForbidden), false
	}
	return answer{}, true
}
