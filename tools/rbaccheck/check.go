// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Role is the part of a ClusterRole or Role that is of interest.
type Role struct {
	Rules []struct {
		APIGroups     []string `json:"apiGroups"`
		Resources     []string `json:"resources"`
		ResourceNames []string `json:"resourceNames"`
		Verbs         []string `json:"verbs"`
	} `json:"rules"`
}

// Exceptions are rights that nobody uses, and requests that are denied, for a reason.
type Exceptions struct {
	Unused []Exception `json:"unused"`
	Denied []Exception `json:"denied"`
}

// Exception names rights in the form "verb group/resource", with * for every verb, and for requests that are denied with
// the name behind it where the role restricts names.
type Exception struct {
	Rights []string `json:"rights"`
	Reason string   `json:"reason"`
	// Mode is that of the operators it is for, empty for all.
	Mode string `json:"mode"`
	// Sometimes tells that it depends on the moment whether it is one, so that it is never surplus.
	Sometimes bool `json:"sometimes"`
}

// of leaves what is for operators of one mode.
func (x Exceptions) of(mode string) Exceptions {
	foreign := func(e Exception) bool { return e.Mode != "" && e.Mode != mode }
	return Exceptions{Unused: slices.DeleteFunc(slices.Clone(x.Unused), foreign), Denied: slices.DeleteFunc(slices.Clone(x.Denied), foreign)}
}

// Asked is a kind of request that an operator made; test/harness writes it.
type Asked struct {
	Verb        string `json:"verb"`
	Group       string `json:"group"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Name        string `json:"name"`
	Namespaced  bool   `json:"namespaced"`
	Selected    bool   `json:"selected"`
	Denied      bool   `json:"denied"`
	Mode        string `json:"mode"`
	Example     string `json:"example"`
}

// right is one verb on one resource, for one name or for all.
type right struct{ verb, group, resource, name string }

func (r right) String() string {
	text := r.verb + " " + strings.TrimPrefix(r.group+"/"+r.resource, "/")
	if r.name != "" {
		text += " " + r.name
	}
	return text
}

// Check returns everything that is wrong, sorted.
func Check(role Role, exceptions Exceptions, asked []Asked) []string {
	granted := rights(role)
	var problems []string
	used, denied := map[right]bool{}, map[string]string{}
	for _, a := range asked {
		r := a.right()
		if a.Denied {
			denied[r.String()] = a.Example
			continue
		}
		// A right for all names serves those who have one for this name as well, which is why the latter is then surplus.
		used[r] = true
		used[right{r.verb, r.group, r.resource, ""}] = true
		if r.resource == "secrets" && (r.verb == "list" || r.verb == "watch") && !a.Selected {
			problems = append(problems, fmt.Sprintf("Secrets were asked for without saying which: %s", a.Example))
		}
	}
	excused := excuses{}
	for r := range granted {
		general := right{r.verb, r.group, r.resource, ""}
		if r.name != "" && granted[general] {
			problems = append(problems, fmt.Sprintf("%s is granted for every name already", r))
			continue
		}
		if !used[r] && !excused.by(exceptions.Unused, general.String()) {
			problems = append(problems, fmt.Sprintf("%s is granted, and no test used it: take it away, or give the reason in the exceptions", r))
		}
	}
	for r, example := range denied {
		if !excused.by(exceptions.Denied, r) {
			problems = append(problems, fmt.Sprintf("%s was denied: %s", r, example))
		}
	}
	problems = append(problems, excused.surplus(exceptions)...)
	slices.SortFunc(problems, cmp.Compare[string])
	return slices.Compact(problems)
}

func (a Asked) right() right {
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	return right{a.Verb, a.Group, resource, a.Name}
}

// rights are all rights of a role.
func rights(role Role) map[right]bool {
	all := map[right]bool{}
	for _, rule := range role.Rules {
		ruleNames := rule.ResourceNames
		if len(ruleNames) == 0 {
			ruleNames = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range ruleNames {
						all[right{verb, group, resource, name}] = true
					}
				}
			}
		}
	}
	return all
}

// excuses remembers which exceptions were needed.
type excuses map[string]bool

func (e excuses) by(list []Exception, r string) bool {
	verb, resource, _ := strings.Cut(r, " ")
	for _, x := range list {
		for _, entry := range x.Rights {
			if entry == verb+" "+resource || entry == "* "+resource {
				e[entry] = true
				return true
			}
		}
	}
	return false
}

// surplus are the exceptions that nothing needed.
func (e excuses) surplus(x Exceptions) []string {
	var problems []string
	for _, exception := range slices.Concat(x.Unused, x.Denied) {
		if exception.Reason == "" {
			problems = append(problems, fmt.Sprintf("the exception for %s has no reason", strings.Join(exception.Rights, ", ")))
		}
		for _, entry := range exception.Rights {
			if !e[entry] && !exception.Sometimes {
				problems = append(problems, fmt.Sprintf("the exception %q is not needed any longer", entry))
			}
		}
	}
	return problems
}
