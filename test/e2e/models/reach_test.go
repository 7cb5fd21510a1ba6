// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/mockengine"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// run starts the mock engine as a process, with the account of the graph, and returns where it listens.
func (w *ward) run(name string, environment map[string]string, args ...string) string {
	w.Helper()
	address := harness.UnusedAddress(w.T)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		w.Fatal(err)
	}
	env := []string{
		"KUBECONFIG=" + w.kubeconfig(), "POD_NAMESPACE=" + w.namespace, "POD_NAME=" + name, "DYN_NAMESPACE=" + w.namespace + "-chat",
		"DYN_DISCOVERY_BACKEND=" + names.DiscoveryKubernetes, "DYN_SYSTEM_PORT=" + port, "DYN_SYSTEM_HOST=" + host, "DYN_HTTP_PORT=" + port,
		"DYN_HTTP_HOST=" + host,
	}
	for key, value := range environment {
		env = append(env, key+"="+value)
	}
	cluster := harness.Cluster(w.T)
	err = cluster.StartProcess(w.Context(), localcluster.ProcessOptions{
		Name: w.namespace + "-" + name, Path: harness.Program(w.T, "mocker"), Args: args, Env: env, ReadyURL: "http://" + address + "/live",
	})
	w.Cleanup(func() {
		if err := cluster.Kill(w.namespace + "-" + name); err != nil {
			w.Error(err)
		}
	})
	if err != nil {
		w.Fatal(err)
	}
	return address
}

// kubeconfig writes the account of the graph to a file.
func (w *ward) kubeconfig() string {
	w.Helper()
	account := w.account()
	config := clientcmdapi.NewConfig()
	config.Clusters["local"] = &clientcmdapi.Cluster{Server: account.Host, CertificateAuthorityData: account.CAData}
	config.AuthInfos["graph"] = &clientcmdapi.AuthInfo{Token: account.BearerToken}
	config.Contexts["graph"] = &clientcmdapi.Context{Cluster: "local", AuthInfo: "graph"}
	config.CurrentContext = "graph"
	path := filepath.Join(w.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		w.Fatal(err)
	}
	return path
}

// adapters are those that an engine says it has.
func adapters(t *testing.T, address string) map[string]int64 {
	t.Helper()
	answer, err := http.Get("http://" + address + "/mock/state") //nolint:gosec,noctx // an address of the test's own
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var state mockengine.State
	if err := json.NewDecoder(answer.Body).Decode(&state); err != nil {
		t.Fatal(err)
	}
	return state.Adapters
}

// chat asks a front end for an answer of a model, and returns the code and what it said.
func chat(t *testing.T, frontend, model string) (int, string) {
	t.Helper()
	body := fmt.Sprintf(`{"model":%q,"max_tokens":4,"messages":[{"role":"user","content":"hello"}]}`, model)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, frontend+"/v1/chat/completions", bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(text)
}

// soon is how long users wait for an adapter whose worker has it at once.
const soon = 2 * time.Second

