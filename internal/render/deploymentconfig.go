// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// serviceConfig is what DYN_DEPLOYMENT_CONFIG may say about one service. Member names match in any case.
type serviceConfig struct {
	ServiceArgs *struct {
		Workers   *int32
		Resources *struct {
			CPU, Memory, GPU *string
			Custom           map[string]string
		}
	}
}

// applyDeploymentConfig reads the legacy variable DYN_DEPLOYMENT_CONFIG of a service: replicas where the service names
// none, resources always, and the port a frontend has to listen on. A value that comes from elsewhere at run time
// cannot be read here and is left alone.
func applyDeploymentConfig(service string, spec *v1alpha1.DynamoComponentDeploymentSharedSpec, path *field.Path) field.ErrorList {
	variable := literal(spec.Envs, v1alpha1.DeploymentConfigEnv)
	if variable == nil {
		return nil
	}
	at := path.Child("envs").Key(v1alpha1.DeploymentConfigEnv)
	var config map[string]serviceConfig
	if err := json.Unmarshal([]byte(variable.Value), &config); err != nil {
		return field.ErrorList{field.Invalid(at, variable.Value, fmt.Sprintf("must be JSON: %v", err))}
	}
	if spec.ComponentType == v1alpha1.ComponentTypeFrontend {
		text, err := withFrontendPort(variable.Value, service)
		if err != nil {
			return field.ErrorList{field.Invalid(at, variable.Value, fmt.Sprintf("must be a JSON object: %v", err))}
		}
		variable.Value = text
	}
	args := config[service].ServiceArgs
	if args == nil {
		return nil
	}
	if spec.Replicas == nil {
		spec.Replicas = args.Workers
	}
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
	return nil
}

func literal(envs []corev1.EnvVar, name string) *corev1.EnvVar {
	for i := range envs {
		if envs[i].Name == name && envs[i].ValueFrom == nil {
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
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		return "", err
	}
	if entry, ok := document[service].(map[string]any); ok {
		entry["port"] = names.PortHTTPNumber
	}
	encoded, err := json.Marshal(document)
	return string(encoded), err
}
