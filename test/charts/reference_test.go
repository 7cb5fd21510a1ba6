// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	operatorconfig "github.com/dynamo-operator/dynamo-operator/internal/operator/config"
)

// full is how the reference calls the operator of the release dynamo-platform.
const full = "dynamo-platform-dynamo-operator"

// reference are the values of the reference, with a release that is called as its guides call it.
func reference(t *testing.T, restricted bool) map[string]*unstructured.Unstructured {
	t.Helper()
	values := file(t, "testdata/reference.yaml")
	if err := unstructured.SetNestedField(values, restricted, "dynamo-operator", "namespaceRestriction", "enabled"); err != nil {
		t.Fatal(err)
	}
	return named(t, render(t, values).Objects)
}

// before and after are the flags of the reference's chart with its own values around those that depend on the mode. Metrics are
// the difference: there they are behind a proxy.
var (
	before = []string{"--health-probe-bind-address=:8081", "--metrics-bind-address=:8443", "--leader-elect", "--leader-election-id=dynamo.nvidia.com"}
	common = []string{
		"--natsAddr=nats://dynamo-platform-nats.dynamo-system.svc.cluster.local:4222",
		"--etcdAddr=dynamo-platform-etcd.dynamo-system.svc.cluster.local:2379",
		"--grove-termination-delay=4h", "--mpi-run-ssh-secret-name=mpi-run-ssh-secret", "--mpi-run-ssh-secret-namespace=dynamo-system",
	}
	checkpoint = []string{
		"--checkpoint-enabled=true", "--checkpoint-storage-type=pvc", "--checkpoint-signal-host-path=/var/lib/chrek/signals", "--checkpoint-criu-timeout=21600",
		"--checkpoint-init-container-image=busybox:latest", "--checkpoint-pvc-name=chrek-pvc", "--checkpoint-pvc-base-path=/checkpoints",
	}
	last = []string{"--config=/etc/dynamo-operator/operator.yaml"}
)

func TestTheFlagsAreThoseOfTheReferenceInItsOrder(t *testing.T) {
	t.Parallel()
	clusterWide := slices.Concat(before, []string{"--leader-election-namespace=kube-system"}, common, []string{
		"--dgdr-profiling-cluster-role-name=" + full + "-dgdr-profiling", "--planner-cluster-role-name=" + full + "-planner",
		"--epp-cluster-role-name=" + full + "-epp", "--discovery-backend=kubernetes", "--operator-version=0.0.0-dev", "--enable-webhooks=true",
	}, checkpoint, last)
	if diff := cmp.Diff(clusterWide, manager(t, reference(t, false)).Args); diff != "" {
		t.Errorf("of all namespaces (-want +got):\n%s", diff)
	}
	// Without a certificate from elsewhere such an operator serves no webhooks, and without a token no metrics.
	quiet := slices.Clone(before)
	quiet[1] = "--metrics-bind-address=0"
	restricted := slices.Concat(quiet, []string{"--restrictedNamespace=dynamo-system", "--leader-election-namespace=dynamo-system"}, common, []string{
		"--discovery-backend=kubernetes", "--namespace-scope-lease-duration=30s", "--namespace-scope-lease-renew-interval=10s", "--operator-version=0.0.0-dev",
	}, checkpoint, last)
	if diff := cmp.Diff(restricted, manager(t, reference(t, true)).Args); diff != "" {
		t.Errorf("of one namespace (-want +got):\n%s", diff)
	}
}

