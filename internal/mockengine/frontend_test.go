// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
)

// ask sends a completion and returns its code, its text and its error message.
func (b *bed) ask(model string) (code int, text, problem string) {
	b.t.Helper()
	got := post(b.t, b.frontend+"/v1/completions", `{"model":"`+model+`","prompt":"once upon a time","max_tokens":3}`)
	if got.err != nil {
		b.t.Fatal(got.err)
	}
	var body struct {
		Choices []struct{ Text string }
		Error   struct{ Message string }
	}
	if err := json.Unmarshal([]byte(got.body), &body); err != nil {
		b.t.Fatalf("%s: %v", got.body, err)
	}
	if len(body.Choices) == 1 {
		text = body.Choices[0].Text
	}
	return got.code, text, body.Error.Message
}

// models are the names in the list of models.
func (b *bed) models() []string {
	b.t.Helper()
	var list struct{ Data []struct{ ID string } }
	if err := json.Unmarshal([]byte(get(b.t, b.frontend+"/v1/models").body), &list); err != nil {
		b.t.Fatal(err)
	}
	names := []string{}
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	return names
}

// awaitModels waits until exactly these models are listed.
func (b *bed) awaitModels(want ...string) {
	b.t.Helper()
	await(b.t, "models "+strings.Join(want, ", "), func() bool { return cmp.Equal(append([]string{}, want...), b.models()) })
}

func TestModelsComeAndGoWithTheirWorkers(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.awaitModels()
	listener := listen(t)
	w := NewWorker(WorkerOptions{
		Identity: Identity{Instance: "w0", Namespace: "dyn", Component: "backend"}, Model: baseModel, Clock: clock.RealClock{},
		Publisher: b.directory.Publisher("w0", listener.Addr().String()), Grace: time.Second,
		Engine: EngineOptions{Limits: DefaultLimits(), Timing: DefaultTiming()},
	})
	stop := startOn(t, listener, w.Serve)
	b.awaitModels(baseModel)
	tenant{w, "http://" + listener.Addr().String()}.load(t, "acme/x")
	b.awaitModels(baseModel, "acme/x")
	want := `{"created":0,"id":"acme/x","object":"model","owned_by":"nvidia","parent":"acme/tiny-1b"}`
	got := get(t, b.frontend+"/v1/models/acme/x").body
	if diff := cmp.Diff(want, withoutTime(got)); diff != "" {
		t.Errorf("one model (-want +got):\n%s", diff)
	}
	stop()
	b.awaitModels()
}

// withoutTime sets the time in an answer to zero.
func withoutTime(body string) string {
	from := strings.Index(body, `"created":`)
	if from < 0 {
		return body
	}
	from += len(`"created":`)
	to := from + strings.IndexByte(body[from:], ',')
	return body[:from] + "0" + body[to:]
}

func TestCompletionsHaveTheFormOfOpenAI(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.worker("w0")
	b.awaitModels(baseModel)
	for name, tc := range map[string]struct{ path, body, want string }{
		"a chat": {
			"/v1/chat/completions", `{"model":"acme/tiny-1b","messages":[{"role":"user","content":"two words"}],"max_tokens":2}`,
			`{"choices":[{"finish_reason":"length","index":0,"message":{"content":"token-0 token-1","role":"assistant"}}],"created":0,"id":"ID","model":"acme/tiny-1b","object":"chat.completion","usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`,
		},
		"a chat in parts": {
			"/v1/chat/completions", `{"model":"acme/tiny-1b","messages":[{"role":"user","content":[{"type":"text","text":"a b"},{"type":"text","text":"c"}]}],"max_completion_tokens":1}`,
			`{"choices":[{"finish_reason":"length","index":0,"message":{"content":"token-0","role":"assistant"}}],"created":0,"id":"ID","model":"acme/tiny-1b","object":"chat.completion","usage":{"prompt_tokens":4,"completion_tokens":1,"total_tokens":5}}`,
		},
		"a text": {
			"/v1/completions", `{"model":"acme/tiny-1b","prompt":"hello","max_tokens":1}`,
			`{"choices":[{"finish_reason":"length","index":0,"text":"token-0"}],"created":0,"id":"ID","model":"acme/tiny-1b","object":"text_completion","usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3}}`,
		},
		"tokens": {
			"/v1/completions", `{"model":"acme/tiny-1b","prompt":[5,6,7],"max_tokens":1}`,
			`{"choices":[{"finish_reason":"length","index":0,"text":"token-0"}],"created":0,"id":"ID","model":"acme/tiny-1b","object":"text_completion","usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`,
		},
	} {
		got := post(t, b.frontend+tc.path, tc.body)
		if diff := cmp.Diff(tc.want, withoutID(withoutTime(got.body))); got.code != 200 || diff != "" {
			t.Errorf("%s: %d (-want +got):\n%s", name, got.code, diff)
		}
	}
}

