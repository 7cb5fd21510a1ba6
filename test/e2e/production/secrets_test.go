// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package production_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// planted begins every secret of this story; what follows tells where it was.
const planted = "planted-"

// showsNone fails if a text holds a secret.
func showsNone(t *testing.T, where, text string) {
	t.Helper()
	if at := strings.Index(text, planted); at >= 0 {
		t.Errorf("a secret is in %s: %s", where, text[max(0, at-300):min(len(text), at+40)])
	}
}

// collector takes traces and keeps them as they came.
func collector(t *testing.T) (url string, taken func() string) {
	t.Helper()
	var mu sync.Mutex
	var all strings.Builder
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.Copy(&all, r.Body)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() string {
		mu.Lock()
		defer mu.Unlock()
		return all.String()
	}
}

// plantSecrets makes a pull secret and a key pair of mpirun.
func plantSecrets(t *testing.T, ns string) {
	t.Helper()
	for name, secret := range map[string]*corev1.Secret{
		"pull": {Type: corev1.SecretTypeDockerConfigJson, StringData: map[string]string{
			corev1.DockerConfigJsonKey: `{"auths":{"example.com":{"username":"u","password":"` + planted + `password"}}}`,
		}},
		"strange": {Type: corev1.SecretTypeDockerConfigJson, StringData: map[string]string{corev1.DockerConfigJsonKey: `{"auths":"` + planted + `auths"}`}},
		"mpi-run-ssh-secret": {StringData: map[string]string{
			names.SSHPrivateKey: planted + "key", names.SSHPublicKey: planted + "public-key", // no secret, and nobody's business all the same
		}},
	} {
		secret.ObjectMeta = metav1.ObjectMeta{Namespace: ns, Name: name}
		if err := harness.Client(t).Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
}

// withSecret is a graph with a secret in its environment.
func withSecret(b *builders.GraphBuilder) *v1alpha1.DynamoGraphDeployment {
	g := b.Obj()
	g.Spec.Envs = []corev1.EnvVar{{Name: "TOKEN", Value: planted + "graph"}}
	for _, s := range g.Spec.Services {
		s.Envs = []corev1.EnvVar{{Name: "OTHER", Value: planted + "service"}}
	}
	return g
}

// startUnderWatch starts an operator that is told secrets, and has everything on that could tell them further.
func startUnderWatch(t *testing.T, ns, traces string) (p *harness.Process, token string) {
	t.Helper()
	authority, directory, address := newIssuer(t), t.TempDir(), harness.UnusedAddress(t)
	authority.mount(t, directory)
	register(t, authority, address, ns, &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ns}})
	token = planted + "token"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return harness.StartProcess(t, harness.ProcessOptions{User: "operator-" + ns, Namespace: ns, Flags: []string{"--config=" + configFile(t, fmt.Sprintf(`
natsAddress: nats://user:%[1]snats@nats:4222
etcdAddress: http://root:%[1]setcd@%[2]s
modelExpressURL: https://h/?key=%[1]surl
tracing: {endpoint: %[3]q}
metrics: {secure: true, bearerTokenFile: %[4]s}
webhooks: {enabled: true, bindAddress: 127.0.0.1, port: %[5]d, certificates: {source: files, directory: %[6]s}}
namespaceScope: {disabled: true}
logging: {development: false, level: "5"}
`, planted, harness.UnusedAddress(t), traces, file, port(t, address), directory))}}), token
}

