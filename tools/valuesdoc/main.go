// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command valuesdoc writes the tables of values into the pages of our charts, from the comments in values.yaml.
//
// A page has two marks, and what is between them is replaced. The values of a chart's parts follow its own, with the name of
// the part in front, as they are set in a release.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	charts := flag.String("charts", "", "directory with the charts")
	flag.Parse()
	if err := run(*charts); err != nil {
		fmt.Fprintln(os.Stderr, "valuesdoc:", err)
		os.Exit(1)
	}
}

// run writes the page of every chart that has one.
func run(charts string) error {
	pages, err := filepath.Glob(filepath.Join(charts, "*", "README.md"))
	if err != nil {
		return fmt.Errorf("list pages: %w", err)
	}
	if len(pages) == 0 {
		return fmt.Errorf("no chart in %q has a README.md", charts)
	}
	for _, page := range pages {
		if err := write(page); err != nil {
			return err
		}
	}
	return nil
}

// write brings one page up to date.
func write(page string) error {
	values, err := valuesOf(filepath.Dir(page))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("read page: %w", err)
	}
	written, err := insert(string(text), table(values))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	if err := os.WriteFile(page, []byte(written), 0o644); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// valuesOf are the values of a chart and of its parts.
func valuesOf(chart string) ([]value, error) {
	files, err := filepath.Glob(filepath.Join(chart, "charts", "*", "values.yaml"))
	if err != nil {
		return nil, fmt.Errorf("list parts of %s: %w", chart, err)
	}
	var all []value
	for _, file := range append([]string{filepath.Join(chart, "values.yaml")}, files...) {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read values: %w", err)
		}
		prefix := ""
		if filepath.Dir(file) != chart {
			prefix = filepath.Base(filepath.Dir(file)) + "."
		}
		found, err := parse(string(text), prefix)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, found...)
	}
	return all, nil
}
