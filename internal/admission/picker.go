// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// pickerRules are those about services and components of type epp.
func pickerRules() []Rule {
	row := func(name, says string, judge func(part) *field.Error) Rule {
		return Rule{
			Name: name, Says: says, Kinds: services(), Level: Refusal, Places: everywhere, Reference: true,
			check: eachPart(func(p part) field.ErrorList {
				if p.ComponentType != v1alpha1.ComponentTypeEPP {
					return nil
				}
				if err := judge(p); err != nil {
					return field.ErrorList{err}
				}
				return nil
			}),
		}
	}
	return []Rule{
		row("picker-one-node", "An endpoint picker runs on one node.", pickerNodes),
		row("picker-one-replica", "An endpoint picker has exactly one replica.", pickerReplicas),
		row("picker-configured", "An endpoint picker has a configuration.", pickerConfigured),
		row("picker-one-source", "The configuration of an endpoint picker comes from one place.", pickerSource),
		row("picker-config-map", "A ConfigMap with the configuration of an endpoint picker has a name.", pickerConfigMap),
	}
}

func pickerNodes(p part) *field.Error {
	if !p.IsMultinode() {
		return nil
	}
	return field.Forbidden(p.at.Child("multinode"), "an endpoint picker runs on one node: remove multinode")
}

func pickerReplicas(p part) *field.Error {
	if n := ptr.Deref(p.Replicas, 1); n != 1 {
		return field.Invalid(p.at.Child("replicas"), n, "an endpoint picker has exactly one replica: set replicas to 1, or leave it out")
	}
	return nil
}

func pickerConfigured(p part) *field.Error {
	if e := p.EPPConfig; e != nil && (e.ConfigMapRef != nil || e.Config != nil) {
		return nil
	}
	return field.Required(p.at.Child("eppConfig"), "an endpoint picker needs config or configMapRef")
}

func pickerSource(p part) *field.Error {
	if e := p.EPPConfig; e == nil || e.ConfigMapRef == nil || e.Config == nil {
		return nil
	}
	return field.Forbidden(p.at.Child("eppConfig", "config"), "give either config or configMapRef, not both")
}

func pickerConfigMap(p part) *field.Error {
	if e := p.EPPConfig; e == nil || e.ConfigMapRef == nil || e.ConfigMapRef.Name != "" {
		return nil
	}
	return field.Required(p.at.Child("eppConfig", "configMapRef", "name"), "name the ConfigMap")
}