func TestSecretsAreShownNowhere(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	sets, err := localcluster.ModuleCRDs(t.Context(), "sigs.k8s.io/lws@v0.8.0", "config/crd/bases/*leaderworkersets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	harness.InstallCRDs(t, sets...) // without which no graph needs a key pair
	plantSecrets(t, ns)
	traces, taken := collector(t)
	p, token := startUnderWatch(t, ns, traces)
	for _, bearer := range []string{token, planted + "stranger"} {
		_, text := scrape(t, "https://"+p.Metrics+"/metrics", bearer)
		showsNone(t, "the metrics", text)
	}
	quiet := withSecret(builders.Graph(ns, "quiet").Annotation(names.AnnotationDiscoveryBackend, names.DiscoveryEtcd).
		Service("Frontend", v1alpha1.ComponentTypeFrontend))
	keyed := withSecret(builders.Graph(ns, "keyed").
		Service("Worker", v1alpha1.ComponentTypeWorker, builders.Args("python3 -m dynamo.trtllm --model acme/tiny-1b"), builders.Nodes(2)))
	for _, g := range []*v1alpha1.DynamoGraphDeployment{quiet, keyed} {
		if err := harness.Client(t).Create(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	harness.AwaitReady(t, ns, "quiet")
	bad := withSecret(builders.Graph(ns, "bad").Service("Frontend", v1alpha1.ComponentTypeFrontend))
	bad.Spec.Services["frontend"] = bad.Spec.Services["Frontend"] // which no schema forbids
	if err := harness.Client(t).Create(t.Context(), bad); !apierrors.IsForbidden(err) {
		t.Errorf("a wrong graph: %v, want it refused by the webhook", err)
	}
	awaitSet(t, ns, "keyed-worker-0")
	if err := harness.Client(t).Delete(t.Context(), quiet.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	component := &v1alpha1.DynamoComponentDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "quiet-frontend"}}
	if err := client.IgnoreNotFound(harness.Client(t).Delete(t.Context(), component)); err != nil { // which nobody collects here
		t.Fatal(err)
	}
	told := awaitEvent(t, ns, "does not answer")
	p.Stop()
	if sent := taken(); !strings.Contains(sent, "reconcile DynamoGraphDeployment") {
		t.Errorf("no traces came: %q", sent)
	}
	showsNone(t, "the traces", taken())
	showsNone(t, "the log", p.Log())
	showsNone(t, "the events", told)
	showsNone(t, "a status", statuses(t, ns))
}

// awaitSet waits for a LeaderWorkerSet, by its name alone.
func awaitSet(t *testing.T, ns, name string) {
	t.Helper()
	set := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "leaderworkerset.x-k8s.io/v1", Kind: "LeaderWorkerSet"}}
	harness.Eventually(t, time.Minute, "LeaderWorkerSet "+name, func() (bool, string) {
		err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, set)
		return err == nil, fmt.Sprint(err, statuses(t, ns))
	})
}

// awaitEvent waits for an event that says something, and returns all there are.
func awaitEvent(t *testing.T, ns, what string) string {
	t.Helper()
	var all []byte
	harness.Eventually(t, time.Minute, "an event with "+what, func() (bool, string) {
		events := &eventsv1.EventList{}
		if err := harness.Client(t).List(t.Context(), events, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
		var err error
		if all, err = json.Marshal(events); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(all), what), string(all)
	})
	return string(all)
}

// statuses are those of all graphs and components.
func statuses(t *testing.T, ns string) string {
	t.Helper()
	graphs, components := &v1alpha1.DynamoGraphDeploymentList{}, &v1alpha1.DynamoComponentDeploymentList{}
	for _, list := range []client.ObjectList{graphs, components} {
		if err := harness.Client(t).List(t.Context(), list, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
	}
	var all []any
	for _, g := range graphs.Items {
		all = append(all, g.Status)
	}
	for _, c := range components.Items {
		all = append(all, c.Status)
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// authorityKeys are the private keys of the authorities that are stored now, each without its first and last line.
func authorityKeys(t *testing.T) []string {
	t.Helper()
	var state struct {
		Authorities []struct {
			Key string `json:"key"`
		} `json:"authorities"`
	}
	if err := json.Unmarshal(authority(t).Data["authorities.json"], &state); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, a := range state.Authorities {
		if block, _ := pem.Decode([]byte(a.Key)); block != nil {
			keys = append(keys, strings.Split(a.Key, "\n")[1])
		}
	}
	if len(keys) == 0 {
		t.Error("no authority has a key")
	}
	return keys
}

// keepsKeys fails if the log of a replica holds the private key of an authority.
func keepsKeys(t *testing.T, keys []string, all ...*harness.Replica) {
	t.Helper()
	for _, r := range all {
		log := r.Log()
		for _, key := range keys {
			if strings.Contains(log, key) || strings.Contains(log, "PRIVATE KEY") {
				t.Errorf("the log of %s holds the key of an authority", r.Name)
			}
		}
	}
}
