// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// operatorEnv is where the platform's own services are. Everything else may override it.
func operatorEnv(c input.Component) []corev1.EnvVar {
	var env []corev1.EnvVar
	for _, v := range []corev1.EnvVar{
		{Name: "NATS_SERVER", Value: c.Settings.NATSAddress},
		{Name: "ETCD_ENDPOINTS", Value: c.Settings.EtcdAddress},
		{Name: "MODEL_EXPRESS_URL", Value: c.Settings.ModelExpressURL},
		{Name: "PROMETHEUS_ENDPOINT", Value: c.Settings.PrometheusEndpoint},
	} {
		if v.Value != "" {
			env = append(env, v)
		}
	}
	return env
}

// MergeEnv unites two lists by name. An entry of over replaces the whole entry of under; the result is sorted by name.
func MergeEnv(under, over []corev1.EnvVar) []corev1.EnvVar {
	byName := make(map[string]corev1.EnvVar, len(under)+len(over))
	for _, list := range [][]corev1.EnvVar{under, over} {
		for _, v := range list {
			byName[v.Name] = v
		}
	}
	merged := make([]corev1.EnvVar, 0, len(byName))
	for _, v := range byName {
		merged = append(merged, v)
	}
	slices.SortFunc(merged, func(a, b corev1.EnvVar) int { return strings.Compare(a.Name, b.Name) })
	return merged
}

// reference matches $(NAME), which the kubelet expands if NAME was defined earlier in the list. $$(NAME) is its escape.
var reference = regexp.MustCompile(`\$?\$\(([^()\s]+)\)`)

// orderEnv moves a variable that another one refers to in front of it and keeps the order by name otherwise. Without
// it, sorting would leave "$(BASE)/cache" unexpanded whenever the reference sorts first.
func orderEnv(sorted []corev1.EnvVar) []corev1.EnvVar {
	position := make(map[string]int, len(sorted))
	for i, v := range sorted {
		position[v.Name] = i
	}
	ordered := make([]corev1.EnvVar, 0, len(sorted))
	visited := make([]bool, len(sorted))
	var visit func(int)
	visit = func(i int) {
		if visited[i] {
			return
		}
		visited[i] = true // before its references, so that a circle ends
		for _, match := range reference.FindAllStringSubmatch(sorted[i].Value, -1) {
			if strings.HasPrefix(match[0], "$$") {
				continue
			}
			if j, ok := position[match[1]]; ok {
				visit(j)
			}
		}
		ordered = append(ordered, sorted[i])
	}
	for i := range sorted {
		visit(i)
	}
	return ordered
}
