// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// webhookPort is what the operator's container calls the port of its webhooks, whose number is in the configuration.
const webhookPort = "webhook-server"

// Pod is a process that runs as a pod of the Deployment would: with its command line, environment, mounts and account. Where a pod
// has a file system and a network of its own, the process has a directory and ports of its own.
type Pod struct {
	*harness.Process

	t         testing.TB
	namespace string
	origin
	spec   corev1.PodSpec
	labels map[string]string
	// root stands for the root of the file system.
	root string
	// ip is where it listens, and ports are those that stand for the ports of the container.
	ip    string
	ports map[string]int32
}

// origin is what a pod is made from besides its Deployment.
type origin struct {
	revision string
	hasty    bool
}

// haste is what a hasty pod has in its configuration.
func haste() map[string]any {
	return map[string]any{
		"webhooks.drainPeriod": "1s", "leaderElection.leaseDuration": "6s", "leaderElection.renewDeadline": "4s", "leaderElection.retryPeriod": "1s",
	}
}

// Account is the name of the account that the pods of a Deployment run under, as the API server knows it.
func Account(namespace string, spec corev1.PodSpec) string {
	return "system:serviceaccount:" + namespace + ":" + spec.ServiceAccountName
}

// outside is an address of this machine that is not the loopback, which no EndpointSlice may name.
func outside(t testing.TB) string {
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

// startPod starts a pod, waits until it is ready and puts it behind its Services.
func startPod(t testing.TB, d *appsv1.Deployment, from origin) *Pod {
	t.Helper()
	p := &Pod{
		t: t, namespace: d.Namespace, origin: from, spec: d.Spec.Template.Spec, labels: d.Spec.Template.Labels,
		root: t.TempDir(), ip: outside(t), ports: map[string]int32{},
	}
	for _, c := range p.container().Ports {
		listener, err := net.Listen("tcp", net.JoinHostPort(p.ip, "0"))
		if err != nil {
			t.Fatal(err)
		}
		p.ports[c.Name] = int32(listener.Addr().(*net.TCPAddr).Port)
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
	}
	p.mount()
	p.start()
	p.serve()
	return p
}

func (p *Pod) container() corev1.Container { return p.spec.Containers[0] }

func (p *Pod) address(name string) string { return fmt.Sprintf("%s:%d", p.ip, p.ports[name]) }

// inside is a text with paths of mounts, as the process has to be told them.
func (p *Pod) inside(text string) string {
	var pairs []string
	for _, m := range p.container().VolumeMounts {
		pairs = append(pairs, m.MountPath, p.root+m.MountPath)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

func (p *Pod) get(name string, object client.Object) error {
	if err := harness.Client(p.t).Get(p.t.Context(), client.ObjectKey{Namespace: p.namespace, Name: name}, object); err != nil {
		return fmt.Errorf("a pod would wait for %s: %w", name, err)
	}
	return nil
}

// mount writes the volumes of the container.
func (p *Pod) mount() {
	p.t.Helper()
	for _, m := range p.container().VolumeMounts {
		at := slices.IndexFunc(p.spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if at < 0 {
			p.t.Fatalf("there is no volume %s to mount at %s", m.Name, m.MountPath)
		}
		content, err := p.content(p.spec.Volumes[at])
		if err != nil {
			p.t.Fatal(err)
		}
		if err := os.MkdirAll(p.root+m.MountPath, 0o700); err != nil {
			p.t.Fatal(err)
		}
		for name, text := range content {
			if err := os.WriteFile(filepath.Join(p.root+m.MountPath, name), text, 0o600); err != nil {
				p.t.Fatal(err)
			}
		}
	}
}

// content are the files of a volume.
func (p *Pod) content(v corev1.Volume) (map[string][]byte, error) {
	switch {
	case v.ConfigMap != nil:
		c := &corev1.ConfigMap{}
		if err := p.get(v.ConfigMap.Name, c); err != nil {
			return nil, err
		}
		files := map[string][]byte{}
		for name, text := range c.Data {
			usable, err := p.configuration(text)
			if err != nil {
				return nil, fmt.Errorf("key %s of ConfigMap %s: %w", name, c.Name, err)
			}
			files[name] = usable
		}
		return files, nil
	case v.Secret != nil:
		s := &corev1.Secret{}
		err := p.get(v.Secret.SecretName, s)
		if optional := v.Secret.Optional; optional != nil && *optional && client.IgnoreNotFound(err) == nil {
			return s.Data, nil
		}
		return s.Data, err
	default:
		return nil, fmt.Errorf("volume %s is neither a ConfigMap nor a Secret", v.Name)
	}
}

// configuration is what is mounted, with paths and the port of the webhooks that the process can use.
func (p *Pod) configuration(text string) ([]byte, error) {
	members := map[string]any{}
	if err := yaml.Unmarshal([]byte(p.inside(text)), &members); err != nil {
		return nil, err
	}
	changes := map[string]any{}
	if p.hasty {
		maps.Copy(changes, haste())
	}
	if port, ok := p.ports[webhookPort]; ok {
		changes["webhooks.bindAddress"], changes["webhooks.port"] = p.ip, int64(port)
	}
	for path, value := range changes {
		if err := unstructured.SetNestedField(members, value, strings.Split(path, ".")...); err != nil {
			return nil, err
		}
	}
	return yaml.Marshal(members)
}

// arguments are those of the container, expanded as a kubelet does, with addresses in place of the ports of the container.
func (p *Pod) arguments(expand []string) []string {
	args := slices.Clone(p.container().Args)
	for i := range args {
		args[i] = p.inside(strings.NewReplacer(expand...).Replace(args[i]))
		for _, c := range p.container().Ports {
			if flag, ok := strings.CutSuffix(args[i], fmt.Sprintf("=:%d", c.ContainerPort)); ok {
				args[i] = flag + "=" + p.address(c.Name)
			}
		}
	}
	return args
}

// start starts the process.
func (p *Pod) start() {
	p.t.Helper()
	fields := map[string]string{"metadata.namespace": p.namespace, "metadata.uid": string(uuid.NewUUID())}
	var environment, expand []string
	for _, e := range p.container().Env {
		value := e.Value
		if e.ValueFrom != nil {
			value = fields[e.ValueFrom.FieldRef.FieldPath]
		}
		environment = append(environment, e.Name+"="+value)
		expand = append(expand, "$("+e.Name+")", value)
	}
	args, only := p.arguments(expand), harness.ClusterWide
	for _, a := range args {
		if namespace, ok := strings.CutPrefix(a, "--restrictedNamespace="); ok {
			only = namespace
		}
	}
	p.Process = harness.StartProcess(p.t, harness.ProcessOptions{
		User: Account(p.namespace, p.spec), Namespace: only, Kubeconfig: p.credentials(),
		Health: p.address("health"), Metrics: p.address("https"), Flags: args, Env: environment,
	})
}

// credentials are those of the account, as a pod has them: a token, and whom to trust.
func (p *Pod) credentials() string {
	p.t.Helper()
	account := &corev1.ServiceAccount{}
	if err := p.get(p.spec.ServiceAccountName, account); err != nil {
		p.t.Fatal(err)
	}
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