func TestFlagsThatAreOptionalFollowTheOrderOfTheReference(t *testing.T) {
	t.Parallel()
	args := manager(t, named(t, render(t, set(t, everything)).Objects)).Args
	from, to := slices.Index(args, "--etcdAddr=dynamo-platform-etcd.dynamo-system.svc.cluster.local:2379"), slices.Index(args, "--mpi-run-ssh-secret-name=mpi-run-ssh-secret")
	want := []string{
		"--istio-virtual-service-gateway=istio-system/public", "--ingress-controller-class-name=nginx", "--ingress-controller-tls-secret-name=tls",
		"--ingress-host-suffix=example.com", "--virtual-service-supports-https=true", "--grove-termination-delay=4h",
		"--model-express-url=http://model-express:8001", "--prometheus-endpoint=http://prometheus:9090",
	}
	if diff := cmp.Diff(want, args[from+1:max(to, from+1)]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// manager is the operator's container.
func manager(t *testing.T, objects map[string]*unstructured.Unstructured) corev1.Container {
	t.Helper()
	for name := range objects {
		if strings.HasPrefix(name, "Deployment ") {
			return typed[appsv1.Deployment](t, objects, name).Spec.Template.Spec.Containers[0]
		}
	}
	t.Fatal("there is no Deployment")
	return corev1.Container{}
}

func TestNamesAndSelectorsAreThoseOfTheReference(t *testing.T) {
	t.Parallel()
	everywhere := []string{
		"Deployment " + full + "-controller-manager", "ServiceAccount " + full + "-controller-manager", "ServiceAccount " + full + "-component",
		"ClusterRole " + full + "-manager-role", "ClusterRoleBinding " + full + "-manager-rolebinding", "ClusterRole " + full + "-planner",
		"ClusterRole " + full + "-epp", "Service " + full, "Service " + full + "-webhook-service", "ValidatingWebhookConfiguration " + full + "-validating",
		"StatefulSet dynamo-platform-nats", "StatefulSet dynamo-platform-etcd", "Service dynamo-platform-nats", "Service dynamo-platform-etcd",
	}
	within := []string{
		"Deployment " + full + "-controller-manager", "Role " + full + "-manager-role", "RoleBinding " + full + "-manager-rolebinding",
		"ServiceAccount planner-serviceaccount", "Role planner-role", "RoleBinding planner-binding",
		"ServiceAccount epp-serviceaccount", "Role epp-role", "RoleBinding epp-binding",
	}
	for restricted, wants := range map[bool][]string{false: everywhere, true: within} {
		objects := reference(t, restricted)
		for _, want := range wants {
			if objects[want] == nil {
				t.Errorf("restricted %v: there is no %s in %v", restricted, want, slices.Sorted(maps.Keys(objects)))
			}
		}
		d := typed[appsv1.Deployment](t, objects, "Deployment "+full+"-controller-manager")
		selector := map[string]string{
			"control-plane": "controller-manager", "app.kubernetes.io/name": "dynamo-operator", "app.kubernetes.io/instance": "dynamo-platform",
		}
		if diff := cmp.Diff(selector, d.Spec.Selector.MatchLabels); diff != "" {
			t.Errorf("restricted %v: selector (-want +got):\n%s", restricted, diff)
		}
		if diff := cmp.Diff(selector, d.Spec.Template.Labels); diff != "" {
			t.Errorf("restricted %v: labels of pods (-want +got):\n%s", restricted, diff)
		}
		if pod := d.Spec.Template.Spec; len(pod.Containers) != 1 || pod.Containers[0].Image != "dynamo-operator:0.0.0-dev" {
			t.Errorf("restricted %v: containers %v", restricted, pod.Containers)
		}
	}
	if objects := reference(t, true); slices.ContainsFunc(slices.Collect(maps.Keys(objects)), func(name string) bool {
		return strings.HasPrefix(name, "Cluster") || strings.Contains(name, "WebhookConfiguration")
	}) {
		t.Errorf("an operator of one namespace needs objects of the cluster: %v", slices.Sorted(maps.Keys(objects)))
	}
}

func TestWithACertificateTheRestrictedWebhooksAreNamedAsInTheReference(t *testing.T) {
	t.Parallel()
	objects := named(t, render(t, set(t, `dynamo-operator: {namespaceRestriction: {enabled: true}, webhook: {certManager: {enabled: true}}}`)).Objects)
	for _, kind := range []string{"validating", "mutating"} {
		want := fmt.Sprintf("%sWebhookConfiguration %s-%s-dynamo-system", strings.ToUpper(kind[:1])+kind[1:], full, kind)
		u := objects[want]
		if u == nil {
			t.Fatalf("there is no %s in %v", want, slices.Sorted(maps.Keys(objects)))
		}
		if from := u.GetAnnotations()["cert-manager.io/inject-ca-from"]; from != "dynamo-system/"+full+"-serving-cert" {
			t.Errorf("%s has its authority from %q", want, from)
		}
	}
	if !slices.Contains(manager(t, objects).Args, "--enable-webhooks=true") {
		t.Error("nobody serves them")
	}
}

// effective is the configuration of the operator that objects run.
func effective(t *testing.T, objects map[string]*unstructured.Unstructured, namespace string) *operatorconfig.Config {
	t.Helper()
	var text string
	for name := range objects {
		if strings.HasPrefix(name, "ConfigMap ") {
			if found := typed[corev1.ConfigMap](t, objects, name).Data["operator.yaml"]; found != "" {
				text = found
			}
		}
	}
	args := slices.Clone(manager(t, objects).Args)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "$(POD_NAMESPACE)", namespace)
	}
	c, err := operatorconfig.Load(flag.NewFlagSet("operator", flag.ContinueOnError), args, func(string) ([]byte, error) { return []byte(text), nil })
	if err != nil {
		t.Fatalf("the operator does not take its command line: %v", err)
	}
	if err := c.Validate(func(name string) string { return map[string]string{"POD_NAMESPACE": namespace}[name] }); err != nil {
		t.Errorf("the operator does not take its configuration: %v", err)
	}
	return c
}

func TestTheOperatorTakesWhatTheChartGivesIt(t *testing.T) {
	t.Parallel()
	for name, values := range variants(t) {
		if name == "without operator" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			effective(t, named(t, render(t, values).Objects), "dynamo-system")
		})
	}
	for _, restricted := range []bool{false, true} {
		if c := effective(t, reference(t, restricted), "dynamo-system"); (c.RestrictedNamespace != "") != restricted {
			t.Errorf("it works in %q", c.RestrictedNamespace)
		}
	}
}
