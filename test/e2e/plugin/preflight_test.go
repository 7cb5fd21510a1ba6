// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/preflight"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// look runs preflight for somebody who is going to install in the namespace, as ask does.
func look(t *testing.T, user, namespace string, flags ...string) (int, map[preflight.Check]string) {
	t.Helper()
	return ask(t, user, append([]string{"-n", namespace, "--install-namespace", namespace}, flags...)...)
}

// ask runs preflight and returns its findings by check, the states joined with what was found.
func ask(t *testing.T, user string, flags ...string) (int, map[preflight.Check]string) {
	t.Helper()
	code, stdout, stderr := plugin(t, user, append([]string{"preflight", "-o", "json"}, flags...)...)
	var report struct {
		Ready    bool
		Findings []preflight.Finding
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("%v\n%s%s", err, stdout, stderr)
	}
	if report.Ready != (code == 0) {
		t.Errorf("exit code %d, but ready is %t", code, report.Ready)
	}
	found := map[preflight.Check]string{}
	for _, f := range report.Findings {
		line := fmt.Sprintf("%s: %s", f.State, f.Found)
		if before, ok := found[f.Check]; ok {
			line = before + "\n" + line
		}
		found[f.Check] = line
	}
	return code, found
}

// The cluster changes as a whole, so these steps follow each other in one test, and no other runs beside it.
func TestPreflightSeesWhatAClusterHas(t *testing.T) {
	namespace := harness.Namespace(t)
	code, found := look(t, admin, namespace)
	want := map[preflight.Check]string{
		preflight.CheckVersion:     "ok: Kubernetes v1.37.0",
		preflight.CheckDefinitions: "ok: all 7, as in this release",
		preflight.CheckStorage:     "problem: no storage class",
		preflight.CheckGPUs:        "warning: no node offers nvidia.com/gpu",
		preflight.CheckMultinode:   "warning: no orchestrator for several nodes",
		preflight.CheckCertManager: "ok: not installed; the operator makes its certificates itself",
		preflight.CheckWebhooks:    "ok: none installed",
		preflight.CheckInstall:     "ok: all 15 that were asked for",
		preflight.CheckUse:         "ok: all 5 that were asked for in namespace " + namespace,
		preflight.CheckOperators:   "ok: none installed, so none in the way",
	}
	if diff := cmp.Diff(want, found); diff != "" || code != 1 {
		t.Errorf("exit code %d (-want +got):\n%s", code, diff)
	}
	code, found = look(t, admin, namespace, "--preset", "development")
	if got := found[preflight.CheckStorage]; got != "warning: no storage class" || code != 0 {
		t.Errorf("without anything that is kept: exit code %d, storage %s", code, got)
	}

	furnish(t, namespace)
	code, found = look(t, admin, namespace)
	want[preflight.CheckStorage] = "ok: default fast"
	want[preflight.CheckGPUs] = "warning: 8 GPUs on 1 of 2 nodes"
	want[preflight.CheckOperators] = "warning: namespace " + namespace + " is claimed by an operator that has no Deployment\n" +
		"warning: the Helm release " + namespace + "/dynamo-platform of the reference also has grove-operator\n" +
		"warning: the reference operator " + namespace + "/dynamo-platform-dynamo-operator-controller-manager for the whole cluster"
	if diff := cmp.Diff(want, found); diff != "" || code != 0 {
		t.Errorf("exit code %d (-want +got):\n%s", code, diff)
	}

	hook := webhook(t, namespace)
	service := namespace + "/webhook"
	code, found = look(t, admin, namespace)
	text := found[preflight.CheckWebhooks]
	if !strings.HasPrefix(text, "problem: "+hook+": service "+service+" has no ready endpoint\nproblem: a graph sent for admission was not answered: ") || code != 1 {
		t.Errorf("exit code %d, webhooks: %s", code, text)
	}
	endpoint(t, namespace)
	_, found = look(t, admin, namespace)
	if text := found[preflight.CheckWebhooks]; !strings.HasPrefix(text, "problem: "+hook+": no certificate authority\nproblem: a graph sent") {
		t.Errorf("webhooks: %s", text)
	}
}

// create makes an object that goes with the test.
func create(t *testing.T, o client.Object) {
	t.Helper()
	api := harness.Client(t)
	if err := api.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The context of the test has ended when its objects are removed.
		if err := api.Delete(context.WithoutCancel(t.Context()), o); client.IgnoreNotFound(err) != nil {
			t.Logf("remove %s: %v", o.GetName(), err)
		}
	})
}

