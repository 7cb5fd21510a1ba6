// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kubediscovery

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/mockengine"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/offline"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// image builds the program and links it under the names that commands of manifests have, as an image of it does.
func image(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	// Without what debuggers read, linking takes half the time.
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", filepath.Join(dir, "mocker"), "github.com/dynamo-operator/dynamo-operator/cmd/mocker")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v: %s", err, said)
	}
	for _, name := range []string{"python3", "sh"} {
		if err := os.Symlink("mocker", filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// kubelet runs the pods that a graph leads to as processes of this machine, under the account that they name.
type kubelet struct {
	*stage
	image string
	// kubeconfig is what a pod finds mounted.
	kubeconfig string
	services   map[string]*corev1.Service
	// where maps the addresses of pods to those of their processes.
	where []string
	pods  int
}

// deploy renders an example as the operator does and creates what its pods need.
func deploy(t *testing.T, example, image string) (*kubelet, []*appsv1.Deployment) {
	t.Helper()
	k := &kubelet{
		stage: &stage{t: t, namespace: harness.Namespace(t), addresses: map[string]string{}}, image: image, services: map[string]*corev1.Service{},
	}
	content, err := os.ReadFile(filepath.Join("../../../examples", example))
	if err != nil {
		t.Fatal(err)
	}
	documents, problems := offline.Read(offline.File{Name: example, Content: content, Namespace: k.namespace})
	operator := offline.DefaultOperator()
	operator.Orchestrator = offline.Deployment
	objects, more := offline.Objects(documents, operator)
	if len(problems)+len(more) > 0 {
		t.Fatalf("render %s: %v %v", example, problems, more)
	}
	var deployments []*appsv1.Deployment
	for _, obj := range objects {
		switch obj.GetKind() {
		case "ServiceAccount", "Role", "RoleBinding":
			obj.SetOwnerReferences(nil) // there is no graph, only what is made for it
			k.create(obj)
		case "Service":
			s := typed[corev1.Service](t, obj)
			k.services[s.Name] = s
		case "Deployment":
			deployments = append(deployments, typed[appsv1.Deployment](t, obj))
		}
	}
	// A front end is told where the others are, which in a cluster it would not have to be.
	slices.SortStableFunc(deployments, func(a, b *appsv1.Deployment) int { return cmp.Compare(order(a), order(b)) })
	k.login(documents[0].Object.GetName())
	return k, deployments
}

func order(d *appsv1.Deployment) int {
	if d.Spec.Template.Labels[names.LabelComponentType] == "frontend" {
		return 1
	}
	return 0
}

func typed[T any](t *testing.T, obj *unstructured.Unstructured) *T {
	t.Helper()
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, into); err != nil {
		t.Fatalf("read %s %s: %v", obj.GetKind(), obj.GetName(), err)
	}
	return into
}

// login writes a kubeconfig with the token of the graph's account.
func (k *kubelet) login(graph string) {
	k.t.Helper()
	k.config = accountConfig(k.t, k.namespace, graph)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: k.config.Host, CertificateAuthorityData: k.config.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: k.config.BearerToken}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	k.kubeconfig = filepath.Join(k.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, k.kubeconfig); err != nil {
		k.t.Fatal(err)
	}
}

// run starts a pod of a Deployment, waits until it is ready by its own probe, and returns the address of its process.
func (k *kubelet) run(d *appsv1.Deployment) (pod *corev1.Pod, address string) {
	k.t.Helper()
	k.pods++
	pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: fmt.Sprintf("%s-%d", d.Name, k.pods), Labels: d.Spec.Template.Labels},
		Spec:       d.Spec.Template.Spec,
	}
	k.create(pod)
	container := pod.Spec.Containers[0]
	address = harness.UnusedAddress(k.t)
	name := k.namespace + "-" + pod.Name
	argv := slices.Concat(container.Command, container.Args)
	ctx := k.t.Context()
	err := harness.Cluster(k.t).StartProcess(ctx, localcluster.ProcessOptions{
		Name: name, Path: filepath.Join(k.image, filepath.Base(argv[0])), Args: argv[1:], Env: k.environment(pod, address),
		ReadyURL: "http://" + address + container.ReadinessProbe.HTTPGet.Path,
	})
	k.t.Cleanup(func() {
		if err := harness.Cluster(k.t).Kill(name); err != nil {
			k.t.Errorf("kill pod %s: %v", pod.Name, err)
		}
	})
	if err != nil {
		k.t.Fatalf("run pod %s: %v\n%s", pod.Name, err, localcluster.LogTail(harness.Cluster(k.t).LogPath(name), 20))
	}
	return pod, address
}