func withoutID(body string) string {
	var fields struct{ ID string }
	if json.Unmarshal([]byte(body), &fields) != nil {
		return body
	}
	return strings.ReplaceAll(body, `"`+fields.ID+`"`, `"ID"`)
}

func TestAStreamEndsWithItsUsageAndDone(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.worker("w0")
	b.awaitModels(baseModel)
	got := post(t, b.frontend+"/v1/chat/completions",
		`{"model":"acme/tiny-1b","messages":[{"role":"user","content":"hi"}],"max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`)
	var events []string
	for event := range strings.SplitSeq(got.body, "\n\n") {
		events = append(events, withoutID(withoutTime(strings.TrimPrefix(event, "data: "))))
	}
	const ends = `"created":0,"id":"ID","model":"acme/tiny-1b","object":"chat.completion.chunk"`
	want := []string{
		`{"choices":[{"delta":{"content":"token-0","role":"assistant"},"finish_reason":null,"index":0}],` + ends + `}`,
		`{"choices":[{"delta":{"content":" token-1"},"finish_reason":"length","index":0}],` + ends + `}`,
		`{"choices":[],` + ends + `,"usage":{"prompt_tokens":2,"completion_tokens":2,"total_tokens":4}}`,
		`[DONE]`,
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestWhatCannotBeAnsweredIsRefusedInTheFormOfOpenAI(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.worker("w0", func(o *WorkerOptions) { o.ContextLength = 20 })
	b.awaitModels(baseModel)
	for name, tc := range map[string]struct {
		path, body, want string
		code             int
	}{
		"unknown model":      {"completions", `{"model":"no","prompt":"x"}`, `{"error":{"message":"The model \"no\" does not exist.","type":"invalid_request_error","param":"model","code":"model_not_found"}}`, 404},
		"no JSON":            {"completions", `{`, "", 400},
		"no prompt":          {"completions", `{"model":"acme/tiny-1b"}`, "", 400},
		"two prompts":        {"completions", `{"model":"acme/tiny-1b","prompt":["a","b"]}`, "", 400},
		"no messages":        {"chat/completions", `{"model":"acme/tiny-1b"}`, "", 400},
		"content a number":   {"chat/completions", `{"model":"acme/tiny-1b","messages":[{"role":"user","content":5}]}`, "", 400},
		"no tokens":          {"completions", `{"model":"acme/tiny-1b","prompt":"x","max_tokens":0}`, "", 400},
		"many answers":       {"completions", `{"model":"acme/tiny-1b","prompt":"x","n":2}`, "", 400},
		"beyond the context": {"completions", `{"model":"acme/tiny-1b","prompt":"x","max_tokens":19}`, `{"error":{"message":"Request Entity Too Large","type":"invalid_request_error","param":null,"code":null}}`, 400},
	} {
		got := post(t, b.frontend+"/v1/"+tc.path, tc.body)
		if got.code != tc.code || !strings.Contains(got.body, `"invalid_request_error"`) || tc.want != "" && got.body != tc.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAnAdapterIsServedOnlyByThoseWhoHaveIt(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var workers []tenant
	for i := range 3 {
		workers = append(workers, b.worker(fmt.Sprintf("w%d", i)))
	}
	workers[1].load(t, "acme/x")
	b.awaitModels(baseModel, "acme/x")
	for range 6 {
		for _, model := range []string{"acme/x", baseModel} {
			if code, text, problem := b.ask(model); code != 200 || text != "token-0 token-1 token-2" {
				t.Fatalf("%s: %d %q %s", model, code, text, problem)
			}
		}
	}
	for i, w := range workers {
		got := w.Counters().Requests
		if (got["acme/x"] == 6) != (i == 1) || got[baseModel] == 0 {
			t.Errorf("worker %d got %v", i, got)
		}
	}
}

func TestALostPublishHidesAnAdapterAndALostWithdrawalLeavesItThere(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	w := b.worker("w0")
	w.Faults().Set(Fault{On: OnPublish, Kind: FaultLost, Adapter: "acme/x"})
	w.load(t, "acme/x")
	w.load(t, "acme/y")
	b.awaitModels(baseModel, "acme/y")
	if code, _, _ := b.ask("acme/x"); code != 404 || len(w.Loaded()) != 2 {
		t.Errorf("the hidden adapter answers %d; loaded are %v", code, w.Loaded())
	}
	w.Faults().Set()
	w.load(t, "acme/x")
	b.awaitModels(baseModel, "acme/x", "acme/y")
	w.Faults().Set(Fault{On: OnPublish, Kind: FaultLost})
	if got := request(t, "DELETE", w.url+"/v1/loras/acme/x", ""); got.code != 200 {
		t.Fatalf("unload: %+v", got)
	}
	if code, _, problem := b.ask("acme/x"); code != 404 || problem != `The model "acme/x" does not exist.` {
		t.Errorf("the ghost answers %d %s", code, problem)
	}
	b.awaitModels(baseModel, "acme/x", "acme/y")
}

func TestAPromptIsReadByPrefillAndAnsweredByDecode(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	prefill := b.worker("p0", as(RolePrefill))
	b.awaitModels() // who only reads cannot be asked
	decode := b.worker("d0", as(RoleDecode))
	b.awaitModels(baseModel)
	for range 3 {
		if code, text, problem := b.ask(baseModel); code != 200 || text != "token-0 token-1 token-2" {
			t.Fatalf("%d %q %s", code, text, problem)
		}
	}
	if p, d := prefill.Counters().Requests[baseModel], decode.Counters().Requests[baseModel]; p != 3 || d != 3 {
		t.Errorf("prefill got %d requests, decode %d", p, d)
	}
	prefill.Faults().Set(Fault{On: OnGenerate, Kind: FaultStatus, Status: 500})
	if code, _, problem := b.ask(baseModel); code != 200 {
		t.Errorf("without prefill, decode does it alone: %d %s", code, problem)
	}
}

func TestAnAdapterGoesThroughThePrefillWorkerThatHasIt(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	with, without := b.worker("p0", as(RolePrefill)), b.worker("p1", as(RolePrefill))
	decode := b.worker("d0", as(RoleDecode))
	with.load(t, "acme/x")
	decode.load(t, "acme/x")
	b.awaitModels(baseModel, "acme/x")
	for range 4 {
		if code, _, problem := b.ask("acme/x"); code != 200 {
			t.Fatalf("%d %s", code, problem)
		}
	}
	if a, b := with.Counters().Requests["acme/x"], without.Counters().Requests["acme/x"]; a != 4 || b != 0 {
		t.Errorf("the worker with the adapter got %d, the other %d", a, b)
	}
}

func TestAnotherWorkerHelpsWhenOneCannot(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{
		"on=generate,kind=full", "on=generate,kind=status,status=429", "on=generate,kind=status,status=404", "on=generate,kind=reset",
		"on=generate,kind=garbage",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			bad := b.worker("w0")
			b.worker("w1")
			b.awaitModels(baseModel)
			f, err := ParseFault(fault)
			if err != nil {
				t.Fatal(err)
			}
			bad.Faults().Set(f)
			for range 4 {
				if code, _, problem := b.ask(baseModel); code != 200 {
					t.Errorf("%d %s", code, problem)
				}
			}
			if bad.Faults().List()[0].Struck == 0 {
				t.Error("the bad worker was never asked")
			}
		})
	}
}

func TestWhenNoWorkerCanTheClientHearsWhy(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	w := b.worker("w0")
	b.awaitModels(baseModel)
	for fault, want := range map[string]int{
		"on=generate,kind=full":                                        503,
		"on=generate,kind=full,status=429":                             429,
		"on=generate,kind=status,status=500":                           500,
		"on=generate,kind=garbage":                                     502,
		"on=generate,kind=huge,bytes=2000000":                          502,
		"on=generate,kind=redirect,location=http://127.0.0.1:1/nobody": 502,
		"on=generate,kind=reset":                                       502,
	} {
		f, err := ParseFault(fault)
		if err != nil {
			t.Fatal(err)
		}
		w.Faults().Set(f)
		if code, _, problem := b.ask(baseModel); code != want || problem == "" {
			t.Errorf("%s: %d %q, want %d", fault, code, problem, want)
		}
	}
}

func TestAStreamThatBreaksOffDoesNotLookComplete(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	// A worker that sends one token and hangs up.
	listener := listen(t)
	startOn(t, listener, func(ctx context.Context, l net.Listener) error {
		return serve(ctx, server{listener: l, grace: time.Second, stopping: func() {}, handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintln(w, `{"index":0}`)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})})
	})
	m := describe(Identity{Instance: "w0", Namespace: "dyn", Component: "backend"}, Card{Name: baseModel, Role: RoleAggregated}, nil)
	if err := b.directory.Publisher("w0", listener.Addr().String()).Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	b.awaitModels(baseModel)
	got := post(t, b.frontend+"/v1/completions", `{"model":"acme/tiny-1b","prompt":"x","stream":true}`)
	if got.err == nil || !strings.Contains(got.body, "token-0") || strings.Contains(got.body, "[DONE]") {
		t.Errorf("got %+v", got)
	}
}