// furnish gives the cluster storage, GPUs, an operator of the reference and a claim.
func furnish(t *testing.T, namespace string) {
	t.Helper()
	create(t, &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: "fast", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: "example.com/fast",
	})
	for name, ready := range map[string]corev1.ConditionStatus{"gpu-1": corev1.ConditionTrue, "gpu-2": corev1.ConditionFalse} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		create(t, node)
		node.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
		if ready == corev1.ConditionTrue {
			node.Spec.Taints = nil
		}
		if err := harness.Client(t).Status().Update(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	release := map[string]string{"meta.helm.sh/release-name": "dynamo-platform", "meta.helm.sh/release-namespace": namespace}
	reference := deployment(namespace, "dynamo-platform-dynamo-operator-controller-manager", []corev1.Container{
		{Name: "kube-rbac-proxy", Image: "proxy"}, {Name: "manager", Image: "kubernetes-operator", Args: []string{"--leader-elect"}},
	})
	// Its name is that of an override, which hides it from those who look for the usual one.
	reference.Labels["app.kubernetes.io/name"], reference.Labels["app.kubernetes.io/part-of"] = "dynamo", "dynamo-operator"
	grove := deployment(namespace, "grove-operator", []corev1.Container{{Name: "operator", Image: "grove"}})
	box := deployment(namespace, "dynamo-platform-nats-box", []corev1.Container{{Name: "box", Image: "nats-box"}})
	for _, d := range []*appsv1.Deployment{reference, grove, box} {
		d.Annotations = release
		create(t, d)
	}
	lease(t, namespace, "dynamo-operator-namespace-scope")
}

// lease is one that somebody holds for as long as the test runs.
func lease(t *testing.T, namespace, name string) {
	t.Helper()
	create(t, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("somebody"), LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: &metav1.MicroTime{Time: time.Now()},
		},
	})
}

// deployment is one that nobody runs.
func deployment(namespace, name string, containers []corev1.Container) *appsv1.Deployment {
	selector := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector}, Spec: corev1.PodSpec{Containers: containers}},
		},
	}
}

// webhook makes a configuration whose service has no endpoints, and returns its name.
func webhook(t *testing.T, namespace string) string {
	t.Helper()
	none := admissionregistrationv1.SideEffectClassNone
	create(t, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "webhook"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	})
	create(t, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "graphs.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, TimeoutSeconds: ptr.To[int32](1),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				Service: &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: "webhook"},
			},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{"nvidia.com"}, APIVersions: []string{"v1alpha1"}, Resources: []string{"dynamographdeployments"},
				},
			}},
		}},
	})
	// The API server learns of a configuration a moment after it has accepted it.
	harness.Eventually(t, 10*time.Second, "the API server calls the webhook", func() (bool, string) {
		_, found := look(t, admin, namespace)
		return strings.Contains(found[preflight.CheckWebhooks], "not answered"), found[preflight.CheckWebhooks]
	})
	return namespace
}

// endpoint gives the service of the webhook an endpoint that nobody listens at.
func endpoint(t *testing.T, namespace string) {
	t.Helper()
	create(t, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: "webhook-1", Labels: map[string]string{discoveryv1.LabelServiceName: "webhook"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
		Ports:       []discoveryv1.EndpointPort{{Port: ptr.To[int32](443)}},
	})
}

func TestPreflightTellsAUserWithoutRightsSo(t *testing.T) {
	namespace := harness.Namespace(t)
	code, found := look(t, "nobody-in-particular", namespace)
	if code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	for check, want := range map[preflight.Check]string{
		preflight.CheckUse:         "problem: you may not create dynamographdeployments.nvidia.com, patch dynamographdeployments.nvidia.com, delete dynamographdeployments.nvidia.com, list pods, get pods/log",
		preflight.CheckInstall:     "problem: you may not create customresourcedefinitions.apiextensions.k8s.io, create clusterroles.rbac.authorization.k8s.io, create clusterrolebindings.rbac.authorization.k8s.io, create validatingwebhookconfigurations.admissionregistration.k8s.io, ",
		preflight.CheckVersion:     "ok: Kubernetes v1.37.0",
		preflight.CheckDefinitions: "warning: could not be read: customresourcedefinitions.apiextensions.k8s.io is forbidden",
		preflight.CheckGPUs:        "warning: could not be read: nodes is forbidden",
		preflight.CheckWebhooks:    "warning: could not be read: validatingwebhookconfigurations",
		preflight.CheckOperators:   "warning: could not be read: deployments.apps is forbidden",
	} {
		if !strings.HasPrefix(found[check], want) {
			t.Errorf("%s: got %q, want %q", check, found[check], want)
		}
	}
}

