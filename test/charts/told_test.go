// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	ournames "github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/charts"
)

// TestPodsAreToldOfWhatIsInstalled is about the addresses of NATS and etcd: those that were given, or those of Services of the release.
func TestPodsAreToldOfWhatIsInstalled(t *testing.T) {
	t.Parallel()
	const (
		here = ".dynamo-system.svc.cluster.local"
		nats = "nats://dynamo-platform-nats" + here + ":4222"
		etcd = "dynamo-platform-etcd" + here + ":2379"
	)
	for _, row := range []struct{ name, release, values, nats, etcd string }{
		{"by default", "dynamo-platform", `{}`, nats, etcd},
		{"without etcd", "dynamo-platform", `etcd: {enabled: false}`, nats, ""},
		{"without NATS", "dynamo-platform", `nats: {enabled: false}`, "", etcd},
		{"without NATS for clients", "dynamo-platform", `nats: {service: {enabled: false}}`, "", etcd},
		{"of nothing", "dynamo-platform", `dynamo-operator: {nats: {enabled: false}, etcd: {enabled: false}}`, "", ""},
		{"of others", "dynamo-platform", `{nats: {enabled: false}, etcd: {enabled: false}, dynamo-operator: {natsAddr: "nats://n:1", etcdAddr: "http://e:2"}}`,
			"nats://n:1", "http://e:2"},
		{"of others beside those of the release", "dynamo-platform", `dynamo-operator: {natsAddr: "nats://n:1", etcdAddr: "http://e:2"}`,
			"nats://n:1", "http://e:2"},
		{"of an etcd that is not there, for the sake of pods that were told of it", "dynamo-platform",
			`{etcd: {enabled: false}, dynamo-operator: {etcdAddr: "dynamo-platform-etcd.dynamo-system.svc.cluster.local:2379"}}`, nats, etcd},
		{"of another port", "dynamo-platform", `nats: {config: {nats: {port: 4333}}}`, strings.Replace(nats, "4222", "4333", 1), etcd},
		{"of another Service", "dynamo-platform", `nats: {service: {name: bus}}`, "nats://bus" + here + ":4222", etcd},
		{"in another domain", "dynamo-platform", `dynamo-operator: {kubernetesClusterDomain: corp.example}`,
			strings.Replace(nats, "cluster.local", "corp.example", 1), strings.Replace(etcd, "cluster.local", "corp.example", 1)},
		{"in a release called after NATS", "our-nats", `{}`, "nats://our-nats" + here + ":4222", "our-nats-etcd" + here + ":2379"},
		{"in a release called after etcd", "etcd-lab", `{}`, "nats://etcd-lab-nats" + here + ":4222", "etcd-lab" + here + ":2379"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			objects := named(t, renderAs(t, charts.Release{Name: row.release, Namespace: "dynamo-system", Values: set(t, row.values)}).Objects)
			told := map[string]string{}
			for _, arg := range manager(t, objects).Args {
				flag, value, _ := strings.Cut(arg, "=")
				told[flag] = value
			}
			if told["--natsAddr"] != row.nats || told["--etcdAddr"] != row.etcd {
				t.Errorf("they are told of NATS at %q and etcd at %q", told["--natsAddr"], told["--etcdAddr"])
			}
			for _, address := range []string{row.nats, row.etcd} {
				if strings.Contains(row.values, address) {
					continue // given, wherever it leads
				}
				if host, _, inside := strings.Cut(strings.TrimPrefix(address, "nats://"), ".dynamo-system.svc."); inside {
					serves(t, objects, host, address[strings.LastIndex(address, ":")+1:])
				}
			}
		})
	}
}

// TestTheOperatorsChartWorksAlone with the addresses that it is given: nobody installs the rest for it.
func TestTheOperatorsChartWorksAlone(t *testing.T) {
	t.Parallel()
	alone, err := charts.Render(platform+"/charts/dynamo-operator", charts.Release{
		Name: "dynamo-platform", Namespace: "dynamo-system", Values: set(t, `natsAddr: "nats://n:1"`),
	})
	if err != nil {
		t.Fatal(err)
	}
	objects := named(t, alone.Objects)
	ofTheirKinds(t, "alone", objects)
	if got := effective(t, objects, "dynamo-system"); got.NATSAddress != "nats://n:1" || got.EtcdAddress != "" {
		t.Errorf("pods are told of NATS at %q and etcd at %q", got.NATSAddress, got.EtcdAddress)
	}
}