func TestWorkersOfAnotherNamespaceAreNotUsed(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.worker("w0", func(o *WorkerOptions) { o.Identity.Namespace, o.Model = "other", "their/model" })
	b.worker("w1")
	b.awaitModels(baseModel)
}

func TestPlannersFindTheirMetrics(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.worker("w0")
	b.awaitModels(baseModel)
	b.ask(baseModel)
	b.ask("no/such")
	metrics := get(t, b.frontend+"/metrics").body
	for _, line := range []string{
		`dynamo_frontend_requests_total{dynamo_namespace="dyn",model="acme/tiny-1b",status="success"} 1`,
		`dynamo_frontend_refused_requests_total{code="404",dynamo_namespace="dyn"} 1`,
		`dynamo_frontend_time_to_first_token_seconds_count{dynamo_namespace="dyn",model="acme/tiny-1b"} 1`,
		`dynamo_frontend_inter_token_latency_seconds_count{dynamo_namespace="dyn",model="acme/tiny-1b"} 2`,
		`dynamo_frontend_request_duration_seconds_count{dynamo_namespace="dyn",model="acme/tiny-1b"} 1`,
		`dynamo_frontend_input_sequence_tokens_sum{dynamo_namespace="dyn",model="acme/tiny-1b"} 5`,
		`dynamo_frontend_output_sequence_tokens_sum{dynamo_namespace="dyn",model="acme/tiny-1b"} 3`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("metrics lack %s:\n%s", line, metrics)
		}
	}
}