// Who runs graphs is content without the right to install; who says that he is going to install is not.
func TestARightToInstallIsNeededByThoseWhoInstall(t *testing.T) {
	namespace := harness.Namespace(t)
	const user = "runs-graphs"
	create(t, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"nvidia.com"}, Resources: []string{"dynamographdeployments"}, Verbs: []string{"create", "patch", "delete"}},
			{APIGroups: []string{""}, Resources: []string{"pods", "pods/log"}, Verbs: []string{"get", "list"}},
		},
	})
	create(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
	})
	for _, tc := range []struct {
		flags []string
		code  int
		state preflight.State
	}{
		{nil, 0, preflight.Warning},
		{[]string{"--preset", "development"}, 1, preflight.Problem},
		{[]string{"--install-namespace", "dynamo-system"}, 1, preflight.Problem}, // also where it is the usual one
	} {
		code, found := ask(t, user, append([]string{"-n", namespace}, tc.flags...)...)
		if got := found[preflight.CheckInstall]; code != tc.code || !strings.HasPrefix(got, string(tc.state)+": you may not create ") {
			t.Errorf("%v: exit code %d, %s", tc.flags, code, got)
		}
		if got := found[preflight.CheckUse]; !strings.HasPrefix(got, "ok: ") {
			t.Errorf("%v: %s", tc.flags, got)
		}
	}
}

func TestOperatorsOfOneNamespaceEachAreNoConflict(t *testing.T) {
	both := []string{harness.Namespace(t), harness.Namespace(t)}
	flag := deployment(both[0], "dynamo-operator", []corev1.Container{{
		Name: "manager", Image: "example.com/team/dynamo-operator:1.2.3", Args: []string{"--restrictedNamespace", "$(POD_NAMESPACE)"},
		Env: []corev1.EnvVar{{Name: "POD_NAMESPACE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}}},
	}})
	file := deployment(both[1], "dynamo-operator", []corev1.Container{{
		Name: "manager", Image: "dynamo-operator:1.2.3", Args: []string{"--config=/etc/dynamo-operator/operator.yaml"},
		VolumeMounts: []corev1.VolumeMount{{Name: "configuration", MountPath: "/etc/dynamo-operator"}},
	}})
	file.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "configuration", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "dynamo-operator"}},
	}}}
	create(t, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: both[1], Name: "dynamo-operator"},
		Data:       map[string]string{"operator.yaml": "restrictedNamespace: " + both[1] + "\n"},
	})
	for i, d := range []*appsv1.Deployment{flag, file} {
		d.Labels["app.kubernetes.io/name"] = "dynamo-operator"
		create(t, d)
		d.Status = appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 1}
		if err := harness.Client(t).Status().Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"dynamo.nvidia.com", "dynamo-operator-namespace-scope"} {
			lease(t, both[i], name)
		}
	}
	_, found := look(t, admin, both[0])
	want := fmt.Sprintf("ok: %[1]s/dynamo-operator (dynamo-operator:1.2.3) for namespace %[1]s, %[2]s/dynamo-operator (dynamo-operator:1.2.3) for namespace %[2]s",
		min(both[0], both[1]), max(both[0], both[1]))
	if found[preflight.CheckOperators] != want {
		t.Errorf("got  %s\nwant %s", found[preflight.CheckOperators], want)
	}
}

func TestAClusterThatDoesNotAnswerIsAProblem(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"preflight", "dump"} {
		code, stdout, stderr := plugin(t, admin, command, "--context", "nowhere")
		if code != 1 || stdout != "" || !strings.HasPrefix(stderr, "error: find the cluster: ") {
			t.Errorf("%s: exit code %d, %q, %q", command, code, stdout, stderr)
		}
	}
	code, _, stderr := plugin(t, admin, "preflight", "-o", "wide")
	if want := "error: --output \"wide\" is not one of table, json\nSee 'kubectl dynamo preflight --help' for usage.\n"; code != 2 || stderr != want {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}
