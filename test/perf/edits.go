// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

// SentWhile sends something again and again, and asks after each whether that is still going on which it was sent into. It ends with
// the first time that it is not, or after so many.
//
// What was sent before an answer of yes was certainly sent in time, however late it is served, and counts. The last is in doubt: the end may have
// come before it was sent, or while it was.
func SentWhile[T any](most int, send func() T, going func() bool) (during, inDoubt []T) {
	for range most {
		next := send()
		if !going() {
			return during, []T{next}
		}
		during = append(during, next)
	}
	return during, nil
}
