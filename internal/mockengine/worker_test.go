// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestAdaptersAreLoadedListedAndUnloaded(t *testing.T) {
	t.Parallel()
	w := newBed(t).worker("w0")
	const body = `{"lora_name":"acme/x y","source":{"uri":"s3://loras/x"}}`
	id := fmt.Sprint(newAdapters("", 0).freeID("acme/x y"))
	for _, step := range []struct {
		what, method, path, body, want string
		code                           int
	}{
		{"nothing is loaded", "GET", "/v1/loras", "", `{"count":0,"loras":{},"status":"success"}`, 200},
		{"a load", "POST", "/v1/loras", body, `{"status":"success","message":"adapter acme/x y was loaded","lora_name":"acme/x y","lora_id":` + id + `}`, 200},
		{"the same again", "POST", "/v1/loras", body, `{"status":"success","message":"adapter acme/x y is loaded already","lora_name":"acme/x y","lora_id":` + id + `}`, 200},
		{"one is loaded", "GET", "/v1/loras", "", `{"count":1,"loras":{"acme/x y":` + id + `},"status":"success"}`, 200},
		{"an unload", "DELETE", "/v1/loras/acme/x%20y", "", `{"status":"success","message":"adapter acme/x y was unloaded","lora_name":"acme/x y","lora_id":` + id + `}`, 200},
		{"the same again", "DELETE", "/v1/loras/acme/x%20y", "", `{"status":"error","message":"adapter acme/x y is not loaded","lora_name":"acme/x y"}`, 200},
		{"a name like a path", "DELETE", "/v1/loras/a//..%2Fb", "", `{"status":"error","message":"adapter a//../b is not loaded","lora_name":"a//../b"}`, 200},
		{"no name", "POST", "/v1/loras", `{"source":{"uri":"x"}}`, `{"status":"error","message":"lora_name is required"}`, 200},
		{"no source", "POST", "/v1/loras", `{"lora_name":"z"}`, `{"status":"error","message":"source.uri is required","lora_name":"z"}`, 200},
		{"the base model", "POST", "/v1/loras", `{"lora_name":"acme/tiny-1b","source":{"uri":"x"}}`, `{"status":"error","message":"\"acme/tiny-1b\" is the base model","lora_name":"acme/tiny-1b"}`, 200},
	} {
		got := request(t, step.method, w.url+step.path, step.body)
		if diff := cmp.Diff(answer{code: step.code, body: step.want}, got, cmp.AllowUnexported(answer{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.what, diff)
		}
	}
	want := Counters{
		Loads: map[string]int{"acme/x y": 2}, Unloads: map[string]int{"acme/x y": 1},
		FailedLoads: map[string]int{"": 1, "z": 1, baseModel: 1}, Requests: map[string]int{},
	}
	if diff := cmp.Diff(want, w.Counters()); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
}

func TestAWorkerHasOnlySoManySlots(t *testing.T) {
	t.Parallel()
	w := newBed(t).worker("w0", func(o *WorkerOptions) { o.AdapterSlots = 1 })
	w.load(t, "a")
	w.load(t, "a")
	got := post(t, w.url+"/v1/loras", `{"lora_name":"b","source":{"uri":"x"}}`)
	if want := `{"status":"error","message":"no free slot: 1 of 1 adapters are loaded","lora_name":"b"}`; got.code != 200 || got.body != want {
		t.Errorf("got %+v, want %s", got, want)
	}
	if got := request(t, "DELETE", w.url+"/v1/loras/a", ""); got.code != 200 {
		t.Errorf("unload: %+v", got)
	}
	w.load(t, "b")
}

func TestAWorkerIsLiveBeforeItIsReady(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	fake := clocktesting.NewFakeClock(time.Unix(0, 0))
	faults := &Faults{}
	faults.Set(Fault{On: OnStart, Kind: FaultLatency, Delay: metav1.Duration{Duration: time.Minute}})
	w := b.worker("w0", func(o *WorkerOptions) { o.Clock, o.Faults, o.StartupTime = fake, faults, time.Hour })
	awaitWaiter(t, fake)
	fake.Step(time.Hour + 59*time.Second)
	if live, health := get(t, w.url+"/live").code, get(t, w.url+"/health").code; live != 200 || health != 503 {
		t.Errorf("live %d, health %d", live, health)
	}
	if got := post(t, w.url+"/v1/loras", `{"lora_name":"a","source":{"uri":"x"}}`); !strings.Contains(got.body, "not ready") {
		t.Errorf("load: %+v", got)
	}
	if got := post(t, w.url+"/mock/generate", `{"model":"`+baseModel+`","prompt":1,"output":1}`); got.code != 503 {
		t.Errorf("generate: %+v", got)
	}
	fake.Step(time.Second)
	await(t, "health", func() bool { return get(t, w.url+"/health").code == 200 })
}

