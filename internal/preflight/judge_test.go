// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamo-operator/dynamo-operator/internal/operator/apis"
)

var update = flag.Bool("update", false, "write the expected outputs anew")

// ready are the facts of a cluster that lacks nothing.
func ready() Facts {
	return Facts{
		Server: "v1.37.0", Namespace: "team-a",
		Expected:       []string{"a.nvidia.com", "b.nvidia.com"},
		Definitions:    []Definition{{Name: "a.nvidia.com", Served: true, Same: true, Release: "d/crds"}, {Name: "b.nvidia.com", Served: true, Same: true, Release: "d/crds"}},
		StorageClasses: []StorageClass{{Name: "fast", Default: true}, {Name: "slow"}},
		Nodes:          []Node{{Name: "n1", GPUs: 8, Usable: true}, {Name: "n2", GPUs: 4, Usable: true}},
		APIs:           []apis.API{apis.Grove, apis.KAI},
		CertManager:    true,
		Webhooks:       []Webhook{{Configuration: "validating", Service: "d/webhook", Endpoints: 2, Trusted: true, Required: true, Asked: true}},
		Trial:          Trial{Sent: true},
		Rights:         []Right{{Install: true, Verb: "create", Resource: "secrets", Allowed: true}, {Verb: "list", Resource: "pods", Allowed: true}},
		Operators:      []Operator{{Namespace: "d", Name: "manager", Ready: 2}},
		Leaders:        []Lease{{Namespace: "kube-system", Holder: "x", Alive: true}},
	}
}

// judged is a change to a cluster that lacks nothing, and what a check says about it. All other checks are content.
type judged struct {
	change func(*Facts)
	check  Check
	want   []Finding
}

