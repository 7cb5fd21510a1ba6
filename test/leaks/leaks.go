// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leaks fails a test package that leaves goroutines behind.
//
// Packages with a control plane are checked by test/harness when that is stopped. Packages without one, whose code or tests start
// goroutines, call [Main] from their TestMain.
package leaks

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const (
	// patience is how long goroutines have to end that were told to. It is spent only where one does not.
	patience = 10 * time.Second
	// own begins every name of a function of this tree.
	own = "github.com/dynamo-operator/dynamo-operator/"
)

// kept are functions of others in which a goroutine may be for the rest of the process, each with the reason. Only what is innermost
// counts, and none of ours is ever ignored: see [ownGoroutines].
var kept = []struct{ function, why string }{
	{
		"k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop",
		"controller-runtime watches metadata through it; the last word of a watch that is cancelled is an error, for which nobody waits any more",
	},
	{
		"sigs.k8s.io/controller-runtime/pkg/cache.newMultiNamespaceInformer.func1",
		"it waits until an informer is filled, which one that is stopped before never is",
	},
	{
		"sigs.k8s.io/controller-runtime/pkg/cache.newMultiNamespaceInformerHandlerRegistration.func1",
		"it waits for the same, for whoever is to be told",
	},
}

// Main runs the tests of a package and exits. It belongs in TestMain.
func Main(m *testing.M) { os.Exit(Checked(m.Run())) }

// Checked is the exit code of tests that ended with a code: another one if they passed and left goroutines behind. Tests that failed
// may have left anything.
func Checked(code int) int {
	if code != 0 {
		return code
	}
	if err := Check(); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: goroutines outlive the tests:", err)
		return 1
	}
	return 0
}

// Check waits until no goroutine is left but the caller's and those that are kept, and tells of the others.
func Check() error { return check(patience) }

func check(within time.Duration) error {
	var ignored []goleak.Option
	for _, k := range kept {
		ignored = append(ignored, goleak.IgnoreTopFunction(k.function))
	}
	var err error
	for end := time.Now().Add(within); time.Now().Before(end); {
		// A connection that somebody may use again is no leak.
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		if err = errors.Join(goleak.Find(ignored...), ownGoroutines()); err == nil {
			return nil
		}
	}
	return err
}

// ownGoroutines tells of goroutines that run a function of this tree or were started by one, whatever else they run.
func ownGoroutines() error {
	stacks := make([]byte, 16<<20)
	all := strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n")
	var found []string
	for _, stack := range all[1:] { // the first is the caller's
		if strings.Contains(stack, own) {
			found = append(found, stack)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%d of this tree:\n%s", len(found), strings.Join(found, "\n\n"))
}
