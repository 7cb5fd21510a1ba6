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

	"github.com/dynamo-operator/dynamo-operator/internal/offline"
)

// standardInput stands for what is piped into the command.
const standardInput = "-"

// read returns the files that the command is about, in the order in which they were named and by name inside directories.
func (o *renderOptions) read(in io.Reader) ([]offline.File, error) {
	var files []offline.File
	for _, name := range o.files {
		if name == standardInput {
			content, err := io.ReadAll(in)
			if err != nil {
				return nil, fmt.Errorf("read standard input: %w", err)
			}
			files = append(files, offline.File{Name: "standard input", Content: content, Namespace: o.namespace})
			continue
		}
		paths, err := o.paths(name)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			files = append(files, offline.File{Name: path, Content: content, Namespace: o.namespace})
		}
	}
	return files, nil
}

// paths returns the manifests in a directory. A file that is named itself is one whatever it is called.
func (o *renderOptions) paths(name string) ([]string, error) {
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
		case entry.IsDir() && path != name && !o.recursive:
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
