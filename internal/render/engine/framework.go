// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package engine knows what is particular to an inference engine: how it is recognised, what it reads from its environment
// and how it finds its other nodes.
package engine

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// None is the framework of a component that runs no engine the operator knows.
const None = "noop"

// known are the frameworks in the order in which they are named in messages.
var known = []string{v1alpha1.BackendFrameworkVLLM, v1alpha1.BackendFrameworkSGLang, v1alpha1.BackendFrameworkTRTLLM}

// launches match a Python start of a framework's module inside one shell segment.
var launches = func() map[string]*regexp.Regexp {
	m := make(map[string]*regexp.Regexp, len(known))
	for _, name := range known {
		m[name] = regexp.MustCompile(`python[0-9.]*\s+[^|&;]*-m\s+[^|&;]*dynamo\.` + name)
	}
	return m
}()

// Framework decides which engine a component runs: what its command line starts, else what the user names, else none.
func Framework(c input.Component) (string, field.ErrorList) {
	if !c.IsEngine() {
		return None, nil
	}
	path := c.Path.Child("extraPodSpec", "mainContainer", "args")
	found := detect(commandLine(c))
	if c.Framework != "" && !slices.Contains(known, c.Framework) {
		return None, field.ErrorList{field.NotSupported(field.NewPath("spec", "backendFramework"), c.Framework, known)}
	}
	switch {
	case len(found) == 1 && c.Framework != "" && found[0] != c.Framework:
		return None, field.ErrorList{field.Invalid(path, found[0],
			fmt.Sprintf("backend framework mismatch: the command starts %s, spec.backendFramework says %s", found[0], c.Framework))}
	case len(found) == 1:
		return found[0], nil
	case c.Framework != "":
		return c.Framework, nil
	case len(found) > 1:
		return None, field.ErrorList{field.Invalid(path, strings.Join(found, ", "),
			"could not determine backend framework: multiple backend frameworks detected, set spec.backendFramework")}
	}
	return None, nil
}

// detect returns every framework that a command line starts.
func detect(line string) []string {
	var found []string
	for _, name := range known {
		if launches[name].MatchString(line) {
			found = append(found, name)
		}
	}
	return found
}

func commandLine(c input.Component) string {
	if c.Spec.ExtraPodSpec == nil || c.Spec.ExtraPodSpec.MainContainer == nil {
		return ""
	}
	main := c.Spec.ExtraPodSpec.MainContainer
	return strings.Join(slices.Concat(main.Command, main.Args), " ")
}

// CachePath is where an engine keeps compiled kernels unless told otherwise, empty where there is no such place.
func CachePath(framework string) string {
	if framework == v1alpha1.BackendFrameworkVLLM {
		return names.VLLMCachePath
	}
	return ""
}

// Env is what the operator tells an engine on its own account. What the user has set already is left alone.
func Env(c input.Component, framework string, set []corev1.EnvVar) []corev1.EnvVar {
	const cacheRoot = "VLLM_CACHE_ROOT"
	if framework != v1alpha1.BackendFrameworkVLLM || slices.ContainsFunc(set, func(v corev1.EnvVar) bool { return v.Name == cacheRoot }) {
		return nil
	}
	for _, v := range c.Spec.VolumeMounts {
		if !v.UseAsCompilationCache {
			continue
		}
		at := v.MountPoint
		if at == "" {
			at = CachePath(framework)
		}
		return []corev1.EnvVar{{Name: cacheRoot, Value: at}}
	}
	return nil
}