// TestTheOperatorHasOneDeploymentInChartsOfOthers that have it, or the platform, as a dependency under whatever name.
func TestTheOperatorHasOneDeploymentInChartsOfOthers(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, chart, alias, values, nats string }{
		{"the operator", platform + "/charts/dynamo-operator", "dynamo-operator", `dynamo-operator: {natsAddr: "nats://n:1"}`, "nats://n:1"},
		{"the platform", platform, "dynamo-platform", `{}`, "nats://ours-nats.dynamo-system.svc.cluster.local:4222"},
		{"the platform by another name", platform, "inference", `inference: {dynamo-operator: {natsAddr: "nats://n:1"}}`, "nats://n:1"},
	} {
		rendered, err := charts.Render(umbrella(t, row.chart, row.alias), charts.Release{Name: "ours", Namespace: "dynamo-system", Values: set(t, row.values)})
		if err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
		objects := named(t, rendered.Objects)
		ofTheirKinds(t, row.name, objects)
		if objects["Deployment ours-dynamo-operator-controller-manager"] == nil {
			t.Errorf("%s: webhooks and no operator that answers them", row.name)
			continue
		}
		if got := effective(t, objects, "dynamo-system"); got.NATSAddress != row.nats {
			t.Errorf("%s: pods are told of NATS at %q", row.name, got.NATSAddress)
		}
	}
}

