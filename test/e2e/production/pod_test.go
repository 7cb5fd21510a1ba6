// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package production_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/config"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// pod is a process that runs as a pod of the shipped Deployment would: with its command line, environment, mounts and account.
// Where a pod has a file system and a network of its own, the process has a directory and ports of its own.
type pod struct {
	*harness.Process

	t         *testing.T
	namespace string
	spec      corev1.PodSpec
	labels    map[string]string
	// root stands for the root of the file system.
	root string
	// ip is where it listens, and ports are those that stand for the ports of the container.
	ip    string
	ports map[string]int32
}

// outside is an address of this machine that is not the loopback, which no EndpointSlice may name.
func outside(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Fatal("this machine has no IPv4 address besides the loopback, so that nothing can stand behind a Service")
	return ""
}

// startPods starts what the Deployment in a namespace asks for.
func startPods(t *testing.T, namespace string) []*pod {
	t.Helper()
	d := &appsv1.Deployment{}
	if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "dynamo-operator"}, d); err != nil {
		t.Fatal(err)
	}
	var all []*pod
	for range *d.Spec.Replicas {
		p := &pod{
			t: t, namespace: namespace, spec: d.Spec.Template.Spec, labels: d.Spec.Template.Labels, root: t.TempDir(), ip: outside(t), ports: map[string]int32{},
		}
		for _, c := range p.spec.Containers[0].Ports {
			listener, err := net.Listen("tcp", net.JoinHostPort(p.ip, "0"))
			if err != nil {
				t.Fatal(err)
			}
			p.ports[c.Name] = int32(port(t, listener.Addr().String()))
			if err := listener.Close(); err != nil {
				t.Fatal(err)
			}
		}
		p.mount()
		p.start()
		p.serve()
		all = append(all, p)
	}
	return all
}

// inside is a path of the pod, or a text with such paths, as the process has to be told it.
func (p *pod) inside(text string) string { return strings.ReplaceAll(text, "/etc/", p.root+"/etc/") }

func (p *pod) get(name string, object client.Object) {
	p.t.Helper()
	if err := harness.Client(p.t).Get(p.t.Context(), client.ObjectKey{Namespace: p.namespace, Name: name}, object); err != nil {
		p.t.Fatalf("a pod would wait for %s: %v", name, err)
	}
}

// mount writes the volumes of the container, as a kubelet does.
func (p *pod) mount() {
	p.t.Helper()
	for _, m := range p.spec.Containers[0].VolumeMounts {
		content := map[string][]byte{}
		for _, v := range p.spec.Volumes {
			switch {
			case v.Name != m.Name:
			case v.ConfigMap != nil:
				c := &corev1.ConfigMap{}
				p.get(v.ConfigMap.Name, c)
				for name, text := range c.Data {
					content[name] = []byte(p.configuration(text))
				}
			case v.Secret != nil:
				s := &corev1.Secret{}
				p.get(v.Secret.SecretName, s) // whether or not it has to be there: the page makes it
				content = s.Data
			}
		}
		if len(content) == 0 || !strings.HasPrefix(m.MountPath, "/etc/") {
			p.t.Fatalf("nothing is mounted at %s", m.MountPath)
		}
		if err := os.MkdirAll(p.inside(m.MountPath), 0o700); err != nil {
			p.t.Fatal(err)
		}
		for name, text := range content {
			if err := os.WriteFile(filepath.Join(p.inside(m.MountPath), name), text, 0o600); err != nil {
				p.t.Fatal(err)
			}
		}
	}
}

// configuration is what is mounted, with paths and ports that the process can use. The ports that it names have to be those of
// the container.
func (p *pod) configuration(text string) string {
	p.t.Helper()
	c, errs, err := config.Decode([]byte(text))
	if err != nil || len(errs) > 0 {
		p.t.Fatalf("the configuration does not fit: %v %v", err, errs)
	}
	listens := map[string]string{
		"webhook": fmt.Sprintf(":%d", c.Webhooks.Port), "metrics": c.Metrics.BindAddress, "health": c.HealthProbeBindAddress,
	}
	for _, declared := range p.spec.Containers[0].Ports {
		if want := fmt.Sprintf(":%d", declared.ContainerPort); listens[declared.Name] != want {
			p.t.Errorf("the container declares %s as its port %s and listens on %s", want, declared.Name, listens[declared.Name])
		}
	}
	members := map[string]any{}
	if err := yaml.Unmarshal([]byte(p.inside(text)), &members); err != nil {
		p.t.Fatal(err)
	}
	for _, change := range []struct {
		value any
		at    []string
	}{
		{p.ip, []string{"webhooks", "bindAddress"}},
		{int64(p.ports["webhook"]), []string{"webhooks", "port"}},
		{p.address("metrics"), []string{"metrics", "bindAddress"}},
		{p.address("health"), []string{"healthProbeBindAddress"}},
	} {
		if err := unstructured.SetNestedField(members, change.value, change.at...); err != nil {
			p.t.Fatal(err)
		}
	}
	usable, err := yaml.Marshal(members)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(usable)
}

