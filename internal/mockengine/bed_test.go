// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

const baseModel = "acme/tiny-1b"

// bed is a front end and workers in one process, as HTTP servers, under a virtual engine clock.
type bed struct {
	t         *testing.T
	directory *Directory
	frontend  string
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{t: t, directory: NewDirectory()}
	f := NewFrontend(FrontendOptions{
		Discovery: b.directory, Client: NewClient(nil), Clock: clock.RealClock{}, Namespace: "dyn", Grace: time.Second,
	})
	b.frontend = "http://" + start(t, f.Serve)
	t.Cleanup(f.options.Client.CloseIdleConnections)
	await(t, "a healthy front end", func() bool { return get(t, b.frontend+"/health").code == http.StatusOK })
	return b
}

// tenant is a worker of a bed and where it is.
type tenant struct {
	*Worker
	url string
}

// worker starts a worker and waits until it is ready.
func (b *bed) worker(name string, edit ...func(*WorkerOptions)) tenant {
	b.t.Helper()
	listener := listen(b.t)
	o := WorkerOptions{
		Identity: Identity{Instance: name, Namespace: "dyn", Component: "backend"}, Model: baseModel, Clock: clock.RealClock{},
		Engine:    EngineOptions{Limits: DefaultLimits(), Timing: DefaultTiming(), Clock: NewVirtualClock(time.Unix(0, 0))},
		Publisher: b.directory.Publisher(name, listener.Addr().String()), Grace: time.Second,
		Exit: func(code int) { b.t.Errorf("worker %s wanted to exit with %d", name, code) },
	}
	for _, e := range edit {
		e(&o)
	}
	w := tenant{Worker: NewWorker(o), url: "http://" + listener.Addr().String()}
	startOn(b.t, listener, w.Serve)
	if o.StartupTime == 0 && len(w.Faults().List()) == 0 {
		await(b.t, name+" ready", w.Ready)
		await(b.t, name+" published", func() bool {
			instances, _ := b.directory.snapshot()
			for _, i := range instances {
				if i.Name == name {
					return true
				}
			}
			return false
		})
	}
	return w
}

// as gives a worker a role.
func as(role Role) func(*WorkerOptions) { return func(o *WorkerOptions) { o.Role = role } }

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

func start(t *testing.T, serve func(context.Context, net.Listener) error) string {
	t.Helper()
	listener := listen(t)
	startOn(t, listener, serve)
	return listener.Addr().String()
}

// startOn serves until the test ends, or until the function that is returned is called.
func startOn(t *testing.T, listener net.Listener, serve func(context.Context, net.Listener) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background()) //nolint:usetesting // ends in a cleanup, which the test's own context does not outlive
	var running sync.WaitGroup
	running.Go(func() {
		if err := serve(ctx, listener); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}

type answer struct {
	code int
	body string
	err  error
}

func get(t *testing.T, url string) answer { return request(t, http.MethodGet, url, "") }

func post(t *testing.T, url, body string) answer { return request(t, http.MethodPost, url, body) }

// client follows no redirects and keeps no connections, so that no test waits for another's.
func client() *http.Client {
	c := NewClient(nil)
	c.Transport = &http.Transport{DisableKeepAlives: true}
	c.Timeout = 20 * time.Second
	return c
}

func request(t *testing.T, method, url, body string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	got, err := client().Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	return answer{code: got.StatusCode, body: strings.TrimSpace(string(text)), err: err}
}

// load loads an adapter and fails the test if that does not succeed.
func (w tenant) load(t *testing.T, name string) {
	t.Helper()
	got := post(t, w.url+"/v1/loras", `{"lora_name":"`+name+`","source":{"uri":"s3://loras/`+name+`"}}`)
	if got.code != http.StatusOK || !strings.Contains(got.body, `"status":"success"`) {
		t.Fatalf("load %s: %+v", name, got)
	}
}