// umbrella writes a chart that depends on one of ours, as helm dependency update leaves it.
func umbrella(t *testing.T, chart, alias string) string {
	t.Helper()
	directory := t.TempDir()
	source, err := filepath.Abs(chart)
	if err != nil {
		t.Fatal(err)
	}
	meta := file(t, filepath.Join(chart, "Chart.yaml"))
	text := fmt.Sprintf("apiVersion: v2\nname: umbrella\nversion: 1.0.0\ndependencies:\n- {name: %s, alias: %s, version: %s, repository: %q}\n",
		meta["name"], alias, meta["version"], "file://"+source)
	if err := os.WriteFile(filepath.Join(directory, "Chart.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(directory, "charts", meta["name"].(string)), os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	return directory
}

// TestARegistryIsPutBeforeImagesThatNameNone is about all images of the platform: what was given for one wins over what was given for
// all, and that over the registry of the release, which is a default of the operator's alone.
func TestARegistryIsPutBeforeImagesThatNameNone(t *testing.T) {
	t.Parallel()
	const given = `
global: {imageRegistry: %q}
dynamo-operator: {controllerManager: {manager: {image: {registry: %[2]q, defaultRegistry: stamped.example.com/team, repository: %[3]q, tag: x}}}}
nats:
  container: {image: {registry: %[2]q, repository: %[3]q, tag: x}}
  reloader: {image: {registry: %[2]q, repository: %[3]q, tag: x}}
etcd: {image: {registry: %[2]q, repository: %[3]q, tag: x}}
`
	for _, row := range []struct{ all, own, repository, operator, others string }{
		{"", "", "a/b", "stamped.example.com/team/a/b:x", "a/b:x"},
		{"mirror.corp/m/", "", "a/b", "mirror.corp/m/a/b:x", "mirror.corp/m/a/b:x"},
		{"mirror.corp", "own.corp:5000", "a/b", "own.corp:5000/a/b:x", "own.corp:5000/a/b:x"},
		{"", "own.corp", "b", "own.corp/b:x", "own.corp/b:x"},
		{"mirror.corp", "", "b.c", "mirror.corp/b.c:x", "mirror.corp/b.c:x"}, // which is a name, as there is nothing below it
		{"mirror.corp", "", "a/b.c", "mirror.corp/a/b.c:x", "mirror.corp/a/b.c:x"},
		{"mirror.corp", "own.corp", "registry.example.com/a/b", "registry.example.com/a/b:x", "registry.example.com/a/b:x"},
		{"mirror.corp", "", "registry:5000/b", "registry:5000/b:x", "registry:5000/b:x"},
		{"mirror.corp", "", "localhost/b", "localhost/b:x", "localhost/b:x"},
		{"mirror.corp", "", "localhosts/b", "mirror.corp/localhosts/b:x", "mirror.corp/localhosts/b:x"},
	} {
		objects := named(t, render(t, set(t, fmt.Sprintf(given, row.all, row.own, row.repository))).Objects)
		got := []string{manager(t, objects).Image}
		for _, name := range []string{"nats", "etcd"} {
			for _, c := range typed[appsv1.StatefulSet](t, objects, "StatefulSet dynamo-platform-"+name).Spec.Template.Spec.Containers {
				got = append(got, c.Image)
			}
		}
		if diff := cmp.Diff([]string{row.operator, row.others, row.others, row.others}, got); diff != "" {
			t.Errorf("%+v: images of the operator, NATS, its reloader and etcd (-want +got):\n%s", row, diff)
		}
	}
}

// serves checks that there is a Service with a port.
func serves(t *testing.T, objects map[string]*unstructured.Unstructured, name, number string) {
	t.Helper()
	for _, p := range typed[corev1.Service](t, objects, "Service "+name).Spec.Ports {
		if strconv.Itoa(int(p.Port)) == number {
			return
		}
	}
	t.Errorf("Service %s has no port %s", name, number)
}

// TestOnlyProductionHasAPriority holds for presets and overlays alike: there are clusters that refuse pods with the class.
func TestOnlyProductionHasAPriority(t *testing.T) {
	t.Parallel()
	const critical = "system-cluster-critical"
	got := map[string]string{}
	for name, values := range presets(t) {
		got[name] = priority(t, render(t, values).Objects)
	}
	for _, directory := range []string{"default", "overlays/development", "overlays/production", "overlays/restricted"} {
		got["config/"+directory] = priority(t, build(t, filepath.Join(config, directory)))
	}
	want := map[string]string{
		"default": "", "development": "", "multi-tenant": "", "production": critical,
		"config/default": "", "config/overlays/development": "", "config/overlays/production": critical, "config/overlays/restricted": "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if class := priority(t, render(t, set(t, `dynamo-operator: {controllerManager: {priorityClassName: high}}`)).Objects); class != "high" {
		t.Errorf("one that is asked for is %q", class)
	}
}

func priority(t *testing.T, objects []*unstructured.Unstructured) string {
	t.Helper()
	byName := named(t, objects)
	for name := range byName {
		if strings.HasPrefix(name, "Deployment ") {
			return typed[appsv1.Deployment](t, byName, name).Spec.Template.Spec.PriorityClassName
		}
	}
	t.Fatal("there is no Deployment")
	return ""
}

func TestPrometheusIsToldOfEveryTypeThatHasMetrics(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for _, u := range render(t, set(t, `dynamo-operator: {monitoring: {podMonitor: {enabled: true}}}`)).Objects {
		if u.GetKind() != "PodMonitor" {
			continue
		}
		labels, _, _ := unstructured.NestedStringMap(u.Object, "spec", "selector", "matchLabels")
		expressions, _, _ := unstructured.NestedSlice(u.Object, "spec", "selector", "matchExpressions")
		endpoints, _, _ := unstructured.NestedSlice(u.Object, "spec", "podMetricsEndpoints")
		if labels[ournames.LabelMetricsEnabled] != "true" || len(expressions) != 1 || len(endpoints) != 1 {
			t.Fatalf("%s is %v", u.GetName(), u.Object)
		}
		one := expressions[0].(map[string]any)
		if one["key"] != ournames.LabelComponentType || one["operator"] != "In" {
			t.Errorf("%s selects by %v", u.GetName(), one)
		}
		for _, componentType := range one["values"].([]any) {
			got[componentType.(string)] = endpoints[0].(map[string]any)["port"].(string)
		}
	}
	want := map[string]string{
		v1alpha1.ComponentTypeFrontend: ournames.PortHTTP, v1alpha1.ComponentTypeWorker: ournames.PortSystem,
		v1alpha1.ComponentTypePrefill: ournames.PortSystem, v1alpha1.ComponentTypeDecode: ournames.PortSystem,
		v1alpha1.ComponentTypePlanner: ournames.PortMetrics, v1alpha1.ComponentTypeEPP: ournames.PortMetrics,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ports of types (-want +got):\n%s", diff)
	}
}

// TestNATSKeepsWhatItsClaimHolds is about units: the server's G is 1024 to the power of 3, Kubernetes' G is 1000.
func TestNATSKeepsWhatItsClaimHolds(t *testing.T) {
	t.Parallel()
	for size, want := range map[string]any{"10Gi": "10G", "512Mi": "512M", "10G": 10e9, "1000000": 1e6, "64k": 64e3} {
		objects := named(t, render(t, set(t, fmt.Sprintf(`nats: {config: {jetstream: {fileStore: {pvc: {size: %q}}}}}`, size))).Objects)
		server := struct {
			JetStream map[string]any `json:"jetstream"`
		}{}
		if err := json.Unmarshal([]byte(typed[corev1.ConfigMap](t, objects, "ConfigMap dynamo-platform-nats-config").Data["nats.conf"]), &server); err != nil {
			t.Fatal(err)
		}
		if got := server.JetStream["max_file_store"]; got != want {
			t.Errorf("with a claim of %s it keeps %v", size, got)
		}
		claim := typed[appsv1.StatefulSet](t, objects, "StatefulSet dynamo-platform-nats").Spec.VolumeClaimTemplates[0]
		if got := claim.Spec.Resources.Requests.Storage().String(); got != size && size != "1000000" {
			t.Errorf("the claim of %s is one of %s", size, got)
		}
	}
}

// TestNATSCanStayRoot where its files are root's and the storage does not know fsGroup. These are the values that documentation names.
func TestNATSCanStayRoot(t *testing.T) {
	t.Parallel()
	user := func(values string) (id, group int64, not bool) {
		t.Helper()
		objects := named(t, render(t, set(t, values)).Objects)
		pod := typed[appsv1.StatefulSet](t, objects, "StatefulSet dynamo-platform-nats").Spec.Template.Spec
		for _, c := range pod.Containers {
			if s := c.SecurityContext; s.RunAsUser != nil || s.RunAsGroup != nil || s.RunAsNonRoot != nil {
				t.Errorf("with %s the container %s runs as somebody of its own", values, c.Name)
			}
		}
		return *pod.SecurityContext.RunAsUser, *pod.SecurityContext.RunAsGroup, *pod.SecurityContext.RunAsNonRoot
	}
	if id, group, not := user(`{}`); id != 1000 || group != 1000 || !not {
		t.Errorf("by default it is user %d of group %d, not root: %t", id, group, not)
	}
	const root = `nats: {podTemplate: {merge: {spec: {securityContext: {runAsUser: 0, runAsGroup: 0, runAsNonRoot: false}}}}}`
	if id, group, not := user(root); id != 0 || group != 0 || not {
		t.Errorf("with %s it is user %d of group %d, not root: %t", root, id, group, not)
	}
}

// TestWhatPodsOfGraphsRunUnderOutlivesTheOperator is about accounts of theirs, and what these may do: in all namespaces the operator
// makes accounts and bindings itself, and nothing takes them away.
func TestWhatPodsOfGraphsRunUnderOutlivesTheOperator(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"default":    {"ClusterRole " + full + "-epp", "ClusterRole " + full + "-planner", "ServiceAccount " + full + "-component"},
		"production": {"ClusterRole " + full + "-epp", "ClusterRole " + full + "-planner", "ServiceAccount " + full + "-component"},
		"multi-tenant": {
			"Role epp-role", "Role planner-role", "RoleBinding epp-binding", "RoleBinding planner-binding",
			"ServiceAccount " + full + "-component", "ServiceAccount epp-serviceaccount", "ServiceAccount planner-serviceaccount",
		},
	} {
		var kept []string
		for name, u := range named(t, render(t, presets(t)[name]).Objects) {
			if u.GetAnnotations()["helm.sh/resource-policy"] == "keep" {
				kept = append(kept, name)
			}
		}
		slices.Sort(kept)
		if diff := cmp.Diff(want, kept); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	annotated := named(t, render(t, set(t, `dynamo-operator: {dynamo: {components: {serviceAccount: {annotations: {role: arn}}}}}`)).Objects)
	got := annotated["ServiceAccount "+full+"-component"].GetAnnotations()
	if diff := cmp.Diff(map[string]string{"helm.sh/resource-policy": "keep", "role": "arn"}, got); diff != "" {
		t.Errorf("annotations of the account of components (-want +got):\n%s", diff)
	}
}

// TestUndeployLeavesWhatGraphsNeed looks at what kubectl is asked to delete, in a copy of the repository.
func TestUndeployLeavesWhatGraphsNeed(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	tools := filepath.Join(root, "tools")
	for from, to := range map[string]string{config: filepath.Join(root, "config"), "../../tools": tools} {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	const kubectl = "#!/bin/sh\nasked=asked/$(ls asked | wc -l)\nmkdir \"$asked\"\n[ \"$*\" = 'delete --ignore-not-found -k bin/deploy' ] && cp bin/deploy/kustomization.yaml \"$asked\"\n"
	if err := os.WriteFile(filepath.Join(tools, "kubectl"), []byte(kubectl), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "asked"), 0o700); err != nil {
		t.Fatal(err)
	}
	undeploy := exec.CommandContext(t.Context(), "sh", "tools/deploy.sh", "undeploy")
	undeploy.Dir, undeploy.Env = root, append(os.Environ(), "KUBECONFIG=none", "PATH="+tools+string(os.PathListSeparator)+os.Getenv("PATH"))
	if said, err := undeploy.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	var deleted []*unstructured.Unstructured
	for _, step := range []string{"0", "1"} {
		deleted = append(deleted, build(t, filepath.Join(root, "asked", step))...)
	}
	objects, left := named(t, deleted), []string{}
	for name := range named(t, build(t, filepath.Join(config, "default"))) {
		if objects[name] == nil && !strings.HasPrefix(name, "CustomResourceDefinition ") {
			left = append(left, name)
		}
	}
	slices.Sort(left)
	if diff := cmp.Diff([]string{"ClusterRole dynamo-operator-epp", "ClusterRole dynamo-operator-planner", "Namespace dynamo-system"}, left); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}
