// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

func judgeWebhooks(f Facts) []Finding {
	if len(f.Webhooks) == 0 {
		return one(OK, "none installed", "")
	}
	var findings []Finding
	for _, w := range f.Webhooks {
		state := Warning
		if w.Required {
			state = Problem
		}
		switch {
		case w.Service != "" && w.Endpoints == 0:
			findings = append(findings, Finding{
				State: state, Found: fmt.Sprintf("%s: service %s has no ready endpoint", w.Configuration, w.Service),
				Advice: "see why the operator is not ready, or delete the configuration if its operator is gone",
			})
		case !w.Trusted:
			findings = append(findings, Finding{
				State: state, Found: w.Configuration + ": no certificate authority",
				Advice: "wait for the operator or cert-manager to put it in, or look into their logs",
			})
		}
	}
	slices.SortFunc(findings, func(a, b Finding) int { return strings.Compare(a.Found, b.Found) })
	findings = slices.CompactFunc(findings, func(a, b Finding) bool { return a.Found == b.Found }) // the webhooks of a configuration mostly share a service
	if f.Trial.Unanswered != "" {
		findings = append(findings, Finding{
			State: Problem, Found: "a graph sent for admission was not answered: " + f.Trial.Unanswered,
			Advice: "see that the API server reaches the service, and that its certificate is valid",
		})
	}
	if len(findings) > 0 {
		return findings
	}
	return one(OK, fmt.Sprintf("%d with endpoints and a certificate authority%s", len(f.Webhooks), judgeTrial(f)), "")
}

// judgeTrial says what a graph that was taken proves: that a webhook was reached, if one was asked that nobody may pass without.
func judgeTrial(f Facts) string {
	asked := slices.ContainsFunc(f.Webhooks, func(w Webhook) bool { return w.Asked })
	needed := slices.ContainsFunc(f.Webhooks, func(w Webhook) bool { return w.Asked && w.Required })
	switch {
	case !asked:
		return "; not asked about graphs in namespace " + f.Namespace
	case !f.Trial.Sent:
		return "; no graph could be sent for admission to namespace " + f.Namespace
	case !needed:
		return "; whether they were reached is not known, since graphs are taken without their answer"
	}
	return "; a graph sent for admission was answered"
}

// judgeInstall looks at the rights of whoever installs. Those who run graphs do without.
func judgeInstall(f Facts) []Finding {
	missing := Warning
	if f.Installing {
		missing = Problem
	}
	return judgeRights(f, true, missing, "ask an administrator to install, or for a role that allows it")
}

func judgeUse(f Facts) []Finding {
	return judgeRights(f, false, Problem, "ask an administrator for a role in this namespace that allows it")
}

func judgeRights(f Facts, install bool, missing State, advice string) []Finding {
	var refused []string
	n := 0
	for _, r := range f.Rights {
		if r.Install != install {
			continue
		}
		n++
		if !r.Allowed {
			refused = append(refused, r.Verb+" "+r.Resource)
		}
	}
	if len(refused) > 0 {
		return []Finding{several(missing, "you may not ", refused, advice)}
	}
	where := ""
	if !install {
		where = " in namespace " + f.Namespace
	}
	return one(OK, fmt.Sprintf("all %d that were asked for%s", n, where), "")
}

// judgeOperators looks for operators that would be in each other's way: there is one for the whole cluster at most, and one for
// a namespace.
func judgeOperators(f Facts) []Finding {
	var findings []Finding
	by := map[string][]Operator{}
	for _, o := range f.Operators {
		by[o.Restricted] = append(by[o.Restricted], o)
		findings = append(findings, judgeOperator(o)...)
	}
	for scope, all := range by {
		if len(all) > 1 {
			findings = append(findings, several(Problem, fmt.Sprintf("%d operators for %s: ", len(all), scopeName(scope)), addresses(all), "uninstall all but one"))
		}
	}
	if leading := alive(slices.DeleteFunc(slices.Clone(f.Leaders), f.ofOneNamespace)); len(leading) > 1 {
		findings = append(findings, several(Problem, "operators lead in several namespaces: ", leading,
			"give them one leaderElection.namespace, or uninstall all but one"))
	}
	for _, namespace := range alive(f.Claims) {
		if !slices.ContainsFunc(f.Operators, func(o Operator) bool { return o.Restricted == namespace }) {
			findings = append(findings, Finding{
				State: Warning, Found: fmt.Sprintf("namespace %s is claimed by an operator that has no Deployment", namespace),
				Advice: "kubectl -n " + namespace + " get lease dynamo-operator-namespace-scope",
			})
		}
	}
	slices.SortFunc(findings, func(a, b Finding) int { return strings.Compare(a.Found, b.Found) })
	if len(findings) > 0 {
		return findings
	}
	if len(f.Operators) == 0 {
		return one(OK, "none installed, so none in the way", "")
	}
	return []Finding{several(OK, "", described(f.Operators), "")}
}

// judgeOperator looks at one alone.
func judgeOperator(o Operator) []Finding {
	if !o.Reference {
		if o.Ready > 0 {
			return nil
		}
		return one(Problem, fmt.Sprintf("%s/%s is not ready", o.Namespace, o.Name), fmt.Sprintf("kubectl -n %s describe deployment %s", o.Namespace, o.Name))
	}
	findings := one(Warning, fmt.Sprintf("the reference operator %s/%s for %s", o.Namespace, o.Name, scopeName(o.Restricted)),
		"upgrade its Helm release in place, or uninstall it first; its graphs go on running")
	if len(o.Bundled) > 0 {
		findings = append(findings, several(Warning, fmt.Sprintf("the Helm release %s of the reference also has ", o.Release), o.Bundled,
			"an upgrade in place takes them away: annotate their objects with helm.sh/resource-policy=keep before, see docs/guides/upgrade.md"))
	}
	return findings
}

// ofOneNamespace tells that a Lease is that of operators which keep to a namespace: they lead beside those of the whole cluster.
func (f Facts) ofOneNamespace(l Lease) bool {
	return slices.ContainsFunc(f.Operators, func(o Operator) bool {
		return o.Restricted != "" && (o.Restricted == l.Namespace || o.Namespace == l.Namespace)
	}) || slices.Contains(alive(f.Claims), l.Namespace)
}

func scopeName(restricted string) string {
	if restricted == "" {
		return "the whole cluster"
	}
	return "namespace " + restricted
}

func addresses(all []Operator) []string {
	var names []string
	for _, o := range all {
		names = append(names, o.Namespace+"/"+o.Name)
	}
	slices.Sort(names)
	return names
}

func described(all []Operator) []string {
	var texts []string
	for _, o := range all {
		image := ""
		if o.Image != "" {
			image = " (" + path.Base(o.Image) + ")"
		}
		texts = append(texts, fmt.Sprintf("%s/%s%s for %s", o.Namespace, o.Name, image, scopeName(o.Restricted)))
	}
	slices.Sort(texts)
	return texts
}

// alive are the namespaces of leases that somebody keeps.
func alive(leases []Lease) []string {
	var namespaces []string
	for _, l := range leases {
		if l.Alive {
			namespaces = append(namespaces, l.Namespace)
		}
	}
	slices.Sort(namespaces)
	return namespaces
}