func (p *pod) address(name string) string { return fmt.Sprintf("%s:%d", p.ip, p.ports[name]) }

// start starts the process.
func (p *pod) start() {
	p.t.Helper()
	container := p.spec.Containers[0]
	fields := map[string]string{"metadata.namespace": p.namespace, "metadata.uid": string(uuid.NewUUID())}
	var environment, expand []string
	for _, e := range container.Env {
		value := e.Value
		if e.ValueFrom != nil {
			value = fields[e.ValueFrom.FieldRef.FieldPath]
		}
		environment = append(environment, e.Name+"="+value)
		expand = append(expand, "$("+e.Name+")", value)
	}
	args := make([]string, len(container.Args))
	for i, a := range container.Args {
		args[i] = p.inside(strings.NewReplacer(expand...).Replace(a))
	}
	only := harness.ClusterWide
	if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--restrictedNamespace=") }) {
		only = p.namespace
	}
	p.Process = harness.StartProcess(p.t, harness.ProcessOptions{
		User: "system:serviceaccount:" + p.namespace + ":" + p.spec.ServiceAccountName, Namespace: only, Kubeconfig: p.credentials(),
		Health: p.address("health"), Metrics: p.address("metrics"), Flags: args, Env: environment,
	})
}

// credentials are those of the account, as a pod has them: a token, and whom to trust.
func (p *pod) credentials() string {
	p.t.Helper()
	account := &corev1.ServiceAccount{}
	p.get(p.spec.ServiceAccountName, account)
	request := &authenticationv1.TokenRequest{}
	if err := harness.Client(p.t).SubResource("token").Create(p.t.Context(), account, request); err != nil {
		p.t.Fatal(err)
	}
	api := harness.RESTConfig(p.t, localcluster.UserAdmin)
	c := clientcmdapi.NewConfig()
	c.Clusters["here"] = &clientcmdapi.Cluster{Server: api.Host, CertificateAuthorityData: api.CAData, CertificateAuthority: api.CAFile}
	c.AuthInfos["account"] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	c.Contexts["pod"] = &clientcmdapi.Context{Cluster: "here", AuthInfo: "account"}
	c.CurrentContext = "pod"
	path := filepath.Join(p.root, "kubeconfig")
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// serve puts the process behind the Services that select its labels, as their controller does with a pod that is ready.
func (p *pod) serve() {
	p.t.Helper()
	services := &corev1.ServiceList{}
	if err := harness.Client(p.t).List(p.t.Context(), services, client.InNamespace(p.namespace)); err != nil {
		p.t.Fatal(err)
	}
	behind := 0
	for _, s := range services.Items {
		if len(s.Spec.Selector) == 0 || !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.labels)) {
			continue
		}
		behind++
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: s.Name + "-" + p.Name, Labels: map[string]string{discoveryv1.LabelServiceName: s.Name}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{p.ip}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}}, AddressType: discoveryv1.AddressTypeIPv4,
		}
		for _, at := range s.Spec.Ports {
			number, ok := p.ports[at.TargetPort.StrVal]
			if !ok {
				p.t.Errorf("Service %s leads to port %s, which the container does not have", s.Name, at.TargetPort.String())
			}
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &at.Name, Port: &number, Protocol: &at.Protocol})
		}
		if err := harness.Client(p.t).Create(p.t.Context(), slice); err != nil {
			p.t.Fatal(err)
		}
	}
	if behind != 2 {
		p.t.Errorf("the pod is behind %d Services, want those of the webhooks and of the metrics", behind)
	}
}

// leave takes the process from behind its Services, as their controller does with a pod that is told to end.
func (p *pod) leave() {
	p.t.Helper()
	behind := &discoveryv1.EndpointSliceList{}
	if err := harness.Client(p.t).List(p.t.Context(), behind, client.InNamespace(p.namespace)); err != nil {
		p.t.Fatal(err)
	}
	for i := range behind.Items {
		if !strings.HasSuffix(behind.Items[i].Name, "-"+p.Name) {
			continue
		}
		if err := harness.Client(p.t).Delete(p.t.Context(), &behind.Items[i]); err != nil {
			p.t.Fatal(err)
		}
	}
}
