// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package run tests what tools/run.sh gives the operator to read. That make run works on a cluster is tested in test/charts/followed.
package run

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// place is a directory with programs that stand for those of a machine: the operator shows its configuration, and kubectl knows of
// webhooks.
func place(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, does := range map[string]string{
		"bin/dynamo-local": "exit 1", "path/kubectl": "echo a-configuration", "bin/operator": `cat "${1#--config=}"`,
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+does+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// run runs the script and returns what the operator has read.
func run(t *testing.T, url string, args ...string) (said string, err error) {
	t.Helper()
	script, err := filepath.Abs("../run.sh")
	if err != nil {
		t.Fatal(err)
	}
	root := place(t)
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{script}, args...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(root, "path")+string(os.PathListSeparator)+os.Getenv("PATH"), "KUBECONFIG=somewhere", "WEBHOOK_URL="+url)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return problems.String(), err
	}
	return string(out), nil
}

// configuration is the part of that file which is looked at here.
type configuration struct {
	LeaderElection struct {
		Enabled       bool
		ID, Namespace string
	}
	Webhooks struct {
		Enabled                bool
		Port                   int
		ClientURL, BindAddress string
	}
}

func decode(t *testing.T, text string) configuration {
	t.Helper()
	var c configuration
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c
}

func TestTheOperatorWorksWithTheLeaseOfItsKind(t *testing.T) {
	t.Parallel()
	for args, namespace := range map[string]string{
		"":                                   "kube-system",
		"--operator-version=9.9.9":           "kube-system",
		"--restrictedNamespace=team-a":       "team-a",
		"--x=y -restrictedNamespace team-a ": "team-a",
	} {
		said, err := run(t, "", strings.Fields(args)...)
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, said)
		}
		if got := decode(t, said).LeaderElection; !got.Enabled || got.ID != "dynamo.nvidia.com" || got.Namespace != namespace {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

func TestWebhooksAreAnsweredWhereTheirAddressSays(t *testing.T) {
	t.Parallel()
	for url, port := range map[string]int{
		"https://192.0.2.1:9443": 9443, "https://me.example.com:80": 80, "https://[2001:db8::1]:443": 443, "https://127.0.0.1:65535": 65535,
	} {
		said, err := run(t, url)
		if err != nil {
			t.Fatalf("%s: %v\n%s", url, err, said)
		}
		if got := decode(t, said).Webhooks; !got.Enabled || got.Port != port || got.ClientURL != url {
			t.Errorf("%s: %+v", url, got)
		}
	}
}

func TestAnyOtherAddressOfWebhooksIsRefusedInOneSentence(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"https://192.0.2.1", "https://192.0.2.1:9443/x", "https://192.0.2.1:9443/", "http://192.0.2.1:9443", "192.0.2.1:9443", "https://:9443",
		"https://192.0.2.1:", "https://192.0.2.1:port", "https://192.0.2.1:0", "https://192.0.2.1:65536", "https://192.0.2.1:09443",
		"https://2001:db8::1:9443", "https://a b:9443", "https://a:b@c:9443", "https://192.0.2.1:9443\nhttps://192.0.2.2:9443",
	} {
		said, err := run(t, url)
		want := "make run: WEBHOOK_URL " + url + " is not an address such as https://192.0.2.1:9443: name https, a host and a port, and no path\n"
		if err == nil || said != want {
			t.Errorf("%s: %v\n%s", url, err, said)
		}
	}
}