func TestEveryFaultLooksToAClientAsItShould(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, tc := range []struct {
		fault string
		want  func(answer) bool
	}{
		{"on=load,kind=status,status=418", func(a answer) bool { return a.code == 418 }},
		{"on=load,kind=error,message=broken", func(a answer) bool {
			return a.code == 200 && a.body == `{"status":"error","message":"broken"}`
		}},
		{"on=load,kind=full", func(a answer) bool { return a.code == 200 && strings.Contains(a.body, "no free slot") }},
		{"on=load,kind=full,status=429", func(a answer) bool { return a.code == 429 }},
		{"on=load,kind=garbage", func(a answer) bool { return a.code == 200 && strings.HasPrefix(a.body, "\x00") }},
		{"on=load,kind=huge,bytes=3000000", func(a answer) bool { return a.code == 200 && a.err == nil && a.body == "" }},
		{"on=load,kind=redirect,location=http://127.0.0.1:1/x", func(a answer) bool { return a.code == 307 }},
		{"on=load,kind=reset", func(a answer) bool { return a.err != nil }},
	} {
		t.Run(tc.fault, func(t *testing.T) {
			t.Parallel()
			w := b.worker(strings.NewReplacer("=", "-", ",", "-", ":", "-", "/", "-").Replace(tc.fault))
			if got := post(t, w.url+"/mock/faults", quoteShort(t, tc.fault)); got.code != 200 {
				t.Fatalf("set the fault: %+v", got)
			}
			got := post(t, w.url+"/v1/loras", `{"lora_name":"a","source":{"uri":"x"}}`)
			if !tc.want(got) {
				t.Errorf("got %+v", got)
			}
			if len(w.Loaded()) != 0 || w.Faults().List()[0].Struck != 1 {
				t.Errorf("loaded %v, faults %+v", w.Loaded(), w.Faults().List())
			}
			if got := request(t, "DELETE", w.url+"/mock/faults", ""); got.body != "[]" {
				t.Errorf("remove the fault: %+v", got)
			}
			w.load(t, "a")
		})
	}
}

