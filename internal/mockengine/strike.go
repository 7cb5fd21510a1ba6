// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"
)

const (
	// hugeBody is the size of a huge answer if nobody says how huge.
	hugeBody = 64 << 20
	// crashStatus is the exit code of a crash if nobody says which.
	crashStatus = 1
)

// struck lets the faults of an operation happen. It reports true if nothing is left to answer.
func (w *Worker) struck(rw http.ResponseWriter, r *http.Request, s strikeAt) bool {
	for _, f := range w.options.Faults.strike(s.on, s.adapter, s.late) {
		if !w.happen(rw, r, f) {
			return true
		}
	}
	return false
}

// strikeAt is an operation at which faults may strike.
type strikeAt struct {
	on      Operation
	adapter string
	late    bool
}

// happen lets one fault happen and tells whether the operation goes on.
func (w *Worker) happen(rw http.ResponseWriter, r *http.Request, f Fault) bool {
	switch f.Kind {
	case FaultLatency:
		if f.On == OnLoad || f.On == OnUnload {
			r = r.WithContext(context.WithoutCancel(r.Context()))
		}
		w.pause(r, w.options.Clock.After(f.Delay.Duration))
		return true
	case FaultHang:
		w.pause(r, nil)
	case FaultReset:
		panic(http.ErrAbortHandler) // the server's own way to end a connection
	case FaultCrash:
		w.options.Exit(cmp.Or(f.Status, crashStatus))
	case FaultLost: // happens where a worker publishes
	default:
		answerBadly(rw, r, f)
	}
	return false
}

// pause waits for the end of a delay. If the client or the worker ends first there is no answer, not even an empty one.
func (w *Worker) pause(r *http.Request, over <-chan time.Time) {
	select {
	case <-over:
		return
	case <-r.Context().Done():
	case <-w.stopping:
	}
	panic(http.ErrAbortHandler)
}

// answerBadly is an answer that a client should be ready for.
func answerBadly(rw http.ResponseWriter, r *http.Request, f Fault) {
	said := func(otherwise string) loraAnswer {
		return loraAnswer{Status: statusError, Message: cmp.Or(f.Message, otherwise)}
	}
	switch f.Kind {
	case FaultStatus:
		writeJSON(rw, f.Status, said(http.StatusText(f.Status)))
	case FaultError:
		writeJSON(rw, http.StatusOK, said("the engine failed"))
	case FaultFull:
		writeJSON(rw, cmp.Or(f.Status, fullStatus(f.On)), said("no free slot"))
	case FaultGarbage:
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte("\x00\x01{not json")) // the client may be gone
	case FaultHuge:
		writeFiller(rw, cmp.Or(f.Bytes, hugeBody))
	case FaultRedirect:
		http.Redirect(rw, r, cmp.Or(f.Location, r.URL.Path), cmp.Or(f.Status, http.StatusTemporaryRedirect))
	}
}

// fullStatus is how a full worker refuses: generation by a code, everything else in the body.
func fullStatus(on Operation) int {
	if on == OnGenerate {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

// writeFiller writes a body of some size, without holding it.
func writeFiller(rw http.ResponseWriter, size int64) {
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	piece := bytes.Repeat([]byte(" "), 64<<10)
	for size > 0 {
		n, err := rw.Write(piece[:min(size, int64(len(piece)))])
		if err != nil {
			return // the client has had enough
		}
		size -= int64(n)
	}
}
