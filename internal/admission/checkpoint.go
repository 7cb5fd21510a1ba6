// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// checkpointRules are those about checkpoints.
func checkpointRules() []Rule {
	checkpoints := []string{v1alpha1.KindDynamoCheckpoint}
	return []Rule{
		{
			Name: "checkpoint-framework", Kinds: checkpoints, Level: Refusal, Places: everywhere, Reference: true, check: on(checkpointFramework),
			Says: "The identity of a checkpoint names an engine that is known.",
		},
		{
			Name: "checkpoint-container", Kinds: checkpoints, Level: Refusal, Places: everywhere &^ Schema, check: on(checkpointContainer),
			Says: "The pod that is captured has a container.",
		},
		{
			Name: "checkpoint-identity-fixed", Kinds: checkpoints, Level: Refusal, Transition: true, Places: Schema | Webhook, Reference: true,
			check: onChange(checkpointIdentity), Says: "`identity` of a checkpoint stays as it is. `job` may change.",
		},
	}
}

func frameworks() []string {
	return []string{v1alpha1.BackendFrameworkVLLM, v1alpha1.BackendFrameworkSGLang, v1alpha1.BackendFrameworkTRTLLM}
}

func checkpointFramework(c *v1alpha1.DynamoCheckpoint) field.ErrorList {
	framework := c.Spec.Identity.BackendFramework
	if slices.Contains(frameworks(), framework) {
		return nil
	}
	return field.ErrorList{field.NotSupported(field.NewPath("spec", "identity", "backendFramework"), framework, frameworks())}
}

func checkpointContainer(c *v1alpha1.DynamoCheckpoint) field.ErrorList {
	if len(c.Spec.Job.PodTemplateSpec.Spec.Containers) > 0 {
		return nil
	}
	return field.ErrorList{field.Required(field.NewPath("spec", "job", "podTemplateSpec", "spec", "containers"),
		"describe the container whose process is captured")}
}

func checkpointIdentity(old, c *v1alpha1.DynamoCheckpoint) field.ErrorList {
	if equality.Semantic.DeepEqual(old.Spec.Identity, c.Spec.Identity) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "identity"), "cannot be changed: create another checkpoint")}
}