// It is not parallel: the time that it measures is the product's only while no other test loads the cores.
func TestAnAdapterCanBeReachedSoonAfterItsModelIsMade(t *testing.T) {
	w := &ward{T: t, namespace: harness.Namespace(t), engines: map[string]*engine{}}
	// Prompts are read by one kind of worker and answered by another. Both need the adapter.
	w.startOperator()
	w.create(builders.Graph(w.namespace, "chat").
		Service("Frontend", v1alpha1.ComponentTypeFrontend).
		Service("Prefill", v1alpha1.ComponentTypePrefill, builders.Args("python3 -m dynamo.vllm --is-prefill-worker"), builders.Replicas(2), serving).
		Service("Decode", v1alpha1.ComponentTypeDecode, builders.Args("python3 -m dynamo.vllm"), builders.Replicas(2), serving).Obj())
	harness.AwaitReady(t, w.namespace, "chat")
	var places []string
	for _, pod := range w.pods() {
		address := w.run(pod.Name, map[string]string{"POD_UID": string(pod.UID), "DYN_COMPONENT": pod.Labels[names.LabelComponentType]},
			"worker", "--model", base)
		w.engines[pod.Status.PodIP] = &engine{pod: pod.Name, address: address}
		places = append(places, net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(names.PortSystemNumber))+"="+address)
	}
	if len(places) != 4 {
		t.Fatalf("%d pods", len(places))
	}
	frontend := "http://" + w.run("chat-frontend", nil, "frontend", "--mock-address-map", strings.Join(places, ","))
	harness.Eventually(t, patience, "the base model answers", func() (bool, string) {
		code, text := chat(t, frontend, base)
		return code == http.StatusOK, text
	})
	if code, text := chat(t, frontend, "acme/sql"); code != http.StatusNotFound {
		t.Fatalf("before there is a model: %d %s", code, text)
	}
	made := time.Now()
	w.create(w.adapter("sql", "s3://bucket/sql"))
	harness.Eventually(t, soon, "the adapter answers", func() (bool, string) {
		code, text := chat(t, frontend, "acme/sql")
		return code == http.StatusOK, text
	})
	t.Logf("the adapter answered %s after its model was made", time.Since(made).Round(time.Millisecond))
	w.awaitReady("sql")
	for _, e := range w.all() {
		if has := adapters(t, e.address); len(has) != 1 {
			t.Errorf("%s has %v", e.pod, has)
		}
	}
	deleted := time.Now()
	w.remove("sql")
	harness.Eventually(t, soon, "the adapter is gone", func() (bool, string) {
		code, text := chat(t, frontend, "acme/sql")
		return code == http.StatusNotFound, text
	})
	t.Logf("the adapter was gone %s after its model was deleted", time.Since(deleted).Round(time.Millisecond))
	w.awaitGone("sql", patience)
}

func TestManyAdaptersConvergeOnManyEndpointsThatFailAtRandom(t *testing.T) {
	t.Parallel()
	const endpoints, adapters = 50, 20
	w := newWard(t, endpoints)
	for i, e := range w.all() {
		e.Faults().Seed(uint64(i))
		e.Faults().Set(
			mockengine.Fault{On: mockengine.OnLoad, Kind: mockengine.FaultError, Probability: .03, Message: "out of luck"},
			mockengine.Fault{On: mockengine.OnLoad, Kind: mockengine.FaultStatus, Status: http.StatusInternalServerError, Probability: .03},
			mockengine.Fault{On: mockengine.OnLoad, Kind: mockengine.FaultReset, Probability: .04, Late: true},
			mockengine.Fault{On: mockengine.OnList, Kind: mockengine.FaultReset, Probability: .1},
		)
	}
	began := time.Now()
	for i := range adapters {
		w.create(w.adapter(fmt.Sprintf("a%02d", i), "s3://bucket/any"))
	}
	for i := range adapters {
		name := fmt.Sprintf("a%02d", i)
		w.await(name, "ready everywhere", func(m *v1alpha1.DynamoModel) bool { return m.Status.ReadyEndpoints == endpoints })
	}
	t.Logf("%d adapters were on %d endpoints after %s", adapters, endpoints, time.Since(began).Round(time.Millisecond))
	struck, twice := 0, 0
	for _, e := range w.all() {
		for name, n := range e.Counters().Loads {
			if n != 1 {
				twice++
				t.Errorf("%s loaded %s %d times", e.pod, name, n)
			}
		}
		if len(e.Loaded()) != adapters {
			t.Errorf("%s has %d adapters", e.pod, len(e.Loaded()))
		}
		for _, f := range e.Faults().List() {
			struck += f.Struck
		}
	}
	t.Logf("%d faults struck; %d adapters were loaded twice on one pod", struck, twice)
	if struck < endpoints {
		t.Errorf("only %d faults struck, so that nothing is proved", struck)
	}
}
