// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

// Names of the components this package can build. Each is also the file name of the binary.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kubectl           = "kubectl"
	Kwok              = "kwok"
	LWS               = "lws-manager"
	// OldLWS is the oldest LeaderWorkerSet that the operator supports.
	OldLWS = "lws-manager-0.6"
	// OldAPIServer is of the oldest minor of Kubernetes that the operator is tested with.
	OldAPIServer = "kube-apiserver-1.36"
)

// Pinned versions. Changing one means regenerating the module files of the same name.
const (
	kubernetesVersion    = "v1.37.0"
	oldKubernetesVersion = "v1.36.3"
	etcdVersion          = "v3.7.0"
	kwokVersion          = "v0.8.0"
	lwsVersion           = "v0.8.0"
	oldLWSVersion        = "v0.6.2"
)

// moduleFiles are go.mod and go.sum files under other names: with their real names the go command would take their
// directory for a module of its own and refuse to embed it.
//
//go:embed modules/*.mod modules/*.sum
var moduleFiles embed.FS

// artefact says how one binary is made.
type artefact struct {
	name    string
	version string
	module  string   // base name of the pinned module files
	pkg     string   // main package
	stamps  []string // variables set by the linker, name=value
	// extras are files of module extrasFrom that the component needs at run time, as patterns below the module's root.
	extras     []string
	extrasFrom string
	// onDemand artefacts are built only for who asks for them by name.
	onDemand bool
}

// catalogue lists everything that can be built, in the order in which a cold machine should build it: what a test
// needs first comes first.
func catalogue() []artefact {
	kubernetes := func(name string) artefact {
		return artefact{
			name: name, version: kubernetesVersion, module: "kubernetes",
			pkg: "k8s.io/kubernetes/cmd/" + name, stamps: kubernetesStamps(kubernetesVersion),
		}
	}
	lws := func(name, version, module string) artefact {
		return artefact{
			name: name, version: version, module: module, pkg: "sigs.k8s.io/lws/cmd",
			stamps:     []string{"sigs.k8s.io/lws/pkg/version.GitVersion=" + version},
			extrasFrom: "sigs.k8s.io/lws",
			extras:     []string{"config/crd/bases/*.yaml", "config/rbac/role.yaml", "config/webhook/manifests.yaml"},
			onDemand:   name != LWS,
		}
	}
	return []artefact{
		{name: Etcd, version: etcdVersion, module: "etcd", pkg: "go.etcd.io/etcd/server/v3"},
		kubernetes(APIServer),
		kubernetes(Kubectl),
		kubernetes(ControllerManager),
		kubernetes(Scheduler),
		{name: Kwok, version: kwokVersion, module: "kwok", pkg: "sigs.k8s.io/kwok/cmd/kwok"},
		lws(LWS, lwsVersion, "lws"),
		lws(OldLWS, oldLWSVersion, "lws-0.6"),
		{
			name: OldAPIServer, version: oldKubernetesVersion, module: "kubernetes-1.36", pkg: "k8s.io/kubernetes/cmd/kube-apiserver",
			stamps: kubernetesStamps(oldKubernetesVersion), onDemand: true,
		},
	}
}

// kubernetesStamps returns what an official build records about itself; without it nodes and clients report v0.0.0.
// The build date is fixed so that equal inputs give equal binaries.
func kubernetesStamps(version string) []string {
	numbers := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	var stamps []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		stamps = append(stamps,
			pkg+".gitVersion="+version,
			pkg+".gitMajor="+numbers[0],
			pkg+".gitMinor="+numbers[1],
			pkg+".gitTreeState=clean",
			pkg+".buildDate=1970-01-01T00:00:00Z",
		)
	}
	return stamps
}

// Components returns the names of everything that clusters are made of.
func Components() []string {
	var names []string
	for _, a := range catalogue() {
		if !a.onDemand {
			names = append(names, a.name)
		}
	}
	return names
}

// selectArtefacts returns the named entries of the catalogue in catalogue order, each once.
func selectArtefacts(names []string) ([]artefact, error) {
	for _, name := range names {
		if !slices.ContainsFunc(catalogue(), func(a artefact) bool { return a.name == name }) {
			return nil, fmt.Errorf("unknown component %q; known are %s", name, strings.Join(Components(), ", "))
		}
	}
	var chosen []artefact
	for _, a := range catalogue() {
		if slices.Contains(names, a.name) {
			chosen = append(chosen, a)
		}
	}
	return chosen, nil
}

// moduleFile returns the pinned go.mod ("mod") or go.sum ("sum") the artefact is built with.
func (a artefact) moduleFile(kind string) ([]byte, error) {
	content, err := moduleFiles.ReadFile("modules/" + a.module + "." + kind)
	if err != nil {
		return nil, fmt.Errorf("read the pinned module of %s: %w", a.name, err)
	}
	return content, nil
}

// linkerFlags strips symbols, which halves the size, and stamps versions.
func (a artefact) linkerFlags() string {
	flags := []string{"-s", "-w"}
	for _, stamp := range a.stamps {
		flags = append(flags, "-X", stamp)
	}
	return strings.Join(flags, " ")
}
