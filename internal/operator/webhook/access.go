// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// graphs is the resource that requests are turned into.
const graphs = "dynamographdeployments"

// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// MayCreateGraphs asks the API server whether a user may create graphs in a namespace. It is made for Options.MayCreate; the
// client has to know the types of authorization.k8s.io.
func MayCreateGraphs(api client.Writer) func(ctx context.Context, user authenticationv1.UserInfo, namespace string) (bool, error) {
	return func(ctx context.Context, user authenticationv1.UserInfo, namespace string) (bool, error) {
		extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
		for key, value := range user.Extra {
			extra[key] = authorizationv1.ExtraValue(value)
		}
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: "create", Namespace: namespace,
				Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version, Resource: graphs,
			},
		}}
		if err := api.Create(ctx, review); err != nil {
			return false, fmt.Errorf("ask whether a user may create graphs in namespace %s: %w", namespace, err)
		}
		return review.Status.Allowed && !review.Status.Denied, nil
	}
}
