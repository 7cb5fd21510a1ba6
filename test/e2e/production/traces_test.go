// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package production_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// silence accepts connections and never says anything, as a collector does that hangs. It counts them.
func silence(t *testing.T) (address string, accepted func() int) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var open []net.Conn
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		wg.Wait()
		for _, conn := range open {
			_ = conn.Close()
		}
	})
	return listener.Addr().String(), func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(open)
	}
}

func TestACollectorThatIsDeadOrHangsHoldsNoEndUp(t *testing.T) {
	t.Parallel()
	hangs, reached := silence(t)
	for name, collector := range map[string]string{"dead": harness.UnusedAddress(t), "hangs": hangs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := harness.Namespace(t)
			harness.SimulateDeployments(t, ns)
			config := configFile(t, fmt.Sprintf("tracing: {endpoint: \"http://%s\"}\nnamespaceScope: {disabled: true}\nlogging: {development: false}\n", collector))
			elect := []string{"--config=" + config, "--leader-elect", "--leader-election-id=" + election, "--leader-election-namespace=" + ns}
			p := harness.StartProcess(t, harness.ProcessOptions{User: "operator-" + ns, Namespace: ns, Flags: elect})
			if err := harness.Client(t).Create(t.Context(), frontend(ns, "traced")); err != nil {
				t.Fatal(err)
			}
			harness.AwaitReady(t, ns, "traced")
			if name == "hangs" {
				harness.Eventually(t, time.Minute, "traces on their way", func() (bool, string) { return reached() > 0, "nobody came" })
			}
			told := time.Now()
			p.Signal(syscall.SIGTERM)
			harness.Eventually(t, time.Minute, "leadership given back", func() (bool, string) { return holder(t, ns) == "", holder(t, ns) })
			handed := time.Since(told)
			p.AwaitEnd(30 * time.Second)
			ended := time.Since(told)
			t.Logf("leadership was given back after %s, and the end came after %s", handed.Round(time.Millisecond), ended.Round(time.Millisecond))
			// What is left to send has five seconds; the rest is for a loaded machine.
			if handed > 4*time.Second || ended > 9*time.Second {
				t.Errorf("it gave leadership back after %s and ended after %s", handed, ended)
			}
			if verdict := p.Verdict(); verdict != "exit status 0" {
				t.Errorf("it ended with %s:\n%s", verdict, p.LastWords(20))
			}
			// Of one that hangs nothing is known yet.
			times := strings.Count(p.Log(), "Traces are lost")
			if times > 1 || times == 0 && name == "dead" || strings.Contains(p.Log(), "traces export") {
				t.Errorf("that traces are lost was said %d times:\n%s", times, p.LastWords(20))
			}
		})
	}
}