func (j judged) run(t *testing.T) {
	t.Parallel()
	f := ready()
	j.change(&f)
	var got []Finding
	for _, finding := range Judge(f) {
		if !strings.HasSuffix(finding.Found, strings.Join(finding.Items, ", ")) {
			t.Errorf("the items %v are not those of %q", finding.Items, finding.Found)
		}
		if finding.Check == j.check {
			finding.Check, finding.Items = "", nil
			got = append(got, finding)
		} else if finding.State != OK {
			t.Errorf("another check has %v", finding)
		}
	}
	if diff := cmp.Diff(j.want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const (
	noStorage = "install one, or set nats.config.jetstream.fileStore.pvc.enabled and etcd.persistence.enabled to false, as --preset development does"
	noDefault = "kubectl annotate storageclass fast storageclass.kubernetes.io/is-default-class=true, " +
		"or set nats.config.jetstream.fileStore.pvc.storageClassName and etcd.persistence.storageClass"
)

// tenant is an operator of one namespace beside the one that is there, with the Leases that it keeps.
func tenant(f *Facts, namespace, restricted string) {
	f.Operators = append(f.Operators, Operator{Namespace: namespace, Name: "manager", Image: "example.com/a/dynamo-operator:1.2.3", Ready: 1, Restricted: restricted})
	f.Leaders = append(f.Leaders, Lease{Namespace: namespace, Holder: "y", Alive: true})
	f.Claims = append(f.Claims, Lease{Namespace: restricted, Holder: "y", Alive: true})
}

func TestACheckSaysWhatTheClusterHasAndWhatToDo(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]judged{
		"an old server":         {func(f *Facts) { f.Server = "v1.29.9" }, CheckVersion, []Finding{{State: Problem, Found: "Kubernetes v1.29.9", Advice: "upgrade Kubernetes to 1.30 or newer"}}},
		"the oldest server":     {func(f *Facts) { f.Server = "v1.30.0" }, CheckVersion, []Finding{{State: Warning, Found: "Kubernetes v1.30.0", Advice: "this release was tested from 1.36 on; nothing is known to fail"}}},
		"the oldest tested":     {func(f *Facts) { f.Server = "v1.36.3" }, CheckVersion, []Finding{{State: OK, Found: "Kubernetes v1.36.3"}}},
		"a server of a cloud":   {func(f *Facts) { f.Server = "v1.37.2-gke.1100" }, CheckVersion, []Finding{{State: OK, Found: "Kubernetes v1.37.2-gke.1100"}}},
		"a new server":          {func(f *Facts) { f.Server = "v1.38.0" }, CheckVersion, []Finding{{State: Warning, Found: "Kubernetes v1.38.0", Advice: "this release was tested up to 1.37: look for a newer one"}}},
		"a server without one":  {func(f *Facts) { f.Server = "dev" }, CheckVersion, []Finding{{State: Warning, Found: "Kubernetes dev", Advice: "compare it with docs/support.md: its version could not be understood"}}},
		"no definitions":        {func(f *Facts) { f.Definitions = nil }, CheckDefinitions, []Finding{{State: Warning, Found: "not installed", Advice: "install the chart dynamo-crds before dynamo-platform"}}},
		"a missing definition":  {func(f *Facts) { f.Definitions = f.Definitions[:1] }, CheckDefinitions, []Finding{{State: Problem, Found: "missing: b.nvidia.com", Advice: "upgrade the chart dynamo-crds"}}},
		"another definition":    {func(f *Facts) { f.Definitions[1].Same = false }, CheckDefinitions, []Finding{{State: Warning, Found: "of another release than this program: b.nvidia.com", Advice: "if they are older, upgrade the chart dynamo-crds before dynamo-platform; if newer, use the kubectl-dynamo of their release"}}},
		"a version not served":  {func(f *Facts) { f.Definitions[0].Served = false }, CheckDefinitions, []Finding{{State: Problem, Found: "v1alpha1 is not served: a.nvidia.com", Advice: "upgrade the chart dynamo-crds, or remove who replaced them"}}},
		"two owners":            {func(f *Facts) { f.Definitions[0].Release = "x/y" }, CheckDefinitions, []Finding{{State: Warning, Found: "owned by several Helm releases: d/crds, x/y", Advice: "let one release own all, with helm --take-ownership"}}},
		"no storage class":      {func(f *Facts) { f.StorageClasses, f.Operators = nil, nil }, CheckStorage, []Finding{{State: Problem, Found: "no storage class", Advice: noStorage}}},
		"none, but installed":   {func(f *Facts) { f.StorageClasses = nil }, CheckStorage, []Finding{{State: Warning, Found: "no storage class", Advice: noStorage}}},
		"none for development":  {func(f *Facts) { f.StorageClasses, f.Operators, f.Preset = nil, nil, PresetDevelopment }, CheckStorage, []Finding{{State: Warning, Found: "no storage class", Advice: noStorage}}},
		"no default class":      {func(f *Facts) { f.StorageClasses[0].Default, f.Operators = false, nil }, CheckStorage, []Finding{{State: Problem, Found: "no default among fast, slow", Advice: noDefault}}},
		"no default, installed": {func(f *Facts) { f.StorageClasses[0].Default = false }, CheckStorage, []Finding{{State: Warning, Found: "no default among fast, slow", Advice: noDefault}}},
		"two default classes":   {func(f *Facts) { f.StorageClasses[1].Default = true }, CheckStorage, []Finding{{State: Warning, Found: "several defaults: fast, slow", Advice: "keep the annotation on one; the newest is taken"}}},
		"no GPUs":               {func(f *Facts) { f.Nodes = nil }, CheckGPUs, []Finding{{State: Warning, Found: "no node offers nvidia.com/gpu", Advice: "install the NVIDIA device plugin or GPU operator; the mocker needs none"}}},
		"GPUs out of use":       {func(f *Facts) { f.Nodes[1].Usable = false }, CheckGPUs, []Finding{{State: Warning, Found: "8 GPUs on 1 of 2 nodes", Advice: "kubectl get nodes, then uncordon or repair the others"}}},
		"all GPUs out of use":   {func(f *Facts) { f.Nodes = []Node{{Name: "n", GPUs: 8}} }, CheckGPUs, []Finding{{State: Warning, Found: "1 nodes with GPUs, none usable", Advice: "kubectl get nodes, then uncordon or repair them"}}},
		"LeaderWorkerSet":       {func(f *Facts) { f.APIs = []apis.API{apis.LWS} }, CheckMultinode, []Finding{{State: OK, Found: "LeaderWorkerSet", Advice: "install Volcano for gang scheduling"}}},
		"both":                  {func(f *Facts) { f.APIs = []apis.API{apis.LWS, apis.Volcano} }, CheckMultinode, []Finding{{State: OK, Found: "LeaderWorkerSet with Volcano"}}},
		"Grove alone":           {func(f *Facts) { f.APIs = []apis.API{apis.Grove} }, CheckMultinode, []Finding{{State: OK, Found: "Grove", Advice: "install KAI for gang scheduling by queues"}}},
		"no orchestrator":       {func(f *Facts) { f.APIs = nil }, CheckMultinode, []Finding{{State: Warning, Found: "no orchestrator for several nodes", Advice: "install LeaderWorkerSet or Grove to run services with multinode"}}},
		"no cert-manager":       {func(f *Facts) { f.CertManager = false }, CheckCertManager, []Finding{{State: OK, Found: "not installed; the operator makes its certificates itself"}}},
	} {
		t.Run(name, tc.run)
	}
}

func TestACheckSaysWhatIsInTheWayAndWhatToDo(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]judged{
		"no webhooks":           {func(f *Facts) { f.Webhooks = nil }, CheckWebhooks, []Finding{{State: OK, Found: "none installed"}}},
		"no endpoint":           {func(f *Facts) { f.Webhooks[0].Endpoints = 0 }, CheckWebhooks, []Finding{{State: Problem, Found: "validating: service d/webhook has no ready endpoint", Advice: "see why the operator is not ready, or delete the configuration if its operator is gone"}}},
		"no trust, but lenient": {func(f *Facts) { f.Webhooks[0].Trusted, f.Webhooks[0].Required = false, false }, CheckWebhooks, []Finding{{State: Warning, Found: "validating: no certificate authority", Advice: "wait for the operator or cert-manager to put it in, or look into their logs"}}},
		"no answer":             {func(f *Facts) { f.Trial.Unanswered = "timeout" }, CheckWebhooks, []Finding{{State: Problem, Found: "a graph sent for admission was not answered: timeout", Advice: "see that the API server reaches the service, and that its certificate is valid"}}},
		"no right to install":   {func(f *Facts) { f.Rights[0].Allowed = false }, CheckInstall, []Finding{{State: Warning, Found: "you may not create secrets", Advice: "ask an administrator to install, or for a role that allows it"}}},
		"none, but installing":  {func(f *Facts) { f.Rights[0].Allowed, f.Installing = false, true }, CheckInstall, []Finding{{State: Problem, Found: "you may not create secrets", Advice: "ask an administrator to install, or for a role that allows it"}}},
		"no right to use":       {func(f *Facts) { f.Rights[1].Allowed = false }, CheckUse, []Finding{{State: Problem, Found: "you may not list pods", Advice: "ask an administrator for a role in this namespace that allows it"}}},
		"nothing to read":       {func(f *Facts) { f.Unread = map[Check]string{CheckGPUs: "forbidden"} }, CheckGPUs, []Finding{{State: Warning, Found: "could not be read: forbidden", Advice: "ask an administrator to run this command"}}},
		"no operator":           {func(f *Facts) { f.Operators = nil }, CheckOperators, []Finding{{State: OK, Found: "none installed, so none in the way"}}},
		"a sick operator":       {func(f *Facts) { f.Operators[0].Ready = 0 }, CheckOperators, []Finding{{State: Problem, Found: "d/manager is not ready", Advice: "kubectl -n d describe deployment manager"}}},
		"the reference":         {func(f *Facts) { f.Operators[0].Reference = true }, CheckOperators, []Finding{{State: Warning, Found: "the reference operator d/manager for the whole cluster", Advice: "upgrade its Helm release in place, or uninstall it first; its graphs go on running"}}},
		"two operators":         {func(f *Facts) { f.Operators = append(f.Operators, Operator{Namespace: "e", Name: "manager", Ready: 1}) }, CheckOperators, []Finding{{State: Problem, Found: "2 operators for the whole cluster: d/manager, e/manager", Advice: "uninstall all but one"}}},
		"one beside a tenant's": {func(f *Facts) { tenant(f, "e", "e") }, CheckOperators, []Finding{{State: OK, Found: "d/manager for the whole cluster, e/manager (dynamo-operator:1.2.3) for namespace e"}}},
		"a tenant's elsewhere":  {func(f *Facts) { tenant(f, "e", "g") }, CheckOperators, []Finding{{State: OK, Found: "d/manager for the whole cluster, e/manager (dynamo-operator:1.2.3) for namespace g"}}},
		"two tenants'": {func(f *Facts) {
			f.Operators, f.Leaders = nil, nil
			tenant(f, "e", "e")
			tenant(f, "g", "g")
		}, CheckOperators, []Finding{{State: OK, Found: "e/manager (dynamo-operator:1.2.3) for namespace e, g/manager (dynamo-operator:1.2.3) for namespace g"}}},
		"two beside a tenant's": {func(f *Facts) {
			tenant(f, "e", "e")
			f.Leaders = append(f.Leaders, Lease{Namespace: "h", Alive: true})
		}, CheckOperators, []Finding{{State: Problem, Found: "operators lead in several namespaces: h, kube-system", Advice: "give them one leaderElection.namespace, or uninstall all but one"}}},
		"two of a tenant's": {func(f *Facts) {
			tenant(f, "e", "e")
			tenant(f, "g", "e")
		}, CheckOperators, []Finding{{State: Problem, Found: "2 operators for namespace e: e/manager, g/manager", Advice: "uninstall all but one"}}},
		"a bundle": {func(f *Facts) {
			f.Operators[0].Reference, f.Operators[0].Release, f.Operators[0].Bundled = true, "d/platform", []string{"grove-operator"}
		}, CheckOperators, []Finding{
			{State: Warning, Found: "the Helm release d/platform of the reference also has grove-operator", Advice: "an upgrade in place takes them away: annotate their objects with helm.sh/resource-policy=keep before, see docs/guides/upgrade.md"},
			{State: Warning, Found: "the reference operator d/manager for the whole cluster", Advice: "upgrade its Helm release in place, or uninstall it first; its graphs go on running"},
		}},
		"nobody is asked":      {func(f *Facts) { f.Webhooks[0].Asked = false }, CheckWebhooks, []Finding{{State: OK, Found: "1 with endpoints and a certificate authority; not asked about graphs in namespace team-a"}}},
		"nobody has to answer": {func(f *Facts) { f.Webhooks[0].Required = false }, CheckWebhooks, []Finding{{State: OK, Found: "1 with endpoints and a certificate authority; whether they were reached is not known, since graphs are taken without their answer"}}},
		"no graph was sent":    {func(f *Facts) { f.Trial.Sent = false }, CheckWebhooks, []Finding{{State: OK, Found: "1 with endpoints and a certificate authority; no graph could be sent for admission to namespace team-a"}}},
		"two leaders":          {func(f *Facts) { f.Leaders = append(f.Leaders, Lease{Namespace: "e", Alive: true}) }, CheckOperators, []Finding{{State: Problem, Found: "operators lead in several namespaces: e, kube-system", Advice: "give them one leaderElection.namespace, or uninstall all but one"}}},
		"a dead leader":        {func(f *Facts) { f.Leaders = append(f.Leaders, Lease{Namespace: "e"}) }, CheckOperators, []Finding{{State: OK, Found: "d/manager for the whole cluster"}}},
		"a stray claim":        {func(f *Facts) { f.Claims = []Lease{{Namespace: "e", Alive: true}} }, CheckOperators, []Finding{{State: Warning, Found: "namespace e is claimed by an operator that has no Deployment", Advice: "kubectl -n e get lease dynamo-operator-namespace-scope"}}},
		"many are all named":   {func(f *Facts) { f.Expected = []string{"a.nvidia.com", "p", "q", "r", "s"} }, CheckDefinitions, []Finding{{State: Problem, Found: "missing: p, q, r, s", Advice: "upgrade the chart dynamo-crds"}}},
	} {
		t.Run(name, tc.run)
	}
}

func TestFindingsAreShownForPeopleAndForPrograms(t *testing.T) {
	t.Parallel()
	broken := ready()
	broken.Server, broken.Nodes, broken.Webhooks[0].Endpoints = "v1.29.0", nil, 0
	broken.Rights = broken.Rights[:1]
	for _, resource := range []string{"configmaps", "pods", "secrets", "services"} {
		broken.Rights = append(broken.Rights, Right{Verb: "list", Resource: resource})
	}
	broken.StorageClasses = []StorageClass{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	for name, facts := range map[string]Facts{"ready": ready(), "broken": broken} {
		findings := Judge(facts)
		if Failed(findings) != (name == "broken") {
			t.Errorf("%s: failed is %t", name, Failed(findings))
		}
		var table, document bytes.Buffer
		if err := Table(&table, findings); err != nil {
			t.Fatal(err)
		}
		if err := JSON(&document, findings); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".txt", table.Bytes())
		golden(t, name+".json", document.Bytes())
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
