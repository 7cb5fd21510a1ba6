// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const header = "apiVersion: config.nvidia.com/v1alpha1\nkind: OperatorConfiguration\n"

// load reads a command line beside a file that is called operator.yaml.
func load(file string, args ...string) (*Config, error) {
	flags := flag.NewFlagSet("operator", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return Load(flags, args, func(name string) ([]byte, error) {
		if name != "operator.yaml" {
			return nil, os.ErrNotExist
		}
		return []byte(file), nil
	})
}

// nowhere is the environment of a process outside of any cluster.
func nowhere(string) string { return "" }

func TestAFileThatSaysNothingMeansTheDefaultsOfTheFlags(t *testing.T) {
	t.Parallel()
	byFlags, err := load("")
	if err != nil {
		t.Fatal(err)
	}
	byFile, err := load(header, "--config=operator.yaml")
	if err != nil {
		t.Fatal(err)
	}
	byFile.TypeMeta = byFlags.TypeMeta
	if diff := cmp.Diff(byFlags.OperatorConfiguration, byFile.OperatorConfiguration); diff != "" {
		t.Errorf("defaults of flags and file differ (-flags +file):\n%s", diff)
	}
	if err := byFile.Validate(nowhere); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
}

func TestFlagsWinOverTheFileAlsoWithValuesThatAreDefaults(t *testing.T) {
	t.Parallel()
	const file = header + `
natsAddress: nats://file
etcdAddress: etcd-of-the-file:2379
discoveryBackend: etcd
groveTerminationDelay: 0s
metrics: {bindAddress: ":1", secure: true}
webhooks: {enabled: true}
logging: {development: false, level: debug}
`
	c, err := load(file, "--config", "operator.yaml", "--natsAddr=nats://flag", "--discovery-backend=kubernetes", "--enable-webhooks=false",
		"--metrics-bind-address=0", "--checkpoint-enabled")
	if err != nil {
		t.Fatal(err)
	}
	got := []any{c.NATSAddress, c.EtcdAddress, c.DiscoveryBackend, c.GroveTerminationDelay.Duration, c.Metrics.BindAddress, c.Metrics.Secure, c.Webhooks.Enabled,
		c.Webhooks.Port, c.Zap.Development, c.Reserved}
	want := []any{"nats://flag", "etcd-of-the-file:2379", "kubernetes", time.Duration(0), "0", true, false, int32(9443), false, []string{"checkpoint-enabled"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestAFileThatDoesNotFitIsRefusedWithEveryPath(t *testing.T) {
	t.Parallel()
	_, err := load(header+"natsAddres: a\nwebhooks: {prt: 1, port: x}\nleaderElection: {leaseDuration: 5}\n", "--config=operator.yaml")
	if err == nil {
		t.Fatal("it is accepted")
	}
	for _, want := range []string{"operator.yaml", "natsAddres: ", "webhooks.prt: ", "webhooks.port: ", "leaderElection.leaseDuration: "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not named in: %v", want, err)
		}
	}
}

func TestWhatIsNoFlagIsRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--leader-elect", "false"}, {"--no-such-flag"}, {"--config=elsewhere.yaml"}, {"--grove-termination-delay=soon"}} {
		if _, err := load("", args...); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
	if _, err := load("", "--help"); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("asking for help gives %v", err)
	}
}

func TestEveryFlagOfTheReferenceIsAcceptedWithItsDefault(t *testing.T) {
	t.Parallel()
	flags := flag.NewFlagSet("operator", flag.ContinueOnError)
	bind(flags)
	for name, value := range map[string]string{
		"metrics-bind-address": ":8080", "health-probe-bind-address": ":8081", "leader-elect": "false", "leader-election-id": "",
		"leader-election-namespace": "", "metrics-secure": "false", "enable-http2": "false", "enable-webhooks": "false", "restrictedNamespace": "",
		"natsAddr": "", "etcdAddr": "", "istio-virtual-service-gateway": "", "virtual-service-supports-https": "false", "ingress-controller-class-name": "",
		"ingress-controller-tls-secret-name": "", "ingress-host-suffix": "", "grove-termination-delay": "15m0s", "model-express-url": "",
		"prometheus-endpoint": "", "mpi-run-ssh-secret-name": "mpi-run-ssh-secret", "mpi-run-ssh-secret-namespace": "", "planner-cluster-role-name": "",
		"dgdr-profiling-cluster-role-name": "", "epp-cluster-role-name": "", "namespace-scope-lease-duration": "30s",
		"namespace-scope-lease-renew-interval": "10s", "operator-version": "unknown", "discovery-backend": "kubernetes", "checkpoint-enabled": "false",
		"checkpoint-storage-type": "pvc", "checkpoint-signal-host-path": "", "checkpoint-criu-timeout": "21600", "checkpoint-pvc-name": "checkpoint-storage",
		"checkpoint-pvc-base-path": "/checkpoints", "checkpoint-s3-uri": "", "checkpoint-s3-credentials-secret": "", "checkpoint-oci-uri": "",
		"checkpoint-oci-credentials-secret": "", "checkpoint-init-container-image": "busybox:latest", "zap-devel": "true", "zap-encoder": "", "zap-log-level": "",
		"zap-stacktrace-level": "", "zap-time-encoding": "",
	} {
		f := flags.Lookup(name)
		if f == nil {
			t.Errorf("flag --%s is unknown", name)
			continue
		}
		if f.DefValue != value {
			t.Errorf("flag --%s has default %q, want %q", name, f.DefValue, value)
		}
	}
}

func TestReservedFlagsAreNamedWhenTheyAreGiven(t *testing.T) {
	t.Parallel()
	c, err := load(header, "--config=operator.yaml", "--virtual-service-supports-https=false", "--checkpoint-pvc-name=checkpoint-storage", "--checkpoint-enabled")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"checkpoint-enabled", "checkpoint-pvc-name"}, c.Reserved); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := load("", "--checkpoint-enabled=perhaps"); err == nil {
		t.Error("a switch is neither on nor off, and accepted")
	}
}