func TestAFixedListOfWorkersIsAskedWhatTheyServe(t *testing.T) {
	t.Parallel()
	w := newBed(t).worker("w0")
	f := NewFrontend(FrontendOptions{
		Discovery: Addresses{Hosts: []string{w.url, "127.0.0.1:1"}, Every: 5 * time.Millisecond, Clock: clock.RealClock{}, Client: client()},
		Client:    NewClient(nil), Clock: clock.RealClock{}, Grace: time.Second,
	})
	t.Cleanup(f.options.Client.CloseIdleConnections)
	b := &bed{t: t, frontend: "http://" + start(t, f.Serve)}
	b.awaitModels(baseModel)
	w.load(t, "acme/x")
	b.awaitModels(baseModel, "acme/x")
	if code, _, problem := b.ask("acme/x"); code != 200 {
		t.Errorf("%d %s", code, problem)
	}
}

func TestAddressesAreMapped(t *testing.T) {
	t.Parallel()
	w := newBed(t).worker("w0")
	lookup, err := ParseAddressMap("10.9.8.7:9090=" + strings.TrimPrefix(w.url, "http://") + ", ")
	if err != nil {
		t.Fatal(err)
	}
	mapped := NewClient(MapAddresses(lookup))
	t.Cleanup(mapped.CloseIdleConnections)
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://10.9.8.7:9090/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := mapped.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = got.Body.Close()
	if got.StatusCode != 200 {
		t.Errorf("got %s", got.Status)
	}
	if _, err := ParseAddressMap("10.9.8.7:9090"); err == nil {
		t.Error("half a pair was accepted")
	}
}
