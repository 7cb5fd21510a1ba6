// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdkeys

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// peers answers for each host as the test says and writes down what was asked.
type peers struct {
	answers map[string]func(*http.Request) (*http.Response, error)

	mu    sync.Mutex
	asked []string
	last  map[string][]byte
}

func (p *peers) RoundTrip(req *http.Request) (*http.Response, error) {
	p.mu.Lock()
	p.asked = append(p.asked, req.Method+" "+req.URL.String())
	err := json.NewDecoder(req.Body).Decode(&p.last)
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return p.answers[req.URL.Host](req)
}

func (p *peers) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked)
}

func answer(code int, body string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Status: http.StatusText(code), Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

func refuse(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }

// hang answers when the caller has lost patience.
func hang(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

func client(addresses string, c clock.PassiveClock, answers map[string]func(*http.Request) (*http.Response, error)) (*Client, *peers) {
	p := &peers{answers: answers}
	made := New(addresses, c)
	made.http = &http.Client{Transport: p}
	return made, p
}

func TestExactlyTheKeysBelowAPrefixAreAskedFor(t *testing.T) {
	t.Parallel()
	c, p := client("etcd:2379", clock.RealClock{}, map[string]func(*http.Request) (*http.Response, error){"etcd:2379": answer(http.StatusOK, `{"deleted":"2"}`)})
	if err := c.DeletePrefix(t.Context(), "/ns-chat/components/decode/"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"POST http://etcd:2379/v3/kv/deleterange"}, p.asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	want := map[string][]byte{"key": []byte("/ns-chat/components/decode/"), "range_end": []byte("/ns-chat/components/decode0")}
	if diff := cmp.Diff(want, p.last); diff != "" {
		t.Errorf("range (-want +got):\n%s", diff)
	}
}

func TestAddressesMayComeWithOrWithoutASchemeAndSeveralAtOnce(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                              nil,
		"etcd:2379":                     {"http://etcd:2379"},
		"https://etcd.example.com:2379": {"https://etcd.example.com:2379"},
		"a:1, http://b:2/ ,,c:3,":       {"http://a:1", "http://b:2", "http://c:3"},
	} {
		if diff := cmp.Diff(want, New(text, clock.RealClock{}).addresses); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestTheNextAddressIsAskedWhenOneFails(t *testing.T) {
	t.Parallel()
	c, p := client("a:1,b:2,c:3", clock.RealClock{}, map[string]func(*http.Request) (*http.Response, error){
		"a:1": refuse, "b:2": answer(http.StatusServiceUnavailable, "no leader"), "c:3": answer(http.StatusOK, "{}"),
	})
	if err := c.DeletePrefix(t.Context(), "/n/components/s/"); err != nil || p.count() != 3 {
		t.Errorf("%d requests ended with %v", p.count(), err)
	}
}

func TestAFailureNamesEveryAddressAndWhatItSaid(t *testing.T) {
	t.Parallel()
	c, _ := client("a:1,b:2", clock.RealClock{}, map[string]func(*http.Request) (*http.Response, error){
		"a:1": refuse, "b:2": answer(http.StatusServiceUnavailable, "no leader\n"),
	})
	err := c.DeletePrefix(t.Context(), "/n/components/s/")
	want := "etcd at http://a:1 does not answer: connection refused\netcd at http://b:2 answered Service Unavailable: no leader"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestAFailureTellsNoPassword(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"http://me:secret@a:1", "http://me:secret@[a:1", "http://me:secret@a:1/%zz"} {
		c, _ := client(address, clock.RealClock{}, map[string]func(*http.Request) (*http.Response, error){"a:1": refuse})
		if err := c.DeletePrefix(t.Context(), "/n/components/s/"); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestAnAddressThatHangsLeavesTimeForTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, p := client("a:1,b:2", clock.RealClock{}, map[string]func(*http.Request) (*http.Response, error){"a:1": hang, "b:2": answer(http.StatusOK, "{}")})
		start := time.Now()
		if err := c.DeletePrefix(t.Context(), "/n/components/s/"); err != nil || p.count() != 2 {
			t.Errorf("%d requests ended with %v", p.count(), err)
		}
		if took := time.Since(start); took != timeout/2 {
			t.Errorf("it took %s", took)
		}
	})
}

func TestACallEndsInTimeWhateverHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := client("a:1,b:2,c:3", clock.RealClock{}, map[string]func(*http.Request) (*http.Response, error){"a:1": hang, "b:2": hang, "c:3": hang})
		start := time.Now()
		if err := c.DeletePrefix(t.Context(), "/n/components/s/"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ended with %v", err)
		}
		if took := time.Since(start); took > timeout {
			t.Errorf("it took %s", took)
		}
	})
}

func TestAnEtcdThatFailedIsAskedOnceASecondWhoeverCalls(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	up := false
	c, p := client("a:1", now, map[string]func(*http.Request) (*http.Response, error){"a:1": func(req *http.Request) (*http.Response, error) {
		if up {
			return answer(http.StatusOK, "{}")(req)
		}
		return refuse(req)
	}})
	for second := range 3 {
		for _, prefix := range []string{"/n/components/a/", "/n/components/b/", "/n/components/c/"} {
			if err := c.DeletePrefix(t.Context(), prefix); err == nil || !strings.Contains(err.Error(), "http://a:1") {
				t.Errorf("in second %d: %v", second, err)
			}
		}
		if p.count() != second+1 {
			t.Errorf("%d requests in %d seconds", p.count(), second+1)
		}
		now.SetTime(now.Now().Add(rest))
	}
	up = true
	for range 3 {
		if err := c.DeletePrefix(t.Context(), "/n/components/a/"); err != nil {
			t.Errorf("etcd is back, but: %v", err)
		}
	}
	if p.count() != 6 {
		t.Errorf("%d requests, want 3 that failed and 3 that did not", p.count())
	}
}

func TestOneCallerFindsOutWhetherEtcdIsBackWhileOthersGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, p := client("a:1", clock.RealClock{}, map[string]func(*http.Request) (*http.Response, error){"a:1": hang})
		if err := c.DeletePrefix(t.Context(), "/n/components/a/"); err == nil {
			t.Fatal("it does not hang")
		}
		<-time.After(rest)
		go func() { _ = c.DeletePrefix(t.Context(), "/n/components/a/") }()
		synctest.Wait()
		start := time.Now()
		for range 10 {
			if err := c.DeletePrefix(t.Context(), "/n/components/b/"); err == nil {
				t.Error("it does not hang")
			}
		}
		if took := time.Since(start); took != 0 || p.count() != 2 {
			t.Errorf("others waited %s, and %d requests were sent", took, p.count())
		}
	})
}

func TestNothingButAPrefixThatEndsInASlashIsDeleted(t *testing.T) {
	t.Parallel()
	c, p := client("a:1", clock.RealClock{}, nil)
	for _, prefix := range []string{"", "/", "/n/components/s"} {
		if err := c.DeletePrefix(t.Context(), prefix); err == nil {
			t.Errorf("%q was taken", prefix)
		}
	}
	if p.count() > 0 {
		t.Errorf("sent: %v", p.asked)
	}
	if err := New("", clock.RealClock{}).DeletePrefix(t.Context(), "/n/components/s/"); err == nil {
		t.Error("nobody was asked, and no error tells")
	}
}
