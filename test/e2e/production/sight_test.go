// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package production_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// scrape asks for the metrics of a process with a token, and returns the code and the text of the answer.
func scrape(t *testing.T, url, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	// Nobody can verify a certificate that the operator made for itself.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true} //nolint:gosec // see above
	defer transport.CloseIdleConnections()
	var answer *http.Response
	// A listener of its own, it may come up a moment after the operator is ready.
	harness.Eventually(t, time.Minute, "an answer of "+url, func() (bool, string) {
		answer, err = (&http.Client{Transport: transport}).Do(req) //nolint:bodyclose // below
		return err == nil, fmt.Sprint(err)
	})
	defer func() { _ = answer.Body.Close() }()
	if answer.ProtoMajor != 1 {
		t.Errorf("metrics are served with %s", answer.Proto)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// tokenOf makes an account and returns a token for it.
func tokenOf(t *testing.T, ns, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	if err := harness.Client(t).Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{}
	if err := harness.Client(t).SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// idle keeps an operator of all namespaces from working in those of other tests, whose operators would find everything done.
const idle = "ignoredNamespaces: [\"*\"]\n"

func TestMetricsAreServedToThoseWhoMayReadThem(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	allowed, stranger := tokenOf(t, ns, "prometheus"), tokenOf(t, ns, "stranger")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "metrics-reader-" + ns},
		Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "prometheus"}}}
	for _, o := range []client.Object{role, binding} {
		if err := harness.Client(t).Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	p := harness.StartProcess(t, harness.ProcessOptions{User: "operator-metrics", Flags: []string{
		"--metrics-secure", "--leader-elect", "--leader-election-id=dynamo.nvidia.com", "--leader-election-namespace=" + ns, "--config=" + configFile(t, idle),
	}})
	for name, tc := range map[string]struct {
		token string
		code  int
	}{
		"with the right": {allowed, http.StatusOK}, "without the right": {stranger, http.StatusForbidden},
		"without a token": {"", http.StatusUnauthorized}, "with nonsense": {"nonsense", http.StatusForbidden},
	} {
		if code, text := scrape(t, "https://"+p.Metrics+"/metrics", tc.token); code != tc.code {
			t.Errorf("%s: answer %d, want %d: %.200s", name, code, tc.code, text)
		}
	}
	old := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11} //nolint:gosec // what must not work
	conn, err := tls.Dial("tcp", p.Metrics, old)
	if err == nil {
		_ = conn.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("a client that knows no more than TLS 1.1: %v, want it turned away for its version", err)
	}
}

