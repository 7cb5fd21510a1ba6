// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"flag"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/config"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// Pod is a process that runs as a pod of the Deployment would: with its command line, environment, mounts and account. Where a pod
// has a file system and a network of its own, the process has a directory and ports of its own.
type Pod struct {
	*harness.Process

	// Services are those that it is behind, sorted.
	Services []string

	t         testing.TB
	namespace string
	origin
	spec   corev1.PodSpec
	labels map[string]string
	// root stands for the root of the file system, and files are what is mounted there, by their paths.
	root  string
	files map[string][]byte
	// ip is where it listens, and ports are those that stand for the ports of the container.
	ip    string
	ports map[string]int32
	// webhooks, metrics and health are the addresses that stand for those that it was told to listen on, empty for none.
	webhooks, metrics, health string
	// left tells what came of leaving the Services.
	left <-chan error
}

// origin is what a pod is made from besides its Deployment.
type origin struct {
	revision string
	hasty    bool
	binary   string
}

// Binary is the program that a pod runs.
func (p *Pod) Binary() string { return p.binary }

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
		root: t.TempDir(), files: map[string][]byte{}, ip: outside(t), ports: map[string]int32{},
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
	environment, args := p.commandLine()
	p.read()
	c := p.settings(args)
	p.listen(c)
	p.write(c, args)
	p.start(environment, args, c.RestrictedNamespace)
	p.serve()
	return p
}

func (p *Pod) container() corev1.Container { return p.spec.Containers[0] }

// commandLine are the environment of the container and its arguments, expanded as a kubelet does.
func (p *Pod) commandLine() (environment, args []string) {
	fields := map[string]string{"metadata.namespace": p.namespace, "metadata.uid": string(uuid.NewUUID())}
	var expand []string
	for _, e := range p.container().Env {
		value := e.Value
		if e.ValueFrom != nil {
			value = fields[e.ValueFrom.FieldRef.FieldPath]
		}
		environment = append(environment, e.Name+"="+value)
		expand = append(expand, "$("+e.Name+")", value)
	}
	for _, a := range p.container().Args {
		args = append(args, strings.NewReplacer(expand...).Replace(a))
	}
	return environment, args
}

// settings are what the operator makes of its command line and the file that it names.
func (p *Pod) settings(args []string) *config.Config {
	p.t.Helper()
	c, err := config.Load(flag.NewFlagSet("operator", flag.ContinueOnError), args, func(path string) ([]byte, error) {
		content, ok := p.files[path]
		if !ok {
			return nil, fmt.Errorf("nothing is mounted at %s", path)
		}
		return content, nil
	})
	if err != nil {
		p.t.Fatalf("the operator would not start: %v", err)
	}
	return c
}

// listen finds addresses in place of those that the operator was told. Whatever it listens on has to be a port of the container.
func (p *Pod) listen(c *config.Config) {
	p.t.Helper()
	webhooks := ""
	if c.Webhooks.Enabled {
		webhooks = fmt.Sprintf(":%d", c.Webhooks.Port)
	}
	for _, at := range []struct {
		told string
		into *string
	}{{webhooks, &p.webhooks}, {c.Metrics.BindAddress, &p.metrics}, {c.HealthProbeBindAddress, &p.health}} {
		if at.told == "" || at.told == "0" {
			continue
		}
		declared := slices.IndexFunc(p.container().Ports, func(c corev1.ContainerPort) bool { return fmt.Sprintf(":%d", c.ContainerPort) == at.told })
		if declared < 0 {
			p.t.Fatalf("the operator listens on %s, which is no port of its container", at.told)
		}
		*at.into = fmt.Sprintf("%s:%d", p.ip, p.ports[p.container().Ports[declared].Name])
	}
}

// start starts the process.
func (p *Pod) start(environment, args []string, only string) {
	p.t.Helper()
	flags := make([]string, len(args))
	for i := range args {
		flags[i] = p.inside(args[i])
	}
	// The last one of two equal flags wins.
	for name, address := range map[string]string{"--metrics-bind-address=": p.metrics, "--health-probe-bind-address=": p.health} {
		if address != "" {
			flags = append(flags, name+address)
		}
	}
	p.Process = harness.StartProcess(p.t, harness.ProcessOptions{
		User: Account(p.namespace, p.spec), Namespace: only, Kubeconfig: p.credentials(), Binary: p.binary,
		Health: p.health, Metrics: p.metrics, Flags: flags, Env: environment,
	})
}

func (p *Pod) get(name string, object client.Object) error {
	if err := harness.Client(p.t).Get(p.t.Context(), client.ObjectKey{Namespace: p.namespace, Name: name}, object); err != nil {
		return fmt.Errorf("a pod would wait for %s: %w", name, err)
	}
	return nil
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
