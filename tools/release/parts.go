// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// unreleased is the version that charts bear in the repository.
const unreleased = "0.0.0-dev"

// semantic matches versions that Helm, registries and Go all take: no leading v, no leading zeros, no build metadata.
var semantic = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z]+([.-][0-9A-Za-z]+)*)?$`)

func checkVersion(version string) error {
	switch {
	case version == "" || version == unreleased:
		return fmt.Errorf("name the version, for example: make release VERSION=1.2.3")
	case !semantic.MatchString(version):
		return fmt.Errorf("%q is not a version: write it as 1.2.3 or 1.2.3-rc.1", version)
	}
	return nil
}

// section returns what a changelog says about a version: the section of that name, or else the one that is not released yet, under
// the name and the date of the release.
func section(changelog, version, date string) (string, error) {
	for _, name := range []string{version, "Unreleased"} {
		_, rest, found := strings.Cut(changelog, "\n## ["+name+"]")
		if !found {
			continue
		}
		title, body, _ := strings.Cut(rest, "\n")
		body, _, _ = strings.Cut(body, "\n## [")
		body = strings.TrimSpace(body)
		if body == "" {
			return "", fmt.Errorf("CHANGELOG.md says nothing about %s: write what is new below ## [%s]", version, name)
		}
		if name != version {
			title = " - " + date
		}
		return "## [" + version + "]" + title + "\n\n" + body + "\n", nil
	}
	return "", fmt.Errorf("CHANGELOG.md has no section for %s: add ## [%s] or ## [Unreleased]", version, version)
}

// charts packs copies that bear the version throughout: the image of the operator has the version of the chart inside the chart.
func (r release) charts(ctx context.Context) error {
	root, directory, err := r.absolute()
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "charts-")
	if err != nil {
		return fmt.Errorf("make a directory for the charts: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	if err := os.CopyFS(scratch, os.DirFS(filepath.Join(root, "charts"))); err != nil {
		return fmt.Errorf("copy the charts: %w", err)
	}
	if err := stamp(scratch, r.version); err != nil {
		return err
	}
	if err := stampRegistry(scratch, r.repository); err != nil {
		return err
	}
	cmd := r.command(ctx, filepath.Join(root, "tools"), "go", "tool", "helm", "package", "--destination", directory,
		filepath.Join(scratch, "crds"), filepath.Join(scratch, "platform"))
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("pack the charts: %w", err)
	}
	created, err := r.created(ctx)
	if err != nil {
		return err
	}
	packages, err := filepath.Glob(filepath.Join(directory, "*.tgz"))
	if err != nil {
		return fmt.Errorf("find the packages: %w", err)
	}
	for _, path := range packages {
		if err := normalise(path, created); err != nil {
			return err
		}
	}
	return nil
}

// keep puts the charts of a release, and the commit that it was made of, in the place of those that tests have upgraded from until
// now. They build the operator from that commit, which has to stay in the history.
func (r release) keep(kept, revision string) error {
	for _, pattern := range []string{"*.tgz", "*.commit"} {
		old, err := filepath.Glob(filepath.Join(kept, pattern))
		if err != nil {
			return fmt.Errorf("find the last release: %w", err)
		}
		for _, path := range old {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("remove the last release: %w", err)
			}
		}
	}
	packages, err := filepath.Glob(filepath.Join(r.directory, "*.tgz"))
	if err != nil {
		return fmt.Errorf("find the packages: %w", err)
	}
	for _, path := range packages {
		content, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read a chart: %w", err)
		}
		if err := os.WriteFile(filepath.Join(kept, filepath.Base(path)), content, 0o644); err != nil {
			return fmt.Errorf("keep a chart for later upgrades: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(kept, "dynamo-operator-"+r.version+".commit"), []byte(revision+"\n"), 0o644); err != nil {
		return fmt.Errorf("keep the commit for later upgrades: %w", err)
	}
	return nil
}

// stamp writes a version into every chart below a directory.
func stamp(directory, version string) error {
	return filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "Chart.yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read a chart: %w", err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), unreleased, version)), 0o644); err != nil {
			return fmt.Errorf("write the version of a chart: %w", err)
		}
		return nil
	})
}

// registryKey is where the operator's chart has the registry of its release. Users do not set it: what they set wins over it.
var registryKey = []string{"controllerManager", "manager", "image", "defaultRegistry"}

// stampRegistry writes the registry that the images of the release are named after into the chart that pulls them. Without one the
// chart leaves it open, as the names of the images do.
func stampRegistry(directory, repository string) error {
	if repository == "" {
		return nil
	}
	path := filepath.Join(directory, "platform", "charts", "dynamo-operator", "values.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the values of the operator: %w", err)
	}
	if text, err = fill(text, strings.TrimSuffix(repository, "/"), registryKey...); err != nil {
		return fmt.Errorf("name the registry in %s: %w", path, err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return fmt.Errorf("write the registry of the operator's image: %w", err)
	}
	return nil
}

// fill puts a text in the place of the "" of a key of a YAML document, and leaves every other byte, and so all comments, as it is.
func fill(document []byte, value string, path ...string) ([]byte, error) {
	key := strings.Join(path, ".")
	root := &yaml.Node{}
	if err := yaml.Unmarshal(document, root); err != nil {
		return nil, err
	}
	node := root
	if len(root.Content) == 1 {
		node = root.Content[0]
	}
	for _, name := range path {
		if node = member(node, name); node == nil {
			return nil, fmt.Errorf("there is no key %s", key)
		}
	}
	const open = `""`
	lines := strings.SplitAfter(string(document), "\n")
	line, column := node.Line-1, node.Column-1
	if node.Value != "" || !strings.HasPrefix(lines[line][column:], open) {
		return nil, fmt.Errorf("%s is not %s but %q", key, open, node.Value)
	}
	lines[line] = lines[line][:column] + strconv.Quote(value) + lines[line][column+len(open):]
	return []byte(strings.Join(lines, "")), nil
}

// member is the value of a key of a mapping, nil if there is none.
func member(mapping *yaml.Node, key string) *yaml.Node {
	if mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

const checksumsFile = "SHA256SUMS"

// writeChecksums writes those of every file of a directory, as sha256sum reads them, and returns the names of all files.
func writeChecksums(directory string) ([]string, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, fmt.Errorf("list the release: %w", err)
	}
	var names []string
	var sums strings.Builder
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(directory, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read what was released: %w", err)
		}
		names = append(names, entry.Name())
		_, _ = fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}
	if err := os.WriteFile(filepath.Join(directory, checksumsFile), []byte(sums.String()), 0o644); err != nil {
		return nil, fmt.Errorf("write the checksums: %w", err)
	}
	return append(names, checksumsFile), nil
}
