// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"testing"
)

// The framework declares this flag on the command line when it is linked in, so that no test of the configuration sees it.
func TestAKubeconfigCanBeNamedOnTheCommandLine(t *testing.T) {
	t.Parallel()
	f := flag.CommandLine.Lookup("kubeconfig")
	if f == nil || f.DefValue != "" {
		t.Errorf("flag --kubeconfig is %+v, want one with an empty default", f)
	}
}
