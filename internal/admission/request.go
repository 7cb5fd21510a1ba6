// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// requestRules are those about requests for a deployment.
func requestRules() []Rule {
	requests := []string{v1alpha1.KindDynamoGraphDeploymentRequest}
	return []Rule{
		{
			Name: "profiler-image", Kinds: requests, Level: Refusal, Places: everywhere, Reference: true, check: on(profilerImage),
			Says: "A request names the image of its profiler.",
		},
		{
			Name: "profiler-config", Kinds: requests, Level: Refusal, Places: everywhere, Reference: true, check: on(profilerConfig),
			Says: "A request has a configuration for its profiler.",
		},
		{
			Name: "profiler-config-object", Kinds: requests, Level: Refusal, Places: everywhere, Reference: true, check: on(profilerConfigObject),
			Says: "The configuration of a profiler is an object.",
		},
		{
			Name: "gpu-discovery-allowed", Kinds: requests, Level: Refusal, Places: everywhere &^ Schema, Reference: true, check: gpuDiscovery,
			Says: "GPUs are discovered by operators that may read nodes, which one for a single namespace may not.",
		},
		{
			Name: "request-stays-in-namespace", Kinds: requests, Level: Refusal, Places: everywhere &^ Schema, check: staysInNamespace,
			Says: "An operator of one namespace makes graphs in that namespace. Elsewhere the requester needs the right to create them where the request says.",
		},
		{
			Name: "profiler-backend-overridden", Kinds: requests, Level: Warning, Places: Lint | Webhook, Reference: true,
			check: overridden("backend", func(s v1alpha1.DynamoGraphDeploymentRequestSpec) string { return s.Backend }, "engine", "backend"),
			Says:  "`engine.backend` in the configuration differs from `spec.backend`, which is used.",
		},
		{
			Name: "profiler-model-overridden", Kinds: requests, Level: Warning, Places: Lint | Webhook, Reference: true,
			check: overridden("model", func(s v1alpha1.DynamoGraphDeploymentRequestSpec) string { return s.Model }, "deployment", "model"),
			Says:  "`deployment.model` in the configuration differs from `spec.model`, which is used.",
		},
		{
			Name: "request-under-way", Kinds: requests, Level: Warning, Transition: true, Places: Webhook, check: onChange(requestUnderWay),
			Says: "A change of a request that is worked on, or done, is stored and ignored. The reference says so in an event afterwards.",
		},
	}
}

// staysInNamespace refuses what an operator of one namespace can never do. What others may do is the API server's to say.
func staysInNamespace(w write) field.ErrorList {
	r, ok := w.obj.(*v1alpha1.DynamoGraphDeploymentRequest)
	if !ok || !w.Restricted || r.Spec.DeploymentOverrides == nil {
		return nil
	}
	if to := r.Spec.DeploymentOverrides.Namespace; to != "" && to != r.Namespace {
		return field.ErrorList{field.Forbidden(field.NewPath("spec", "deploymentOverrides", "namespace"),
			"this operator looks after one namespace and makes no graph in another: leave this out")}
	}
	return nil
}

func profilingPath() *field.Path { return field.NewPath("spec", "profilingConfig") }

func profilerImage(r *v1alpha1.DynamoGraphDeploymentRequest) field.ErrorList {
	if r.Spec.ProfilingConfig.ProfilerImage != "" {
		return nil
	}
	return field.ErrorList{field.Required(profilingPath().Child("profilerImage"), "name the image of the profiler")}
}

func profilerConfig(r *v1alpha1.DynamoGraphDeploymentRequest) field.ErrorList {
	if config := r.Spec.ProfilingConfig.Config; config != nil && len(config.Raw) > 0 {
		return nil
	}
	return field.ErrorList{field.Required(profilingPath().Child("config"), "say what to profile for: give at least the service level targets")}
}

func profilerConfigObject(r *v1alpha1.DynamoGraphDeploymentRequest) field.ErrorList {
	config := r.Spec.ProfilingConfig.Config
	if config == nil || len(config.Raw) == 0 {
		return nil
	}
	var members map[string]any
	// JSON null decodes into a map as well.
	if err := json.Unmarshal(config.Raw, &members); err == nil && members != nil {
		return nil
	}
	return field.ErrorList{field.TypeInvalid(profilingPath().Child("config"), string(config.Raw), "must be an object")}
}

func gpuDiscovery(w write) field.ErrorList {
	r, ok := w.obj.(*v1alpha1.DynamoGraphDeploymentRequest)
	if !ok || !w.Restricted || !r.Spec.EnableGPUDiscovery {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "enableGpuDiscovery"),
		"this operator works in one namespace and may not read nodes: describe the hardware in profilingConfig.config, and leave this out")}
}

// overridden warns of a text in the configuration that a member of the spec replaces.
func overridden(member string, of func(v1alpha1.DynamoGraphDeploymentRequestSpec) string, section, key string) check {
	return on(func(r *v1alpha1.DynamoGraphDeploymentRequest) field.ErrorList {
		if r.Spec.ProfilingConfig.Config == nil {
			return nil
		}
		var config map[string]any
		if json.Unmarshal(r.Spec.ProfilingConfig.Config.Raw, &config) != nil {
			return nil // another rule says so
		}
		inner, _ := config[section].(map[string]any)
		text, ok := inner[key].(string)
		if used := of(r.Spec); ok && text != "" && text != used {
			return field.ErrorList{field.Invalid(profilingPath().Child("config", section, key), text,
				fmt.Sprintf("%q is replaced by spec.%s, %q: make both equal, or leave this one out", text, member, used))}
		}
		return nil
	})
}

func requestUnderWay(old, r *v1alpha1.DynamoGraphDeploymentRequest) field.ErrorList {
	fixed := []string{
		v1alpha1.RequestStateProfiling, v1alpha1.RequestStateDeploying, v1alpha1.RequestStateReady, v1alpha1.RequestStateDeploymentDeleted,
	}
	if !slices.Contains(fixed, old.Status.State) || equality.Semantic.DeepEqual(old.Spec, r.Spec) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec"), "",
		fmt.Sprintf("the request is in state %s, and the change is ignored: create another request", old.Status.State))}
}
