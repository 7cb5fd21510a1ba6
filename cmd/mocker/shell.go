// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// killAfter is how long a real command may take to end when the shell is told to.
const killAfter = 5 * time.Second

// script is what a shell was asked to run.
type script struct {
	text, name string
	params     []string
}

// shell runs a script. Commands that this program knows run inside it, others as processes.
func (p program) shell(ctx context.Context, args []string) int {
	s, problem := readScript(args)
	if problem != nil {
		return p.complain(exitUsage, "sh: %v", problem)
	}
	parsed, err := syntax.NewParser().Parse(strings.NewReader(s.text), s.name)
	if err != nil {
		return p.complain(exitUsage, "sh: %v", err)
	}
	options := []interp.RunnerOption{
		interp.Env(expand.ListEnviron(p.environ...)), interp.StdIO(p.stdin, p.stdout, p.stderr), interp.Params(s.params...), interp.ExecHandlers(p.within),
	}
	if p.dir != "" {
		options = append(options, interp.Dir(p.dir))
	}
	runner, err := interp.New(options...)
	if err != nil {
		return p.complain(exitProblem, "sh: %v", err)
	}
	err = runner.Run(ctx, parsed)
	if ctx.Err() != nil {
		p.running.Wait() // what runs in the background was told to end too
		return exitFine
	}
	status, ok := errors.AsType[interp.ExitStatus](err)
	switch {
	case err == nil:
		return exitFine
	case ok:
		return int(status)
	}
	return p.complain(exitProblem, "sh: %v", err)
}

// readScript understands "-c text name args", options before and within that word, and a file.
func readScript(args []string) (script, error) {
	var options []string
	for len(args) > 0 && len(args[0]) > 1 && (args[0][0] == '-' || args[0][0] == '+') {
		option := args[0]
		args = args[1:]
		if option == "--" {
			break
		}
		// A login shell differs in files that the image does not have.
		letters := strings.ReplaceAll(option[1:], "l", "")
		inline := strings.HasPrefix(option, "-") && !strings.HasPrefix(option, "--") && strings.Contains(letters, "c")
		letters = strings.ReplaceAll(letters, "c", "")
		if letters != "" && !strings.HasPrefix(option, "--") {
			options = append(options, option[:1]+letters)
			if strings.HasSuffix(letters, "o") && len(args) > 0 {
				options, args = append(options, args[0]), args[1:]
			}
		}
		if inline {
			return inlineScript(options, args)
		}
	}
	if len(args) == 0 {
		return script{}, errors.New("give a script, as -c text or as a file")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return script{}, err
	}
	return script{text: string(text), name: args[0], params: slices.Concat(options, []string{"--"}, args[1:])}, nil
}

func inlineScript(options, args []string) (script, error) {
	if len(args) == 0 {
		return script{}, errors.New("-c requires an argument")
	}
	s := script{text: args[0], name: "sh"}
	if args = args[1:]; len(args) > 0 {
		s.name, args = args[0], args[1:]
	}
	s.params = slices.Concat(options, []string{"--"}, args)
	return s, nil
}

// within runs commands that the program knows in its own process: they need no file of that name, and a crash of a worker is
// a crash of its container.
func (p program) within(interp.ExecHandlerFunc) interp.ExecHandlerFunc {
	return func(ctx context.Context, args []string) error {
		around := interp.HandlerCtx(ctx)
		inner := p
		inner.environ = nil
		around.Env.Each(func(name string, v expand.Variable) bool {
			if v.IsSet() && v.Exported {
				inner.environ = append(inner.environ, name+"="+v.String())
			}
			return true
		})
		inner.dir, inner.stdin, inner.stdout, inner.stderr = around.Dir, around.Stdin, around.Stdout, around.Stderr
		command := inner.command(args[0])
		if command == nil {
			return interp.DefaultExecHandler(killAfter)(ctx, args)
		}
		inner.running = &sync.WaitGroup{} // a shell within this one waits for its own commands only
		p.running.Add(1)
		defer p.running.Done()
		if code := command(ctx, args[1:]); code != exitFine {
			return interp.ExitStatus(uint8(code))
		}
		return nil
	}
}
