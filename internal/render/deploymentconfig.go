// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// serviceConfig is what DYN_DEPLOYMENT_CONFIG may say about one service. Member names match in any case.
type serviceConfig struct{ ServiceArgs *serviceArgs }

type serviceArgs struct {
	Workers   *int32
	Resources *struct {
		CPU, Memory, GPU *string
		Custom           map[string]string
	}
}

// Replicas are how many a service of a graph asks for, nil where it leaves that open: its own number, or that of the legacy variable.
func Replicas(g *v1alpha1.DynamoGraphDeployment, service string) *int32 {
	spec := g.Spec.Services[service]
	if spec == nil {
		return nil
	}
	variable := last(spec.Envs, v1alpha1.DeploymentConfigEnv)
	if variable == nil {
		variable = last(g.Spec.Envs, v1alpha1.DeploymentConfigEnv)
	}
	if spec.Replicas != nil || variable == nil || variable.ValueFrom != nil {
		return spec.Replicas
	}
	config, _ := readConfig(variable.Value, service) // what cannot be read is refused where it is rendered
	if config.ServiceArgs == nil {
		return nil
	}
	return config.ServiceArgs.Workers
}

// configPath is where the legacy variable of a service stands: with the service, or with the graph.
func configPath(g *v1alpha1.DynamoGraphDeployment, service string, path *field.Path) *field.Path {
	if spec := g.Spec.Services[service]; spec != nil && last(spec.Envs, v1alpha1.DeploymentConfigEnv) == nil {
		path = field.NewPath("spec")
	}
	return path.Child("envs").Key(v1alpha1.DeploymentConfigEnv)
}

// readConfig returns what the legacy variable says about a service. What it says about others is theirs to understand.
func readConfig(text, service string) (serviceConfig, error) {
	var all map[string]json.RawMessage
	var wrong *json.UnmarshalTypeError
	switch err := json.Unmarshal([]byte(text), &all); {
	case errors.As(err, &wrong):
		return serviceConfig{}, errors.New("must be a JSON object with a member for each service")
	case err != nil:
		return serviceConfig{}, fmt.Errorf("must be JSON: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if entry := string(all[name]); !strings.HasPrefix(entry, "{") && entry != "null" {
			return serviceConfig{}, fmt.Errorf("member %q must be a JSON object", name)
		}
	}
	var config serviceConfig
	if entry, ok := all[service]; ok {
		if err := json.Unmarshal(entry, &config); err != nil {
			if errors.As(err, &wrong) {
				return serviceConfig{}, fmt.Errorf("%s.%s must not be a %s", service, wrong.Field, wrong.Value)
			}
			return serviceConfig{}, fmt.Errorf("member %q cannot be read: %w", service, err)
		}
	}
	return config, nil
}

// applyDeploymentConfig reads the legacy variable DYN_DEPLOYMENT_CONFIG of a service: replicas where the service names
// none, resources always, and the port a frontend has to listen on. A value that comes from elsewhere at run time
// cannot be read here and is left alone.
func applyDeploymentConfig(service string, spec *v1alpha1.DynamoComponentDeploymentSharedSpec, at *field.Path) field.ErrorList {
	variable := last(spec.Envs, v1alpha1.DeploymentConfigEnv)
	if variable == nil || variable.ValueFrom != nil {
		return nil
	}
	config, err := readConfig(variable.Value, service)
	if err != nil {
		return field.ErrorList{field.Invalid(at, variable.Value, err.Error())}
	}
	if spec.ComponentType == v1alpha1.ComponentTypeFrontend {
		text, err := withFrontendPort(variable.Value, service)
		if err != nil {
			return field.ErrorList{field.Invalid(at, variable.Value, fmt.Sprintf("must be a JSON object: %v", err))}
		}
		variable.Value = text
	}
	args := config.ServiceArgs
	if args == nil {
		return nil
	}
	if spec.Replicas == nil && args.Workers != nil {
		spec.Replicas = args.Workers
		if problem := wrongNumber(spec); problem != "" {
			return field.ErrorList{field.Invalid(at, *args.Workers, service+".ServiceArgs.Workers "+problem)}
		}
	}
	layConfigured(spec, args)
	return nil
}

// wrongNumber says what is wrong with a number of replicas that no rule of admission has seen, empty for nothing.
func wrongNumber(spec *v1alpha1.DynamoComponentDeploymentSharedSpec) string {
	switch n := *spec.Replicas; {
	case n < 0:
		return "must not be negative"
	case n != 1 && spec.ComponentType == v1alpha1.ComponentTypeEPP:
		return "must be 1: an endpoint picker has exactly one replica"
	}
	return ""
}

// layConfigured lays the resources of the legacy variable over those of the service, as requests and as limits.
func layConfigured(spec *v1alpha1.DynamoComponentDeploymentSharedSpec, args *serviceArgs) {
	if r := args.Resources; r != nil {
		spec.Resources = spec.Resources.DeepCopy()
		if spec.Resources == nil {
			spec.Resources = &v1alpha1.Resources{}
		}
		for _, item := range []**v1alpha1.ResourceItem{&spec.Resources.Requests, &spec.Resources.Limits} {
			if *item == nil {
				*item = &v1alpha1.ResourceItem{}
			}
			setText(&(*item).CPU, r.CPU)
			setText(&(*item).Memory, r.Memory)
			setText(&(*item).GPU, r.GPU)
			if r.Custom != nil {
				(*item).Custom = r.Custom
			}
		}
	}
}

// last is the variable of a name that counts: of two, a container gets the last.
func last(envs []corev1.EnvVar, name string) *corev1.EnvVar {
	for i := range slices.Backward(envs) {
		if envs[i].Name == name {
			return &envs[i]
		}
	}
	return nil
}

func setText(into, from *string) {
	if from != nil {
		*into = *from
	}
}

// withFrontendPort writes the port into the frontend's own entry, if it has one, and re-encodes the document.
func withFrontendPort(text, service string) (string, error) {
	var document map[string]any
	exact := json.NewDecoder(strings.NewReader(text))
	exact.UseNumber() // or large ones lose their last digits
	if err := exact.Decode(&document); err != nil {
		return "", err
	}
	if entry, ok := document[service].(map[string]any); ok {
		entry["port"] = names.PortHTTPNumber
	}
	encoded, err := json.Marshal(document)
	return string(encoded), err
}
