// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/dynamo-operator/dynamo-operator/internal/operator/apis"
)

// The minors of Kubernetes that docs/support.md names: the oldest that has what is needed, and the span that was tested.
const (
	OldestMinor = "1.30"
	TestedMinor = "1.36"
	NewestMinor = "1.37"
)

// Judge makes findings of facts, one or more for each check, in the order of the checks.
func Judge(f Facts) []Finding {
	var all []Finding
	for _, c := range []struct {
		check Check
		judge func(Facts) []Finding
	}{
		{CheckVersion, judgeVersion}, {CheckDefinitions, judgeDefinitions}, {CheckStorage, judgeStorage}, {CheckGPUs, judgeGPUs},
		{CheckMultinode, judgeMultinode}, {CheckCertManager, judgeCertManager}, {CheckWebhooks, judgeWebhooks},
		{CheckInstall, judgeInstall}, {CheckUse, judgeUse}, {CheckOperators, judgeOperators},
	} {
		if why, ok := f.Unread[c.check]; ok {
			all = append(all, Finding{Check: c.check, State: Warning, Found: "could not be read: " + why, Advice: "ask an administrator to run this command"})
			continue
		}
		for _, finding := range c.judge(f) {
			finding.Check = c.check
			all = append(all, finding)
		}
	}
	return all
}

func one(state State, found, advice string) []Finding {
	return []Finding{{State: state, Found: found, Advice: advice}}
}

func judgeVersion(f Facts) []Finding {
	server, err := version.ParseGeneric(f.Server)
	if err != nil {
		return one(Warning, "Kubernetes "+f.Server, "compare it with docs/support.md: its version could not be understood")
	}
	minor := version.MajorMinor(server.Major(), server.Minor())
	oldest, tested, newest := version.MustParseGeneric(OldestMinor), version.MustParseGeneric(TestedMinor), version.MustParseGeneric(NewestMinor)
	switch {
	case minor.LessThan(oldest):
		return one(Problem, "Kubernetes "+f.Server, "upgrade Kubernetes to "+OldestMinor+" or newer")
	case minor.LessThan(tested):
		return one(Warning, "Kubernetes "+f.Server, "this release was tested from "+TestedMinor+" on; nothing is known to fail")
	case newest.LessThan(minor):
		return one(Warning, "Kubernetes "+f.Server, "this release was tested up to "+NewestMinor+": look for a newer one")
	}
	return one(OK, "Kubernetes "+f.Server, "")
}

func judgeDefinitions(f Facts) []Finding {
	if len(f.Definitions) == 0 {
		return one(Warning, "not installed", "install the chart dynamo-crds before dynamo-platform")
	}
	var missing, unserved, different, releases []string
	for _, name := range f.Expected {
		i := slices.IndexFunc(f.Definitions, func(d Definition) bool { return d.Name == name })
		switch {
		case i < 0:
			missing = append(missing, name)
			continue
		case !f.Definitions[i].Served:
			unserved = append(unserved, name)
		case !f.Definitions[i].Same:
			different = append(different, name)
		}
		if release := f.Definitions[i].Release; release != "" {
			releases = append(releases, release)
		}
	}
	slices.Sort(releases)
	releases = slices.Compact(releases)
	var findings []Finding
	if len(missing) > 0 {
		findings = append(findings, several(Problem, "missing: ", missing, "upgrade the chart dynamo-crds"))
	}
	if len(unserved) > 0 {
		findings = append(findings, several(Problem, "v1alpha1 is not served: ", unserved, "upgrade the chart dynamo-crds, or remove who replaced them"))
	}
	if len(different) > 0 {
		findings = append(findings, several(Warning, "of another release than this program: ", different,
			"if they are older, upgrade the chart dynamo-crds before dynamo-platform; if newer, use the kubectl-dynamo of their release"))
	}
	if len(releases) > 1 {
		findings = append(findings, several(Warning, "owned by several Helm releases: ", releases, "let one release own all, with helm --take-ownership"))
	}
	if len(findings) > 0 {
		return findings
	}
	found := fmt.Sprintf("all %d, as in this release", len(f.Expected))
	if len(releases) == 1 {
		found += ", owned by Helm release " + releases[0]
	}
	return one(OK, found, "")
}

// judgeStorage looks for what the claims of NATS and etcd are made from. Without it a new installation would wait for ever; one that is
// there has got over that.
func judgeStorage(f Facts) []Finding {
	missing := Problem
	if f.Preset == PresetDevelopment || len(f.Operators) > 0 {
		missing = Warning
	}
	var defaults, all []string
	for _, c := range f.StorageClasses {
		all = append(all, c.Name)
		if c.Default {
			defaults = append(defaults, c.Name)
		}
	}
	switch {
	case len(all) == 0:
		return one(missing, "no storage class",
			"install one, or set nats.config.jetstream.fileStore.pvc.enabled and etcd.persistence.enabled to false, as --preset development does")
	case len(defaults) == 0:
		return []Finding{several(missing, "no default among ", all, "kubectl annotate storageclass "+all[0]+" storageclass.kubernetes.io/is-default-class=true, "+
			"or set nats.config.jetstream.fileStore.pvc.storageClassName and etcd.persistence.storageClass")}
	case len(defaults) > 1:
		return []Finding{several(Warning, "several defaults: ", defaults, "keep the annotation on one; the newest is taken")}
	}
	return one(OK, "default "+defaults[0], "")
}

func judgeGPUs(f Facts) []Finding {
	var nodes, usable int
	var gpus int64
	for _, n := range f.Nodes {
		nodes++
		if n.Usable {
			usable++
			gpus += n.GPUs
		}
	}
	switch {
	case nodes == 0:
		return one(Warning, "no node offers nvidia.com/gpu", "install the NVIDIA device plugin or GPU operator; the mocker needs none")
	case usable == 0:
		return one(Warning, fmt.Sprintf("%d nodes with GPUs, none usable", nodes), "kubectl get nodes, then uncordon or repair them")
	case usable < nodes:
		return one(Warning, fmt.Sprintf("%d GPUs on %d of %d nodes", gpus, usable, nodes), "kubectl get nodes, then uncordon or repair the others")
	}
	return one(OK, fmt.Sprintf("%d GPUs on %d nodes", gpus, nodes), "")
}

func judgeMultinode(f Facts) []Finding {
	has := func(api apis.API) bool { return slices.Contains(f.APIs, api) }
	switch {
	case has(apis.Grove) && has(apis.KAI):
		return one(OK, "Grove with KAI", "")
	case has(apis.Grove):
		return one(OK, "Grove", "install KAI for gang scheduling by queues")
	case has(apis.LWS) && has(apis.Volcano):
		return one(OK, "LeaderWorkerSet with Volcano", "")
	case has(apis.LWS):
		return one(OK, "LeaderWorkerSet", "install Volcano for gang scheduling")
	}
	return one(Warning, "no orchestrator for several nodes", "install LeaderWorkerSet or Grove to run services with multinode")
}

func judgeCertManager(f Facts) []Finding {
	if f.CertManager {
		return one(OK, "installed", "")
	}
	return one(OK, "not installed; the operator makes its certificates itself", "")
}
