// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deployment renders a component that runs on single nodes as a Deployment.
package deployment

import (
	"encoding/json"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/internal/render/pod"
)

// defaultShare of the replicas may be surplus or missing during a rollout.
const defaultShare = "25%"

// Render returns the component's Deployment, and beside it a second one of one replica while traffic is being stolen to
// debug it.
func Render(c input.Component) ([]*appsv1.Deployment, field.ErrorList) {
	main, errs := render(c, pod.Options{Workload: c.Name}, c.Spec.Replicas)
	deployments := []*appsv1.Deployment{main}
	if c.Switched(names.AnnotationStealingTrafficDebug) {
		debug, _ := render(c, pod.Options{Workload: names.DebugWorkload(c.Name), Debug: true}, ptr.To[int32](1))
		deployments = append(deployments, debug)
	}
	return deployments, errs
}

func render(c input.Component, o pod.Options, replicas *int32) (*appsv1.Deployment, field.ErrorList) {
	template, errs := pod.Template(c, o)
	if is := template.Labels[names.LabelSelector]; is != o.Workload {
		errs = append(errs, field.Invalid(c.Path.Child("extraPodMetadata", "labels").Key(names.LabelSelector), is,
			"the workload finds its pods by this label: remove it"))
	}
	rollout, problems := strategy(c)
	errs = append(errs, problems...)
	annotations := c.ObjectAnnotations()
	if !c.World.IsEmpty() {
		found, err := json.Marshal(c.World)
		if err != nil {
			errs = append(errs, field.InternalError(c.Path, err))
		}
		annotations[names.AnnotationSurroundings] = string(found)
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: o.Workload, Namespace: c.Namespace, Labels: c.ObjectLabels(), Annotations: annotations,
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{names.LabelSelector: o.Workload}},
			Strategy: rollout,
			Template: template,
		},
	}, errs
}

// strategy reads the rollout annotations. A text that is no known strategy means a rolling update, as it always did.
func strategy(c input.Component) (appsv1.DeploymentStrategy, field.ErrorList) {
	if c.Spec.Annotations[names.AnnotationStrategy] == string(appsv1.RecreateDeploymentStrategyType) {
		return appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}, nil
	}
	annotations := c.ObjectAnnotations()
	rolling := &appsv1.RollingUpdateDeployment{
		MaxSurge:       share(annotations[names.AnnotationMaxSurge]),
		MaxUnavailable: share(annotations[names.AnnotationMaxUnavailable]),
	}
	at := c.Path.Child("annotations")
	more, errs := amount(rolling.MaxSurge, at.Key(names.AnnotationMaxSurge))
	fewer, problems := amount(rolling.MaxUnavailable, at.Key(names.AnnotationMaxUnavailable))
	errs = append(errs, problems...)
	switch {
	case len(errs) > 0:
	case more == 0 && fewer == 0:
		errs = append(errs, field.Invalid(at.Key(names.AnnotationMaxUnavailable), rolling.MaxUnavailable.String(),
			"must not be 0 where "+names.AnnotationMaxSurge+" is 0: no pod could ever be replaced"))
	case fewer > 100 && rolling.MaxUnavailable.Type == intstr.String:
		errs = append(errs, field.Invalid(at.Key(names.AnnotationMaxUnavailable), rolling.MaxUnavailable.String(), "must not be more than 100%"))
	}
	return appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: rolling}, errs
}

// amount is a number of pods, or of percents of them, that is not negative.
func amount(share *intstr.IntOrString, at *field.Path) (int, field.ErrorList) {
	text := strings.TrimSuffix(share.String(), "%")
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || share.Type == intstr.String && !strings.HasSuffix(share.StrVal, "%") {
		return 0, field.ErrorList{field.Invalid(at, share.String(), `must be a number of pods such as "1", or a share of them such as "25%"`)}
	}
	return n, nil
}

func share(text string) *intstr.IntOrString {
	value := intstr.FromString(defaultShare)
	if text != "" {
		value = intstr.FromString(text)
	}
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		value = intstr.FromInt32(int32(n))
	}
	return &value
}
