// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command mocker runs a simulated inference engine or the front end before it. Called as python, python3 or sh it does what a
// manifest of a real graph wants of those, so that such a manifest runs with only its image replaced. See docs/mocker.md.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// What the command tells whoever called it.
const (
	exitFine    = 0
	exitProblem = 1
	exitUsage   = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := zap.New(zap.WriteTo(os.Stderr))
	ctrllog.SetLogger(log)
	p := program{
		environ: os.Environ(), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, log: log, running: &sync.WaitGroup{},
	}
	os.Exit(p.run(ctx, os.Args))
}

// program is what a command has around it: its environment, its streams. Commands of a script share a process and differ in
// these.
type program struct {
	environ        []string
	dir            string
	stdin          io.Reader
	stdout, stderr io.Writer
	log            logr.Logger
	// running counts commands of scripts, so that those in the background can end in order.
	running *sync.WaitGroup
}

var (
	// pythonName matches the interpreters that manifests name.
	pythonName = regexp.MustCompile(`^python[0-9.]*$`)
	shellName  = regexp.MustCompile(`^(ba|da|a)?sh$`)
)

// run executes one command line and returns its exit code. Its first word decides what it is, as with every command.
func (p program) run(ctx context.Context, argv []string) int {
	if command := p.command(argv[0]); command != nil {
		return command(ctx, argv[1:])
	}
	return p.mocker(ctx, argv[1:])
}

// command finds what the program does under another name; nil if nothing.
func (p program) command(name string) func(context.Context, []string) int {
	switch name = filepath.Base(name); {
	case pythonName.MatchString(name):
		return p.python
	case shellName.MatchString(name):
		return p.shell
	case name == "ray":
		return p.ray
	case name == "mpirun", name == "trtllm-llmapi-launch":
		return p.launch
	case name == "sleep":
		return p.sleep
	case name == "mocker":
		return p.mocker
	}
	return nil
}

const usage = `Usage:
  mocker worker [flags]                       simulate a worker of an engine
  mocker frontend [flags]                     simulate the front end
  mocker python3 -m dynamo.<module> [flags]   what an engine's image does
  mocker sh -c <script>                       what its shell does

As python3, python or sh, through a link of that name, it is those. See docs/mocker.md for flags and variables.`

func (p program) mocker(ctx context.Context, args []string) int {
	if len(args) == 0 {
		return p.complain(exitUsage, "%s", usage)
	}
	switch args[0] {
	case "worker":
		return p.worker(ctx, args[1:])
	case "frontend":
		return p.frontend(ctx, args[1:])
	case "help", "-h", "--help":
		_, _ = fmt.Fprintln(p.stdout, usage)
		return exitFine
	case "mocker":
	default:
		if command := p.command(args[0]); command != nil {
			return command(ctx, args[1:])
		}
	}
	return p.complain(exitUsage, "mocker: unknown command %q\n%s", args[0], usage)
}

// complain writes a line for people and returns the code. There is nobody left to tell if that fails.
func (p program) complain(code int, format string, args ...any) int {
	_, _ = fmt.Fprintf(p.stderr, format+"\n", args...)
	return code
}

// idle stands in for what runs beside engines and is not simulated: it lives until it is told to end.
func (p program) idle(ctx context.Context, what string) int {
	p.log.Info("Nothing is simulated here; the process waits for its end", "instead of", what)
	<-ctx.Done()
	return exitFine
}

// sleep waits, as scripts do between two looks at something.
func (p program) sleep(ctx context.Context, args []string) int {
	var whole time.Duration
	for _, arg := range args {
		d, err := parseSeconds(arg)
		if err != nil {
			return p.complain(exitProblem, "sleep: %v", err)
		}
		whole += d
	}
	select {
	case <-ctx.Done():
		return exitProblem
	case <-time.After(whole):
		return exitFine
	}
}