// quoteShort turns a fault in short form into JSON.
func quoteShort(t *testing.T, text string) string {
	t.Helper()
	f, err := ParseFault(text)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"on":%q,"kind":%q,"status":%d,"message":%q,"bytes":%d,"location":%q}`, f.On, f.Kind, f.Status, f.Message, f.Bytes, f.Location)
}

func TestALateFaultLosesOnlyTheAnswer(t *testing.T) {
	t.Parallel()
	w := newBed(t).worker("w0")
	w.Faults().Set(
		Fault{On: OnLoad, Kind: FaultStatus, Status: 500, Late: true, Count: 1},
		Fault{On: OnUnload, Kind: FaultReset, Late: true, Count: 1},
	)
	if got := post(t, w.url+"/v1/loras", `{"lora_name":"a","source":{"uri":"x"}}`); got.code != 500 || len(w.Loaded()) != 1 {
		t.Errorf("got %+v, loaded %v", got, w.Loaded())
	}
	if got := request(t, "DELETE", w.url+"/v1/loras/a", ""); got.err == nil || len(w.Loaded()) != 0 {
		t.Errorf("got %+v, loaded %v", got, w.Loaded())
	}
}

func TestAHangEndsWithTheClient(t *testing.T) {
	t.Parallel()
	w := newBed(t).worker("w0")
	w.Faults().Set(Fault{On: OnHealth, Kind: FaultHang})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", w.url+"/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		answer, err := client().Do(r)
		if err == nil {
			_ = answer.Body.Close()
		}
		done <- err
	}()
	await(t, "the strike", func() bool { return w.Faults().List()[0].Struck == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAHangEndsWithTheWorkerAndIsNoAnswer(t *testing.T) {
	t.Parallel()
	listener := listen(t)
	w := NewWorker(WorkerOptions{Model: baseModel, Clock: clock.RealClock{}})
	w.Faults().Set(Fault{On: OnHealth, Kind: FaultHang}, Fault{On: OnLive, Kind: FaultLatency, Delay: metav1.Duration{Duration: time.Hour}})
	stop := startOn(t, listener, w.Serve)
	answers := make(chan answer, 2)
	for _, path := range []string{"/health", "/live"} {
		go func() { answers <- get(t, "http://"+listener.Addr().String()+path) }()
	}
	await(t, "the strikes", func() bool { return w.Faults().List()[0].Struck+w.Faults().List()[1].Struck == 2 })
	stop()
	for range 2 {
		if got := <-answers; got.err == nil {
			t.Errorf("got %+v", got)
		}
	}
}

func TestACrashEndsTheProcessWithItsCode(t *testing.T) {
	t.Parallel()
	exits := make(chan int, 2)
	b := newBed(t)
	w := b.worker("w0", func(o *WorkerOptions) { o.Exit = func(code int) { exits <- code } })
	w.Faults().Set(Fault{On: OnLive, Kind: FaultCrash, Status: 137})
	get(t, w.url+"/live")
	if got := <-exits; got != 137 {
		t.Errorf("exited with %d", got)
	}
	b.worker("w1", func(o *WorkerOptions) {
		o.Exit, o.Faults = func(code int) { exits <- code }, &Faults{}
		o.Faults.Set(Fault{On: OnStart, Kind: FaultCrash})
	})
	if got := <-exits; got != 1 {
		t.Errorf("exited with %d", got)
	}
}

func TestAWorkerDescribesItself(t *testing.T) {
	t.Parallel()
	w := newBed(t).worker("pod-7")
	w.load(t, "acme/x")
	number := InstanceID("pod-7")
	entry := ModelEntry{
		Type: "Model", Namespace: "dyn", Component: "backend", Endpoint: "generate", InstanceID: number,
		Card: Card{Name: baseModel, Role: RoleAggregated, BlockSize: 64},
	}
	lora := entry
	lora.Card.Name, lora.Card.Base = "acme/x", baseModel
	want := Metadata{
		Endpoints: map[string]EndpointEntry{"dyn/backend/generate": {
			Type: "Endpoint", Namespace: "dyn", Component: "backend", Endpoint: "generate", InstanceID: number, Transport: "http",
		}},
		ModelCards: map[string]ModelEntry{"dyn/backend/generate": entry, "dyn/backend/generate/acme/x": lora},
	}
	if diff := cmp.Diff(want, w.Metadata()); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if number>>63 != 0 {
		t.Errorf("the number %d has 64 bits, of which Kubernetes keeps 63", number)
	}
	metrics := get(t, w.url+"/metrics").body
	for _, line := range []string{
		`dynamo_component_kvstats_total_blocks{dynamo_component="backend",dynamo_endpoint="generate",dynamo_namespace="dyn"} 16384`,
		`mocker_adapter_loads_total{dynamo_component="backend",dynamo_endpoint="generate",dynamo_namespace="dyn",model="acme/x"} 1`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("metrics lack %s:\n%s", line, metrics)
		}
	}
}

// brokenPublisher refuses what it is told to.
type brokenPublisher struct {
	Publisher
	broken func() bool
}

func (p brokenPublisher) Publish(ctx context.Context, m Metadata) error {
	if p.broken() {
		return errors.New("the API server is away")
	}
	return p.Publisher.Publish(ctx, m)
}

func TestAnAdapterThatCannotBePublishedIsNotLoaded(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	broken := make(chan bool, 1)
	broken <- false
	w := b.worker("w0", func(o *WorkerOptions) {
		o.Publisher = brokenPublisher{Publisher: o.Publisher, broken: func() bool {
			is := <-broken
			broken <- is
			return is
		}}
	})
	<-broken
	broken <- true
	got := post(t, w.url+"/v1/loras", `{"lora_name":"a","source":{"uri":"x"}}`)
	if want := `{"status":"error","message":"the API server is away","lora_name":"a"}`; got.code != 200 || got.body != want {
		t.Errorf("got %+v", got)
	}
	if counters := w.Counters(); len(w.Loaded()) != 0 || counters.Loads["a"] != 0 || counters.FailedLoads["a"] != 1 {
		t.Errorf("loaded %v, counters %+v", w.Loaded(), counters)
	}
	<-broken
	broken <- false
	w.load(t, "a")
}

func TestFaultsThatCannotBeReadChangeNothing(t *testing.T) {
	t.Parallel()
	w := newBed(t).worker("w0")
	if got := request(t, "PUT", w.url+"/mock/faults", `[{"on":"load","kind":"hang","count":1},{"on":"list","kind":"reset"}]`); got.code != 200 {
		t.Fatalf("set faults: %+v", got)
	}
	before := get(t, w.url+"/mock/faults").body
	if want := `[{"on":"load","kind":"hang","count":1},{"on":"list","kind":"reset"}]`; before != want {
		t.Errorf("faults are %s", before)
	}
	for _, body := range []string{`{`, `{"on":"load"}`, `{"on":"load","kind":"hang","wait":1}`, `"on=load"`} {
		if got := request(t, "PUT", w.url+"/mock/faults", body); got.code != 400 {
			t.Errorf("%s: %+v", body, got)
		}
	}
	if after := get(t, w.url+"/mock/faults").body; after != before {
		t.Errorf("faults became %s", after)
	}
	if got := request(t, "PATCH", w.url+"/mock/faults", ""); got.code != 405 {
		t.Errorf("patch: %+v", got)
	}
}

func TestAWorkerWithAFullQueueAnswers503(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	fake := clocktesting.NewFakeClock(time.Unix(0, 0))
	w := b.worker("w0", func(o *WorkerOptions) {
		o.Engine.Clock, o.Engine.MaxWaiting, o.Engine.Limits.MaxSequences = fake, 1, 1
	})
	b.awaitModels(baseModel)
	answers := make(chan answer, 2)
	ask := func() {
		answers <- post(t, b.frontend+"/v1/completions", `{"model":"acme/tiny-1b","prompt":"x","max_tokens":1}`)
	}
	go ask()
	awaitWaiter(t, fake)
	go ask()
	await(t, "one request waiting", func() bool { return w.State().Usage.Waiting == 1 })
	if code, _, problem := b.ask(baseModel); code != 503 || !strings.Contains(problem, "full") {
		t.Errorf("the third request: %d %s", code, problem)
	}
	for range 2 {
		awaitWaiter(t, fake)
		fake.Step(time.Hour)
		if got := <-answers; got.code != 200 {
			t.Errorf("got %+v", got)
		}
	}
}
