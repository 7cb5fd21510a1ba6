// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
)

// etcdTimeout bounds the start of an etcd on a loaded machine.
const etcdTimeout = 30 * time.Second

// Etcd is an etcd of the test's own, besides the one in which the control plane keeps its objects: the one in which
// components find each other.
type Etcd struct {
	// Address is its host and port.
	Address string

	t testing.TB
}

// StartEtcd starts an etcd that ends with the test.
func StartEtcd(t testing.TB) *Etcd {
	t.Helper()
	binaries, err := localcluster.EnsureBinaries(t.Context(), []string{localcluster.Etcd}, os.Stderr)
	if err != nil {
		t.Fatalf("build etcd: %v", err)
	}
	e := &Etcd{Address: UnusedAddress(t), t: t}
	clients, peers := "http://"+e.Address, "http://"+UnusedAddress(t)
	ctx, cancel := context.WithCancel(context.Background())
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, binaries[localcluster.Etcd], "--name=default", "--data-dir="+t.TempDir(),
		"--listen-client-urls="+clients, "--advertise-client-urls="+clients, "--listen-peer-urls="+peers,
		"--initial-advertise-peer-urls="+peers, "--initial-cluster=default="+peers, "--log-level=error", "--unsafe-no-fsync")
	cmd.Env, cmd.Stderr = []string{"PATH=" + os.Getenv("PATH")}, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ended := make(chan error, 1)
	go func() {
		// The kernel ends the child with the thread that started it, so that thread stays until the child is gone.
		runtime.LockOSThread()
		ended <- cmd.Run()
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	Eventually(t, etcdTimeout, "an etcd of the test answers", func() (bool, string) {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("etcd ended with %v: %s", err, said.String())
		default:
		}
		_, err := e.call("range", map[string][]byte{"key": []byte("/")})
		return err == nil, fmt.Sprint(err)
	})
	return e
}

// Put stores keys, as processes do that want to be found.
func (e *Etcd) Put(keys ...string) {
	e.t.Helper()
	for _, key := range keys {
		if _, err := e.call("put", map[string][]byte{"key": []byte(key), "value": []byte("{}")}); err != nil {
			e.t.Fatalf("store %s: %v", key, err)
		}
	}
}

// Keys returns all keys that begin with a slash, sorted.
func (e *Etcd) Keys() []string {
	e.t.Helper()
	answer, err := e.call("range", map[string][]byte{"key": []byte("/"), "range_end": []byte("0")})
	if err != nil {
		e.t.Fatalf("read the keys in etcd: %v", err)
	}
	var found struct {
		Kvs []struct{ Key []byte }
	}
	if err := json.Unmarshal(answer, &found); err != nil {
		e.t.Fatalf("read the keys in etcd: %v", err)
	}
	var keys []string
	for _, kv := range found.Kvs {
		keys = append(keys, string(kv.Key))
	}
	slices.Sort(keys)
	return keys
}

func (e *Etcd) call(verb string, request map[string][]byte) ([]byte, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	answer, err := http.Post("http://"+e.Address+"/v3/kv/"+verb, "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, content)
	}
	return content, err
}
