// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common/util"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	operatorconfig "github.com/dynamo-operator/dynamo-operator/internal/operator/config"
	"github.com/dynamo-operator/dynamo-operator/test/charts"
)

// pair is an operator of the chart, in a release that is called dynamo-operator so that most names are those of the manifests, and
// one of kustomize.
type pair struct {
	namespace        string
	restricted       bool
	chart, kustomize map[string]*unstructured.Unstructured
}

// pairs are the operators that both can make: in each of their shapes, and with what others have to be there for. What the manifests do
// not have is turned off in the chart. What they have always, and the chart leaves to its users unless a preset has it, is turned on in
// it: the network policy.
func pairs(t *testing.T) map[string]pair {
	t.Helper()
	const (
		base = `
nats: {enabled: false}
etcd: {enabled: false}
dynamo-operator:
  nats: {enabled: false}
  etcd: {enabled: false}
  controllerManager: {manager: {image: {tag: 0.0.0-dev}}}
`
		policed = `
dynamo-operator: {controllerManager: {networkPolicy: {enabled: true}}}
`
		// The Secret is called as the reference's chart calls it, if nobody says otherwise.
		certified = `
dynamo-operator: {webhook: {certManager: {enabled: true}, certificateSecret: {name: dynamo-operator-webhook-certificate}}}
`
		watched = `
dynamo-operator: {monitoring: {serviceMonitor: {enabled: true}}}
`
	)
	presets := presets(t)
	all := map[string]pair{}
	for _, row := range []struct {
		mode, namespace, directory string
		values                     map[string]any
		more                       []string
	}{
		{"all namespaces", "dynamo-system", filepath.Join(config, "default"), presets["default"], []string{policed}},
		{"one namespace", "team-a", filepath.Join(config, "overlays/restricted"), presets["multi-tenant"], nil},
		{"production", "dynamo-system", filepath.Join(config, "overlays/production"), presets["production"], nil},
		{"development", "dynamo-system", filepath.Join(config, "overlays/development"), presets["development"], []string{policed}},
		{"cert-manager", "dynamo-system", layer(t, "", "resources: [CONFIG/default]\ncomponents: [CONFIG/certmanager]\n"), presets["default"], []string{policed, certified}},
		{"Prometheus", "dynamo-system", layer(t, "", "resources: [CONFIG/default, CONFIG/prometheus]\n"), presets["default"], []string{policed, watched}},
	} {
		values := row.values
		for _, text := range append(row.more, base) {
			values = util.CoalesceTables(set(t, text), values)
		}
		rendered := renderAs(t, charts.Release{Name: "dynamo-operator", Namespace: row.namespace, Values: values})
		all[row.mode] = pair{
			namespace: row.namespace, restricted: row.mode == "one namespace",
			chart: named(t, renamed(t, rendered.Objects)), kustomize: named(t, build(t, row.directory)),
		}
	}
	return all
}