func TestMetricsOfAnOperatorOfOneNamespaceAreServedToThoseWithTheToken(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := configFile(t, fmt.Sprintf("metrics: {secure: true, bearerTokenFile: %s}\nnamespaceScope: {leaseDuration: 2s, renewInterval: 1s}\n", file))
	p := harness.StartProcess(t, harness.ProcessOptions{User: "operator-" + ns, Namespace: ns, Flags: []string{"--config=" + config}})
	url := "https://" + p.Metrics + "/metrics"
	for token, want := range map[string]int{"first": http.StatusOK, "second": http.StatusForbidden, "": http.StatusUnauthorized} {
		if code, _ := scrape(t, url, token); code != want {
			t.Errorf("token %q: answer %d, want %d", token, code, want)
		}
	}
	if err := os.WriteFile(file, []byte("second\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]int{"second": http.StatusOK, "first": http.StatusForbidden} {
		if code, _ := scrape(t, url, token); code != want {
			t.Errorf("token %q after the Secret changed: answer %d, want %d", token, code, want)
		}
	}
	g := frontend(ns, "measured")
	g.Annotations = map[string]string{"nvidia.com/reconcile": "paused"}
	for _, o := range []client.Object{g, frontend(ns, "ready")} {
		if err := harness.Client(t).Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	harness.AwaitReady(t, ns, "ready")
	harness.Eventually(t, time.Minute, "all metrics", func() (bool, string) {
		_, text := scrape(t, url, "second")
		for _, want := range []string{
			`dynamo_operator_reconcile_total\{namespace="NS",resource_type="DynamoGraphDeployment",result="(success|requeue)"\} [1-9]`,
			`dynamo_operator_reconcile_duration_seconds_count\{namespace="NS",resource_type="DynamoComponentDeployment",result="(success|requeue)"\} [1-9]`,
			`dynamo_operator_resources_total\{namespace="NS",resource_type="DynamoGraphDeployment",status="successful"\} 1`,
			`dynamo_operator_resources_total\{namespace="NS",resource_type="DynamoComponentDeployment",status="ready"\} 1`,
			`dynamo_operator_paused_resources\{namespace="NS",resource_type="DynamoGraphDeployment"\} 1`,
			`dynamo_operator_writes_total\{kind="Deployment",reason="created"\} 1`,
			`dynamo_operator_writes_total\{kind="DynamoGraphDeployment",reason="transition"\} [1-9]`,
			`dynamo_operator_time_to_ready_seconds_count\{resource_type="DynamoGraphDeployment"\} 1`,
			`dynamo_operator_reconcile_without_writes_total\{resource_type="DynamoGraphDeployment"\} [1-9]`,
			`dynamo_operator_namespace_lease\{namespace="NS",state="held"\} 1`,
			`workqueue_queue_duration_seconds_count\{`,
		} {
			want = strings.ReplaceAll(want, "NS", ns)
			if !regexp.MustCompile(`(?m)^` + want).MatchString(text) {
				return false, want
			}
		}
		return true, ""
	})
}

func TestLogsTellOfTransitionsAndOfNoSecrets(t *testing.T) {
	t.Parallel()
	const marker = "planted-marker"
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "pull"}, Type: corev1.SecretTypeDockerConfigJson,
		StringData: map[string]string{corev1.DockerConfigJsonKey: `{"auths":{"example.com":{"username":"u","password":"` + marker + `"}}}`},
	}
	if err := harness.Client(t).Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	config := configFile(t, "natsAddress: nats://user:"+marker+"@nats:4222\nmodelExpressURL: https://h/?key="+marker+
		"\nnamespaceScope: {disabled: true}\nlogging: {development: false, level: \"5\"}\n")
	p := harness.StartProcess(t, harness.ProcessOptions{User: "operator-" + ns, Namespace: ns, Flags: []string{"--config=" + config}})
	g := frontend(ns, "quiet")
	g.Spec.Envs = []corev1.EnvVar{{Name: "TOKEN", Value: marker}}
	g.Spec.Services["Frontend"].Envs = []corev1.EnvVar{{Name: "OTHER", Value: marker}}
	if err := harness.Client(t).Create(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	harness.AwaitReady(t, ns, "quiet")
	bad := frontend(ns, "bad")
	bad.Spec.Services["Frontend"].ComponentType = "planner"
	bad.Spec.Services["Frontend"].Envs = []corev1.EnvVar{{Name: "TOKEN", Value: marker}}
	bad.Spec.BackendFramework = "none-of-them"
	_ = harness.Client(t).Create(t.Context(), bad) // a schema may refuse it; then there is nothing to tell
	const becameReady = `"type":"Ready","status":"True"`
	harness.Eventually(t, time.Minute, "the log tells that the graph and its component are ready", func() (bool, string) {
		return strings.Count(p.Log(), becameReady) >= 2, p.Log() // it does so after they were written
	})
	p.Stop()
	log := p.Log()
	if strings.Contains(log, marker) {
		at := strings.Index(log, marker)
		t.Errorf("a secret is in the log: %s", log[max(0, at-300):at])
	}
	for _, want := range []string{`"msg":"Operator is starting"`, `"msg":"Condition changed"`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %s: %s", want, log)
		}
	}
	if transitions := strings.Count(log, becameReady); transitions != 2 { // the graph and its component
		t.Errorf("that something became ready was said %d times, want 2", transitions)
	}
}

func TestAWrongConfigurationEndsTheStartWithEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	p := harness.StartProcess(t, harness.ProcessOptions{
		User: "operator-wrong", Unready: true, Flags: []string{"--discovery-backend=zookeeper", "--leader-elect", "--enable-webhooks", "--config=" +
			configFile(t, "logging: {level: loud, encoder: morse}\nwebhooks: {clientURL: nowhere}\n")},
	})
	p.AwaitEnd(time.Minute)
	for _, want := range []string{
		"--discovery-backend", "--leader-election-id", "webhooks.clientURL", "logging.level", "logging.encoder", "POD_NAMESPACE",
	} {
		if !strings.Contains(p.Log(), want) {
			t.Errorf("%s is not named: %s", want, p.Log())
		}
	}
}

func TestAnOperatorIsNotReadyBeforeItsWebhooksCanBeCalled(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	webhook := harness.UnusedAddress(t)
	p := harness.StartProcess(t, harness.ProcessOptions{
		User: "operator-unready", Unready: true, Env: []string{"POD_NAMESPACE=" + ns},
		Flags: []string{"--leader-elect", "--leader-election-id=dynamo.nvidia.com", "--leader-election-namespace=" + ns, "--config=" + configFile(t, fmt.Sprintf(
			idle+"webhooks: {enabled: true, bindAddress: 127.0.0.1, port: %d, validatingConfigurationName: none-such, mutatingConfigurationName: nor-such}\n", port(t, webhook)))},
	})
	harness.Eventually(t, time.Minute, "the reason", func() (bool, string) {
		code, text := ask(t, "http://"+p.Health+"/readyz?verbose")
		return code == http.StatusInternalServerError && strings.Contains(text, "[-]webhooks"), text
	})
	if code, text := ask(t, "http://"+p.Health+"/healthz"); code != http.StatusOK {
		t.Errorf("an operator that waits for its webhooks is called unhealthy: %d %s", code, text)
	}
}

// ask asks for a page, and returns nothing where nobody listens yet.
func ask(t *testing.T, url string) (int, string) {
	t.Helper()
	answer, err := http.Get(url) //nolint:gosec,noctx // an address of the test's own
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}
