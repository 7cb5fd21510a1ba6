// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Machine is where a run took place. Times of two machines cannot be compared, ratios and counts can.
type Machine struct {
	CPU       string `json:"cpu"`
	Cores     int    `json:"cores"`
	MemoryMiB int    `json:"memoryMiB"`
	Kernel    string `json:"kernel"`
	GoVersion string `json:"goVersion"`
}

// ThisMachine describes the machine. What cannot be found out stays empty.
func ThisMachine() Machine {
	m := Machine{Cores: runtime.NumCPU(), GoVersion: runtime.Version()}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = member(string(text), "model name")
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kilobytes int
		if _, err := fmt.Sscanf(member(string(text), "MemTotal"), "%d kB", &kilobytes); err == nil {
			m.MemoryMiB = kilobytes >> 10
		}
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(text))
	}
	return m
}

// member is what stands behind the first "name :" of a text.
func member(text, name string) string {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Commit is the commit that is checked out, and whether files differ from it. Results do not count.
func Commit(ctx context.Context) (commit string, changed bool, err error) {
	head, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD").Output()
	if err != nil {
		return "", false, fmt.Errorf("ask git for the commit: %w", err)
	}
	status, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--", ":/",
		":(top,exclude)test/perf/results", ":(top,exclude)docs").Output()
	if err != nil {
		return "", false, fmt.Errorf("ask git for changes: %w", err)
	}
	return strings.TrimSpace(string(head)), len(status) > 0, nil
}