func build(t *testing.T, directory string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := charts.Build(directory)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// names are what the chart calls otherwise, for the sake of the reference: objects by their kinds, then ports.
var (
	names = map[string]string{
		"Deployment dynamo-operator-controller-manager":          "dynamo-operator",
		"ServiceAccount dynamo-operator-controller-manager":      "dynamo-operator",
		"PodDisruptionBudget dynamo-operator-controller-manager": "dynamo-operator",
		"NetworkPolicy dynamo-operator-controller-manager":       "dynamo-operator",
		"ConfigMap dynamo-operator-configuration":                "dynamo-operator",
		"Service dynamo-operator":                                "dynamo-operator-metrics",
		"ClusterRole dynamo-operator-manager-role":               "dynamo-operator-manager",
		"ClusterRoleBinding dynamo-operator-manager-rolebinding": "dynamo-operator-manager",
		"Role dynamo-operator-manager-role":                      "dynamo-operator-manager",
		"RoleBinding dynamo-operator-manager-rolebinding":        "dynamo-operator-manager",
		"ServiceMonitor dynamo-operator-operator":                "dynamo-operator",
	}
	references = strings.NewReplacer(
		`"serviceAccountName":"dynamo-operator-controller-manager"`, `"serviceAccountName":"dynamo-operator"`,
		`"kind":"ServiceAccount","name":"dynamo-operator-controller-manager"`, `"kind":"ServiceAccount","name":"dynamo-operator"`,
		`Role","name":"dynamo-operator-manager-role"`, `Role","name":"dynamo-operator-manager"`,
		`"configMap":{"name":"dynamo-operator-configuration"}`, `"configMap":{"name":"dynamo-operator"}`,
		`{"app.kubernetes.io/instance":"dynamo-operator","app.kubernetes.io/name":"dynamo-operator","control-plane":"controller-manager"}`,
		`{"app.kubernetes.io/name":"dynamo-operator"}`,
	)
	ports = strings.NewReplacer(
		`"name":"https","protocol":"TCP"}`, `"name":"metrics","protocol":"TCP"}`,
		`"targetPort":"https"`, `"targetPort":"metrics"`, `"port":"https"`, `"port":"metrics"`,
		`"webhook-server"`, `"webhook"`,
	)
)

// renamed are objects of the chart with the names, ports and selectors that they have in the manifests.
func renamed(t *testing.T, objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, u := range objects {
		if name := names[u.GetKind()+" "+u.GetName()]; name != "" {
			u.SetName(name)
		}
		text, err := u.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		now := references.Replace(string(text))
		if u.GetKind() != "ServiceMonitor" { // which names the port of a Service, and these are called the same
			now = ports.Replace(now)
		}
		other := &unstructured.Unstructured{}
		if err := other.UnmarshalJSON([]byte(now)); err != nil {
			t.Fatal(err)
		}
		all = append(all, other)
	}
	return all
}

// onlyThere are objects that one side has and the other need not have, with the reason.
var onlyThere = map[string]string{
	"Namespace dynamo-system":                                "Helm makes it, with --create-namespace",
	"ServiceAccount dynamo-operator-component":               "the reference's chart has it; pods of components use it",
	"one namespace: Service dynamo-operator-webhook-service": "the chart has it when webhooks are on",
	"CustomResourceDefinition":                               "those are a chart of their own",
}

func TestChartAndKustomizeMakeTheSameObjects(t *testing.T) {
	t.Parallel()
	for mode, p := range pairs(t) {
		for name := range p.chart {
			if p.kustomize[name] == nil && onlyThere[name] == "" {
				t.Errorf("%s: only the chart makes %s", mode, name)
			}
		}
		for name := range p.kustomize {
			kind, _, _ := strings.Cut(name, " ")
			if p.chart[name] == nil && onlyThere[name] == "" && onlyThere[mode+": "+name] == "" && onlyThere[kind] == "" {
				t.Errorf("%s: only kustomize makes %s", mode, name)
			}
		}
	}
}

// TestChartAndKustomizeAgree is about everything but Deployments and configurations, which are compared by what they mean.
func TestChartAndKustomizeAgree(t *testing.T) {
	t.Parallel()
	for mode, p := range pairs(t) {
		compared := 0
		for name, theirs := range p.kustomize {
			ours := p.chart[name]
			if kind := theirs.GetKind(); ours == nil || kind == "Deployment" || kind == "ConfigMap" {
				continue
			}
			compared++
			for _, u := range []*unstructured.Unstructured{ours, theirs} {
				withoutDecoration(u)
				sortPorts(u)
			}
			if diff := cmp.Diff(theirs.Object, ours.Object); diff != "" {
				t.Errorf("%s: %s (-kustomize +chart):\n%s", mode, name, diff)
			}
		}
		if compared < 8 {
			t.Errorf("%s: only %d objects were compared", mode, compared)
		}
	}
}

// withoutDecoration leaves of labels and annotations those that somebody goes by, and of a spec what is not a default.
func withoutDecoration(u *unstructured.Unstructured) {
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	u.SetLabels(nil)
	u.SetAnnotations(nil)
	if from := annotations["cert-manager.io/inject-ca-from"]; from != "" {
		u.SetAnnotations(map[string]string{"cert-manager.io/inject-ca-from": from})
	}
	switch u.GetKind() {
	case "Service":
		if u.Object["spec"].(map[string]any)["type"] == "ClusterIP" {
			unstructured.RemoveNestedField(u.Object, "spec", "type")
		}
	case "ServiceMonitor":
		// By this Prometheus finds it. It looks for Services in the namespace of the monitor, unless that names others.
		u.SetLabels(map[string]string{"release": labels["release"]})
		if spaces, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "namespaceSelector", "matchNames"); slices.Equal(spaces, []string{u.GetNamespace()}) {
			unstructured.RemoveNestedField(u.Object, "spec", "namespaceSelector")
		}
	}
}

// sortPorts has no effect on lists that are sorted; an order of rules would be a difference.
func sortPorts(u *unstructured.Unstructured) {
	ports, found, err := unstructured.NestedSlice(u.Object, "spec", "ports")
	if !found || err != nil {
		return
	}
	slices.SortFunc(ports, func(a, b any) int {
		return strings.Compare(a.(map[string]any)["name"].(string), b.(map[string]any)["name"].(string))
	})
	_ = unstructured.SetNestedSlice(u.Object, ports, "spec", "ports")
}

