// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scoreboard_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
	"github.com/dynamo-operator/dynamo-operator/test/perf"
)

// TestProfile shows what an operator does with its time and its memory while n graphs become Ready. It runs inside this
// process, where everybody else is, too: what belongs to the operator carries a label.
//
//	make perf PERFFLAGS='-run TestProfile$$ -graphs=200 -profiles=/tmp/profiles'
//	go tool pprof -tagfocus=part=operator /tmp/profiles/cpu.pprof
//
// There are no webhooks, which need a process of their own; nothing of this is a figure.
func TestProfile(t *testing.T) {
	if !profilesWanted(t) {
		return
	}
	b := perf.NewBed(t, "")
	b.Simulate()
	recorder := b.Record()
	runtime.SetMutexProfileFraction(10)
	defer runtime.SetMutexProfileFraction(0)
	cpu := create(t, "cpu.pprof")
	if err := pprof.StartCPUProfile(cpu); err != nil {
		t.Fatal(err)
	}
	// Goroutines inherit the labels of those who start them.
	pprof.Do(t.Context(), pprof.Labels("part", "operator"), func(context.Context) { harness.StartOperator(t, harness.ClusterWide) })
	sent := b.CreateGraphs(*usual, b.Graph)
	ready := recorder.AwaitAll(*usual, 1, perf.Limit(*usual))
	pprof.StopCPUProfile()
	runtime.GC() // what nobody holds any more is no part of the heap
	for _, name := range []string{"heap", "allocs", "mutex"} {
		if err := pprof.Lookup(name).WriteTo(create(t, name+".pprof"), 0); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d graphs were Ready after %s; profiles are in %s", *usual, perf.Span(sent, ready), *profiles)
}

// TestProfileOfTheAPIServer shows what the API server does with its time while n graphs become Ready, while the null writer makes them, and
// while creations are admitted: in profile after profile, because some of it grows with what there is.
//
//	make perf PERFFLAGS='-run TestProfileOfTheAPIServer -graphs=2000 -profiles=/tmp/profiles'
//	go tool pprof -top -cum /tmp/profiles/operator-3.pprof
func TestProfileOfTheAPIServer(t *testing.T) {
	if !profilesWanted(t) {
		return
	}
	t.Run("operator", func(t *testing.T) {
		s := perf.NewStage(t, perf.BuildOperator(t))
		stop := profileAPIServer(t, "operator")
		sent := s.CreateGraphs(*usual, s.Graph)
		ready := s.Recorder.AwaitAll(*usual, 1, perf.Limit(*usual))
		stop()
		t.Logf("%d graphs were Ready after %s", *usual, perf.Span(sent, ready))
	})
	t.Run("null writer", func(t *testing.T) {
		b := perf.NewBed(t, "")
		stop := profileAPIServer(t, "nullwriter")
		w := b.NullWriter(*usual)
		stop()
		t.Logf("the null writer took %s for %d graphs", w.Span, *usual)
	})
	t.Run("admission", func(t *testing.T) {
		s := perf.NewStage(t, perf.BuildOperator(t))
		count := *rate * *samples / 8 // twenty-five seconds at the usual numbers, more than two profiles take
		send := s.Rehearsals(count)
		for _, webhooks := range []bool{true, false} {
			if !webhooks {
				s.RemoveWebhooks()
			}
			admitted(t, s, webhooks, send, count/5)
			stop := profileAPIServer(t, fmt.Sprint("admission-webhooks-", webhooks))
			admit(t, send, count)
			stop()
		}
	})
}

// profilesWanted makes the directory for profiles. A run of everything is not about them; whoever asks for them by name has to say where
// they go.
func profilesWanted(t *testing.T) bool {
	t.Helper()
	if *profiles == "" {
		if asked := flag.Lookup("test.run").Value.String(); strings.Contains(asked, "Profile") {
			t.Fatalf("-run %s needs -profiles, a directory for the profiles", asked)
		}
		t.Log("nothing is profiled without -profiles")
		return false
	}
	if err := os.MkdirAll(*profiles, 0o755); err != nil {
		t.Fatal(err)
	}
	return true
}

// profileAPIServer writes one profile of ten seconds after the other, until it is told to stop.
func profileAPIServer(t *testing.T, name string) (stop func()) {
	t.Helper()
	api, err := kubernetes.NewForConfig(harness.RESTConfig(t, perf.GeneratorUser))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var profiling sync.WaitGroup
	written := 0
	profiling.Go(func() {
		for ctx.Err() == nil {
			profile, err := api.Discovery().RESTClient().Get().AbsPath("/debug/pprof/profile").Param("seconds", "10").DoRaw(ctx)
			if ctx.Err() != nil {
				return // the work is done, and the profile is not
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(*profiles, fmt.Sprintf("%s-%d.pprof", name, written)), profile, 0o644)
			}
			if err != nil {
				t.Errorf("profile the API server: %v", err)
				return
			}
			written++
		}
	})
	return func() {
		cancel()
		profiling.Wait()
		if written == 0 {
			t.Errorf("the work was done before there was a profile of ten seconds: take more than -graphs=%d", *usual)
		}
	}
}

func create(t *testing.T, name string) *os.File {
	t.Helper()
	file, err := os.Create(filepath.Join(*profiles, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	return file
}