func TestAllProblemsAreNamedAtOnceByKeyAndFlag(t *testing.T) {
	t.Parallel()
	c, err := load("", "--discovery-backend=zookeeper", "--leader-elect", "--namespace-scope-lease-duration=1500ms", "--restrictedNamespace=Team A",
		"--metrics-secure", "--enable-webhooks")
	if err != nil {
		t.Fatal(err)
	}
	c.TLS.MinVersion, c.Webhooks.Port, c.Webhooks.ClientURL, c.IgnoredNamespaces = "1.1", 0, "http://a", []string{"["}
	problems := c.Validate(nowhere)
	if problems == nil {
		t.Fatal("it is accepted")
	}
	for _, want := range []string{
		"discoveryBackend (--discovery-backend): ", "leaderElection.id (--leader-election-id): ", "namespaceScope.renewInterval (--namespace-scope-lease-renew-interval): ",
		"namespaceScope.leaseDuration (--namespace-scope-lease-duration): ", "restrictedNamespace (--restrictedNamespace): ", "metrics.bearerTokenFile: ",
		"webhooks.certificates.source: ", "tls.minVersion: ", "webhooks.port: ", "webhooks.clientURL: ", "ignoredNamespaces[0]: ",
	} {
		if !strings.Contains(problems.Error(), want) {
			t.Errorf("%q is not named in: %v", want, problems)
		}
	}
}

func TestWhatIsWrongInFileFlagsAndEnvironmentIsNamedTogether(t *testing.T) {
	t.Parallel()
	c, err := load(header+"logging: {level: loud, encoder: morse, timeEncoding: sundial}\nwebhooks: {enabled: true, port: 8081, certificates: {source: self-managed}}\n",
		"--config=operator.yaml", "--leader-elect", "--discovery-backend=zookeeper", "--metrics-bind-address=127.0.0.1:8081")
	if err != nil {
		t.Fatal(err)
	}
	problems := c.Validate(nowhere)
	if problems == nil {
		t.Fatal("it is accepted")
	}
	for _, want := range []string{
		"logging.level: ", "logging.encoder: ", "logging.timeEncoding: ", "discoveryBackend (--discovery-backend): ", "leaderElection.id (--leader-election-id): ",
		"leaderElection.namespace (--leader-election-namespace): ", "webhooks.certificates.secretName: ",
		`metrics.bindAddress (--metrics-bind-address): Invalid value: "8081": this port is that of webhooks.port already`,
		`healthProbeBindAddress (--health-probe-bind-address): Invalid value: "8081": this port is that of metrics.bindAddress already`,
	} {
		if !strings.Contains(problems.Error(), want) {
			t.Errorf("%q is not named in: %v", want, problems)
		}
	}
	told := func(name string) string { return map[string]string{OwnNamespaceVariable: "here"}[name] }
	if err := c.Validate(told); err == nil || strings.Contains(err.Error(), OwnNamespaceVariable) {
		t.Errorf("the namespace is known, and asked for: %v", err)
	}
}

func TestListenersOfDifferentAddressesShareAPort(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		metrics, health string
		fits            bool
	}{
		{"127.0.0.1:9000", "127.0.0.2:9000", true},
		{"127.0.0.1:9000", "127.0.0.1:9000", false},
		{"[::]:9000", "127.0.0.1:9000", false},
		{"0.0.0.0:9000", ":9001", true},
		{"0", "0", true},
	} {
		c, err := load("", "--metrics-bind-address="+tc.metrics, "--health-probe-bind-address="+tc.health)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Validate(nowhere); (err == nil) != tc.fits {
			t.Errorf("%s and %s: %v", tc.metrics, tc.health, err)
		}
	}
}

func TestTheEffectiveConfigurationHidesSecrets(t *testing.T) {
	t.Parallel()
	c, err := load("", "--natsAddr=NATS://user:pla/planted,planted@nats:4222,nats://planted@other:4222", "--etcdAddr=root:planted@etcd:2379",
		"--model-express-url=https://host/path?token=planted&a=b#planted", "--prometheus-endpoint=http://prometheus:9090")
	if err != nil {
		t.Fatal(err)
	}
	shown, err := c.Effective()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(shown, "planted") {
		t.Errorf("a secret is shown: %s", shown)
	}
	c.NATSAddress = "nats://h/?mail=a@b&key=planted"
	if again, err := c.Effective(); err != nil || strings.Contains(again, "planted") {
		t.Errorf("a secret is shown: %s, %v", again, err)
	}
	for _, want := range []string{"NATS://xxxxx@other:4222", "@etcd:2379", "https://host/path?", "http://prometheus:9090", `"discoveryBackend":"kubernetes"`} {
		if !strings.Contains(strings.ReplaceAll(shown, `\u0026`, "&"), want) {
			t.Errorf("%q is not shown in %s", want, shown)
		}
	}
}