func TestChartAndKustomizeAgreeOnTheDeployment(t *testing.T) {
	t.Parallel()
	for mode, p := range pairs(t) {
		ours := typed[appsv1.Deployment](t, p.chart, "Deployment dynamo-operator")
		theirs := typed[appsv1.Deployment](t, p.kustomize, "Deployment dynamo-operator")
		ours.Labels, theirs.Labels = nil, nil
		ours.Spec.Template.Annotations = nil
		container, other := &ours.Spec.Template.Spec.Containers[0], &theirs.Spec.Template.Spec.Containers[0]
		if container.Image != "dynamo-operator:0.0.0-dev" || other.Image != "dynamo-operator:dev" {
			t.Errorf("%s: images %s and %s", mode, container.Image, other.Image)
		}
		// What these two mean is compared below; the variable has the value that the operator has by default.
		container.Image, container.Args = other.Image, other.Args
		container.Env = slices.DeleteFunc(container.Env, func(e corev1.EnvVar) bool {
			return e.Name == "INTERNAL_IMAGES_DEBUGGER" && e.Value == "python:3.12-slim"
		})
		// The manifests mount a certificate that need not be there, for webhooks that are turned on by hand.
		other.VolumeMounts = slices.DeleteFunc(other.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "certificate" })
		theirs.Spec.Template.Spec.Volumes = slices.DeleteFunc(theirs.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "certificate" })
		inOrder(theirs)
		inOrder(ours)
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Errorf("%s (-kustomize +chart):\n%s", mode, diff)
		}
	}
}

// inOrder sorts what overlays put first and nothing depends on the order of: no variable refers to another, no mount is below another.
func inOrder(d *appsv1.Deployment) {
	pod := &d.Spec.Template.Spec
	slices.SortFunc(pod.Volumes, func(a, b corev1.Volume) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(pod.Containers[0].VolumeMounts, func(a, b corev1.VolumeMount) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(pod.Containers[0].Env, func(a, b corev1.EnvVar) int { return strings.Compare(a.Name, b.Name) })
}

func TestChartAndKustomizeAgreeOnTheConfiguration(t *testing.T) {
	t.Parallel()
	for mode, p := range pairs(t) {
		chart, manifests := effective(t, p.chart, p.namespace), effective(t, p.kustomize, p.namespace)
		// Operators of all namespaces that look for their Lease in different places would all work at once.
		election := "kube-system"
		if p.restricted {
			election = p.namespace
		}
		for who, c := range map[string]*operatorconfig.Config{"chart": chart, "kustomize": manifests} {
			if place := c.ElectionNamespace(func(string) string { return p.namespace }); place != election {
				t.Errorf("%s: the operator of %s has its Lease in %s", mode, who, place)
			}
		}
		// An overlay cannot change a line of the file, so that it says this by a flag.
		level := map[string]string{"development": "debug"}[mode]
		if got, want := fmt.Sprint(chart.Zap.Level), fmt.Sprint(manifests.Zap.Level); got != want || level != "" && got != level {
			t.Errorf("%s: the operator of the chart logs from level %s on, that of kustomize from %s", mode, got, want)
		}
		ours, theirs := chart.OperatorConfiguration, manifests.OperatorConfiguration
		ours.Logging.Level, theirs.Logging.Level = "", ""
		if p.restricted {
			// No file of these manifests names the namespace: the operator knows where it runs.
			theirs.LeaderElection.Namespace = ours.LeaderElection.Namespace
		}
		// The chart says these in the words of the reference's; the manifests leave them to the operator.
		if ours.MPIRunSSHSecret.Namespace != p.namespace || ours.GroveTerminationDelay.Duration != 4*time.Hour {
			t.Errorf("%s: the chart says %s and %s", mode, ours.MPIRunSSHSecret.Namespace, ours.GroveTerminationDelay.Duration)
		}
		ours.MPIRunSSHSecret.Namespace, ours.GroveTerminationDelay = theirs.MPIRunSSHSecret.Namespace, theirs.GroveTerminationDelay
		if p.restricted {
			// Nothing reads these while webhooks are off.
			ours.Webhooks, theirs.Webhooks = withoutPlaces(t, ours.Webhooks), withoutPlaces(t, theirs.Webhooks)
		}
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Errorf("%s (-kustomize +chart):\n%s", mode, diff)
		}
	}
}

// withoutPlaces is what is said of webhooks but for names and certificates.
func withoutPlaces[T any](t *testing.T, w T) T {
	t.Helper()
	text, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	members := map[string]any{}
	if err := json.Unmarshal(text, &members); err != nil {
		t.Fatal(err)
	}
	if members["enabled"] == true {
		t.Error("webhooks are on")
	}
	for _, key := range []string{"serviceName", "validatingConfigurationName", "mutatingConfigurationName", "certificates"} {
		delete(members, key)
	}
	if text, err = json.Marshal(members); err != nil {
		t.Fatal(err)
	}
	var rest T
	if err := json.Unmarshal(text, &rest); err != nil {
		t.Fatal(err)
	}
	return rest
}
