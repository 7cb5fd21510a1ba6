// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dynamo-operator/dynamo-operator/internal/offline"
)

// standardInput stands for what is piped into the command.
const standardInput = "-"

// sources are the flags of commands that need no cluster: what to read, and which operator to play.
type sources struct {
	files        []string
	recursive    bool
	namespace    string
	config       string
	capabilities []string
}

func (s *sources) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVarP(&s.files, "filename", "f", nil, "file or directory with manifests, - for standard input")
	f.BoolVarP(&s.recursive, "recursive", "R", false, "also read the directories below those of -f")
	f.StringVarP(&s.namespace, "namespace", "n", "", "namespace of objects that name none (default \"default\")")
	f.StringVar(&s.config, "config", "", "the operator's configuration file; without it, the defaults of its flags")
	f.StringSliceVar(&s.capabilities, "capabilities", nil, "APIs that the cluster has: "+strings.Join(capabilities(), ", ")+
		"; what a graph asks for by istio, inferencepool or monitoring is rendered in any case, as the operator applies it")
}

func capabilities() []string {
	return []string{"grove", "lws", "volcano", "kai", "istio", "inferencepool", "monitoring"}
}

// check refuses command lines that make no sense. What is what the command does to files.
func (s *sources) check(what string) error {
	if len(s.files) == 0 {
		return usagef("say what to %s with -f FILE", what)
	}
	for _, c := range s.capabilities {
		if !slices.Contains(capabilities(), c) {
			return usagef("--capabilities %q is not one of %s", c, strings.Join(capabilities(), ", "))
		}
	}
	return nil
}

// operator is the operator that is played.
func (s *sources) operator() (offline.Operator, []offline.Problem, error) {
	operator, problems := offline.DefaultOperator(), []offline.Problem(nil)
	if s.config != "" {
		content, err := os.ReadFile(s.config)
		if err != nil {
			return offline.Operator{}, nil, err
		}
		operator, problems = offline.Configured(s.config, content)
	}
	for _, name := range s.capabilities {
		operator.Settings.Serves.Add(name) // those that change nothing that is rendered are not among them
	}
	return operator, problems, nil
}

// complain writes problems, one per line.
func complain(out io.Writer, problems []offline.Problem) error {
	for _, p := range problems {
		say(out, "%s", p.Error())
	}
	return errSaid
}

// read returns the files that the command is about, in the order in which they were named and by name inside directories.
func (s *sources) read(in io.Reader) ([]offline.File, error) {
	var files []offline.File
	for _, name := range s.files {
		if name == standardInput {
			content, err := io.ReadAll(in)
			if err != nil {
				return nil, fmt.Errorf("read standard input: %w", err)
			}
			files = append(files, offline.File{Name: "standard input", Content: content, Namespace: s.namespace})
			continue
		}
		paths, err := s.paths(name)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			files = append(files, offline.File{Name: path, Content: content, Namespace: s.namespace})
		}
	}
	return files, nil
}

// paths returns the manifests in a directory. A file that is named itself is one whatever it is called.
func (s *sources) paths(name string) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var paths []string
	err = filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != name && !s.recursive:
			return filepath.SkipDir
		case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
			paths = append(paths, path)
		}
		return nil
	})
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("no .yaml, .yml or .json file in %s", name)
	}
	return paths, err
}
