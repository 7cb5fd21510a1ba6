// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/dynamo-operator/dynamo-operator/internal/lora"
)

// workers are endpoints by address. Those that are slow answer when the caller has given up.
type workers struct {
	mu    sync.Mutex
	has   map[string]string
	loads map[string]int
	slow  map[string]bool
}

func newWorkers() *workers {
	return &workers{has: map[string]string{}, loads: map[string]int{}, slow: map[string]bool{}}
}

// at tells where an endpoint has its adapter from, and how often it was loaded there.
func (w *workers) at(address string) (uri string, loads int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.has[address], w.loads[address]
}

// take takes the adapter from an endpoint behind everybody's back.
func (w *workers) take(address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.has, address)
}

// setSlow makes an endpoint slow, or quick again.
func (w *workers) setSlow(address string, slow bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow[address] = slow
}

// wait stands for the time that a slow endpoint takes, and tells whether the caller is still there afterwards.
func (w *workers) wait(ctx context.Context, address string) error {
	w.mu.Lock()
	slow := w.slow[address]
	w.mu.Unlock()
	if !slow {
		return nil
	}
	<-ctx.Done()
	return &lora.Error{Text: "given up", Doubt: true}
}

func (w *workers) Load(ctx context.Context, address, _, uri string) error {
	if err := w.wait(ctx, address); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loads[address]++
	if w.has[address] == "" {
		w.has[address] = uri
	}
	return nil
}

func (w *workers) Unload(ctx context.Context, address, _ string) error {
	if err := w.wait(ctx, address); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.has, address)
	return nil
}

func (w *workers) Loaded(ctx context.Context, address string) (map[string]bool, bool, error) {
	if err := w.wait(ctx, address); err != nil {
		return nil, false, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return map[string]bool{"sql": w.has[address] != ""}, true, nil
}

// keep runs a keeper whose time passes as in life, only faster.
func keep(t *testing.T, w *workers, test func(k *Keeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := &Keeper{
			Calls: w, Clock: clock.RealClock{}, Changed: func(types.NamespacedName) {},
			Count: func(string, error, time.Duration) {}, Enter: enter,
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- k.Start(ctx) }()
		test(k)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// enter lets every call through.
func enter(ctx context.Context, _ string, call func(context.Context)) error {
	call(ctx)
	return nil
}

var anyModel = types.NamespacedName{Namespace: "ns", Name: "m"}

func at(address, uri string) Want {
	return Want{Target: Target{Pod: types.UID(address), Name: "sql"}, Address: address, URI: uri, Recorded: uri}
}

func TestASlowEndpointHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorkers()
	w.setSlow("a", true)
	keep(t, w, func(k *Keeper) {
		k.Want("1", anyModel, []Want{at("a", "s3://b"), at("b", "s3://b")})
		k.Want("2", types.NamespacedName{Namespace: "ns", Name: "other"}, []Want{at("c", "s3://c")})
		synctest.Wait()
		for address, want := range map[string]string{"b": "s3://b", "c": "s3://c"} {
			if got, _ := w.at(address); got != want {
				t.Errorf("%s has %q", address, got)
			}
		}
	})
}

func TestAWishThatChangesWaitsForTheCallThatIsUnderWay(t *testing.T) {
	t.Parallel()
	w := newWorkers()
	keep(t, w, func(k *Keeper) {
		k.Want("1", anyModel, []Want{at("a", "s3://b")})
		synctest.Wait()
		w.setSlow("a", true)
		other := at("a", "s3://other")
		other.Recorded = "s3://b"
		k.Want("1", anyModel, []Want{other}) // takes the old one away, slowly
		synctest.Wait()
		w.setSlow("a", false)
		reports := k.Want("1", anyModel, []Want{at("a", "s3://b")})
		if r := reports[at("a", "").Target]; r.Settled {
			t.Errorf("settled while a call is under way: %+v", r)
		}
		if has, loads := w.at("a"); has != "s3://b" || loads != 1 {
			t.Errorf("endpoint has %q after %d loads", has, loads)
		}
	})
}

func TestWhatFailedIsTriedAgainByItself(t *testing.T) {
	t.Parallel()
	w := newWorkers()
	var changes sync.Map
	keep(t, w, func(k *Keeper) {
		k.Changed = func(m types.NamespacedName) { changes.Store(m, true) }
		failing := &failingOnce{workers: w}
		k.Calls = failing
		k.Want("1", anyModel, []Want{at("a", "s3://b")})
		synctest.Wait()
		if has, _ := w.at("a"); has != "" {
			t.Error("the first call did not fail")
		}
		<-time.After(firstRetry)
		synctest.Wait()
		if has, loads := w.at("a"); has != "s3://b" || loads != 1 {
			t.Errorf("endpoint has %q after %d loads", has, loads)
		}
		if _, told := changes.Load(anyModel); !told {
			t.Error("nobody was told")
		}
		k.Forget("1")
		if len(k.models) != 0 {
			t.Error("the model is remembered")
		}
	})
}

func TestNobodyIsCalledInANamespaceOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorkers()
	keep(t, w, func(k *Keeper) {
		var barred atomic.Pointer[error]
		k.Enter = func(ctx context.Context, _ string, call func(context.Context)) error {
			if why := barred.Load(); why != nil {
				return *why
			}
			return enter(ctx, "", call)
		}
		elsewhere := ErrElsewhere
		barred.Store(&elsewhere)
		k.Want("1", anyModel, []Want{at("a", "s3://b")})
		<-time.After(time.Hour)
		synctest.Wait()
		if has, _ := w.at("a"); has != "" {
			t.Error("an endpoint was called")
		}
		if r := k.Known("1")[at("a", "").Target]; r.Settled || r.Problem != "" {
			t.Errorf("told of an endpoint that nobody called: %+v", r)
		}
		why := errors.New("the API server does not answer")
		barred.Store(&why)
		<-time.After(lastRetry)
		synctest.Wait()
		if r := k.Known("1")[at("a", "").Target]; r.Problem != why.Error() {
			t.Errorf("nobody is told why: %+v", r)
		}
		barred.Store(nil)
		<-time.After(lastRetry)
		synctest.Wait()
		if has, _ := w.at("a"); has != "s3://b" {
			t.Error("the endpoint was not called when it could be")
		}
	})
}

func TestWhatIsKnownIsInDoubtAfterAnotherOperatorHasWorked(t *testing.T) {
	t.Parallel()
	w := newWorkers()
	keep(t, w, func(k *Keeper) {
		k.Want("1", anyModel, []Want{at("a", "s3://b")})
		synctest.Wait()
		w.take("a") // by somebody else
		k.Doubt("elsewhere")
		if r := k.Known("1")[at("a", "").Target]; !r.Settled {
			t.Errorf("in doubt because of another namespace: %+v", r)
		}
		k.Doubt(anyModel.Namespace)
		if r := k.Known("1")[at("a", "").Target]; r.Settled || !r.Unsure {
			t.Errorf("certain of what somebody else may have changed: %+v", r)
		}
		k.Want("1", anyModel, []Want{at("a", "s3://b")})
		synctest.Wait()
		if has, loads := w.at("a"); has != "s3://b" || loads != 2 {
			t.Errorf("endpoint has %q after %d loads", has, loads)
		}
	})
}

// failingOnce refuses the first load.
type failingOnce struct {
	*workers
	failed bool
}

func (f *failingOnce) Load(ctx context.Context, address, name, uri string) error {
	if !f.failed {
		f.failed = true
		return refused
	}
	return f.workers.Load(ctx, address, name, uri)
}
