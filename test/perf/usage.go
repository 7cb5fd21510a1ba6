// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process has had of the machine so far.
type Usage struct {
	// CPU is user and system time.
	CPU time.Duration
	// Resident is memory in use now, Peak the most there ever was, in bytes.
	Resident, Peak int64
}

// MiB is a number of bytes for people.
func MiB(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// ReadUsage asks the kernel.
func ReadUsage(pid int) (Usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("measure process %d: %w", pid, err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("measure process %d: %w", pid, err)
	}
	u, err := parseUsage(stat, status)
	if err != nil {
		return u, fmt.Errorf("measure process %d: %w", pid, err)
	}
	return u, nil
}

// Fields of /proc/PID/stat after the name of the program, which is in parentheses and may contain anything.
const (
	fieldUserTime   = 11
	fieldSystemTime = 12
	// tick is the unit of both. Linux shows hundredths of a second whatever it counts in.
	tick = 10 * time.Millisecond
)

func parseUsage(stat, status []byte) (Usage, error) {
	end := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	if end < 0 || len(fields) <= fieldSystemTime {
		return Usage{}, fmt.Errorf("stat is %q", stat)
	}
	var u Usage
	for _, field := range []int{fieldUserTime, fieldSystemTime} {
		ticks, err := strconv.ParseInt(fields[field], 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("stat is %q: %w", stat, err)
		}
		u.CPU += time.Duration(ticks) * tick
	}
	var err error
	if u.Resident, err = kilobytes(status, "VmRSS:"); err != nil {
		return u, err
	}
	u.Peak, err = kilobytes(status, "VmHWM:")
	return u, err
}

// kilobytes reads a line such as "VmRSS:  1234 kB".
func kilobytes(status []byte, name string) (int64, error) {
	lines := bufio.NewScanner(bytes.NewReader(status))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) != 3 || words[0] != name {
			continue
		}
		n, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s %w", name, err)
		}
		return n << 10, nil
	}
	return 0, fmt.Errorf("status has no %s", name)
}