// environment is that of the container, with a port of the loopback in place of the one of its pod.
func (k *kubelet) environment(pod *corev1.Pod, address string) []string {
	_, port, _ := net.SplitHostPort(address)
	env := []string{"KUBECONFIG=" + k.kubeconfig, "MOCK_CLOCK=virtual", "MOCK_ADDRESS_MAP=" + strings.Join(k.where, ",")}
	fields := map[string]string{"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "metadata.uid": string(pod.UID)}
	for _, v := range pod.Spec.Containers[0].Env {
		switch {
		case v.Name == "DYN_SYSTEM_PORT", v.Name == "DYN_HTTP_PORT":
			env = append(env, v.Name+"="+port)
		case v.ValueFrom != nil:
			env = append(env, v.Name+"="+fields[v.ValueFrom.FieldRef.FieldPath])
		default:
			env = append(env, v.Name+"="+v.Value)
		}
	}
	return append(env, "DYN_SYSTEM_HOST=127.0.0.1", "DYN_HTTP_HOST=127.0.0.1")
}

// expose makes the EndpointSlice that the Service of a component leads to.
func (k *kubelet) expose(d *appsv1.Deployment, pods []*corev1.Pod, addresses []string) {
	k.t.Helper()
	service := k.services[d.Name]
	if service == nil {
		k.t.Fatalf("Deployment %s has no Service", d.Name)
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: k.namespace, Name: d.Name + "-1", Labels: service.Labels},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new(service.Spec.Ports[0].Name), Port: new(service.Spec.Ports[0].Port)}},
	}
	for i, pod := range pods {
		ip := fmt.Sprintf("10.7.%d.%d", len(k.where), i+1)
		slice.Endpoints = append(slice.Endpoints, endpoint(pod.Name, string(pod.UID), ip))
		k.where = append(k.where, fmt.Sprintf("%s:%d=%s", ip, service.Spec.Ports[0].Port, addresses[i]))
	}
	k.create(slice)
}

func TestAnExampleRunsWithOnlyItsImageReplaced(t *testing.T) {
	t.Parallel()
	programs := image(t)
	t.Run("examples", func(t *testing.T) {
		for _, example := range []string{"vllm/disagg.yaml", "sglang/agg.yaml", "trtllm/disagg.yaml"} {
			t.Run(example, func(t *testing.T) {
				t.Parallel()
				k, deployments := deploy(t, example, programs)
				workers, frontend := map[string]string{}, "" // workers by name
				for _, d := range deployments {
					var pods []*corev1.Pod
					var addresses []string
					for range ptr.Deref(d.Spec.Replicas, 1) {
						pod, address := k.run(d)
						pods, addresses = append(pods, pod), append(addresses, address)
					}
					k.expose(d, pods, addresses)
					for i, address := range addresses {
						workers[pods[i].Name], frontend = "http://"+address, "http://"+address
					}
					if order(d) == 1 {
						delete(workers, pods[0].Name)
					}
				}
				awaitModels(t, frontend, "Qwen/Qwen3-0.6B")
				askEach(t, frontend, workers)
			})
		}
	})
}

// askEach asks a front end often enough for every worker to have a turn, in which both halves of a disaggregated graph take
// part.
func askEach(t *testing.T, frontend string, workers map[string]string) {
	t.Helper()
	harness.Eventually(t, patience, "a front end that knows all workers", func() (bool, string) {
		var health struct{ Instances int }
		call(t, http.MethodGet, frontend+"/health", "", &health)
		return health.Instances == len(workers), fmt.Sprintf("it knows %d of %d", health.Instances, len(workers))
	})
	for range 8 {
		var said struct {
			Choices []struct{ Message struct{ Content string } }
		}
		code := call(t, http.MethodPost, frontend+"/v1/chat/completions",
			`{"model":"Qwen/Qwen3-0.6B","messages":[{"role":"user","content":"hi"}],"max_tokens":2}`, &said)
		if code != http.StatusOK || len(said.Choices) != 1 || said.Choices[0].Message.Content != "token-0 token-1" {
			t.Fatalf("%d %+v", code, said)
		}
	}
	for name, address := range workers {
		var state mockengine.State
		call(t, http.MethodGet, address+"/mock/state", "", &state)
		if state.Counters.Requests["Qwen/Qwen3-0.6B"] == 0 {
			t.Errorf("%s, a worker for %s, did nothing", name, state.Role)
		}
	}
}
