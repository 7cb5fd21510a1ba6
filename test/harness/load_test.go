// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// notebook is a test that only writes down what it is told.
type notebook struct {
	testing.TB

	errors []string
}

func (n *notebook) Helper()             {}
func (n *notebook) Cleanup(func())      {}
func (n *notebook) Logf(string, ...any) {}
func (n *notebook) Errorf(format string, args ...any) {
	n.errors = append(n.errors, fmt.Sprintf(format, args...))
}

func TestALoadFailsWhenRequestsAreLostOrTooFew(t *testing.T) {
	t.Parallel()
	slow := func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond): // eight workers, so that 80 per second is all there can be
			return nil
		}
	}
	for name, tc := range map[string]struct {
		perSecond int
		send      func(context.Context) error
		want      string
	}{
		"as asked": {perSecond: 10, send: func(context.Context) error { return nil }},
		"lost":     {perSecond: 10, send: func(context.Context) error { return errors.New("refused") }, want: "requests were lost"},
		"too few":  {perSecond: 500, send: slow, want: "less than 80 % of 500"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &notebook{TB: t}
			l := StartLoad(n, tc.perSecond, tc.send).Strict()
			l.More(20)
			l.Stop(name)
			all := strings.Join(n.errors, "\n")
			if (tc.want == "") != (all == "") || !strings.Contains(all, tc.want) {
				t.Errorf("want %q, got %s", tc.want, all)
			}
		})
	}
}
