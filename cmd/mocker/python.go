// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// engines are the modules that are simulated as workers.
var engines = []string{"dynamo.vllm", "dynamo.sglang", "dynamo.trtllm", "dynamo.mocker"}

// python does what an interpreter would with one of Dynamo's modules.
func (p program) python(ctx context.Context, args []string) int {
	for i, arg := range args {
		switch {
		case arg == "-V" || arg == "--version":
			_, _ = fmt.Fprintln(p.stdout, "Python 3.12.0")
			return exitFine
		case arg == "-m" && i+1 < len(args):
			return p.module(ctx, args[i+1], args[i+2:])
		case strings.HasPrefix(arg, "-m") && len(arg) > 2:
			return p.module(ctx, arg[2:], args[i+1:])
		case arg == "-c" || !strings.HasPrefix(arg, "-"):
			return p.complain(exitUsage, "python: only modules of dynamo are simulated (python3 -m dynamo.<module>), not %q", arg)
		}
	}
	return p.complain(exitUsage, "python: name a module of dynamo: python3 -m dynamo.<module>")
}

func (p program) module(ctx context.Context, module string, args []string) int {
	// Some engines have modules below that start the same kind of worker.
	engine := slices.IndexFunc(engines, func(e string) bool { return module == e || strings.HasPrefix(module, e+".") })
	switch {
	case module == "dynamo.frontend":
		return p.frontend(ctx, args)
	case engine >= 0:
		return p.worker(ctx, args)
	case strings.HasPrefix(module, "dynamo.planner"):
		return p.idle(ctx, module)
	}
	return p.complain(exitProblem, "python: No module named %q is simulated; there are dynamo.frontend, dynamo.planner, %s",
		module, strings.Join(engines, ", "))
}

// ray returns from "ray start --head" as if it had left a cluster behind, and stays where the caller asked to be blocked.
func (p program) ray(ctx context.Context, args []string) int {
	if slices.Contains(args, "--block") {
		return p.idle(ctx, "ray")
	}
	return exitFine
}

// launch finds the interpreter among the arguments of a launcher and runs what follows, once.
func (p program) launch(ctx context.Context, args []string) int {
	for i, arg := range args {
		if base := arg[strings.LastIndexByte(arg, '/')+1:]; pythonName.MatchString(base) || shellName.MatchString(base) {
			return p.run(ctx, args[i:])
		}
	}
	return p.complain(exitUsage, "mpirun: nothing to run that is simulated: %s", strings.Join(args, " "))
}
