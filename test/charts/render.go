// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package charts renders the charts and kustomizations that the operator is shipped with, as Helm and kustomize do, so that tests
// judge what comes out. It is a module of its own: the product does not depend on what these two depend on.
package charts

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	releasecommon "helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dynamo-operator/dynamo-operator/config/manager"
)

// notes is the file that people read and no cluster.
const notes = "NOTES.txt"

// Release says what is rendered: the name, the namespace and the values that a user gives.
type Release struct {
	Name, Namespace string
	Values          map[string]any
}

// Rendered is what a chart makes of a release.
type Rendered struct {
	// Files are the texts of all templates by their paths.
	Files map[string]string
	// Objects are what is in them.
	Objects []*unstructured.Unstructured
	// Notes are for the user.
	Notes string
}

// Render renders the chart in a directory without a cluster, after the values have passed the schemas.
func Render(directory string, r Release) (*Rendered, error) {
	_, rendered, err := render(directory, r)
	return rendered, err
}

func render(directory string, r Release) (*chart.Chart, *Rendered, error) {
	loaded, err := loader.LoadDir(directory)
	if err != nil {
		return nil, nil, fmt.Errorf("load chart %s: %w", directory, err)
	}
	given := r.Values
	if given == nil {
		given = map[string]any{}
	}
	if err := chartutil.ProcessDependencies(loaded, given); err != nil {
		return nil, nil, fmt.Errorf("find the parts of %s: %w", directory, err)
	}
	options := common.ReleaseOptions{Name: r.Name, Namespace: r.Namespace, Revision: 1, IsInstall: true}
	values, err := util.ToRenderValues(loaded, given, options, common.DefaultCapabilities)
	if err != nil {
		return nil, nil, fmt.Errorf("values of %s: %w", directory, err)
	}
	files, err := engine.Render(loaded, values)
	if err != nil {
		return nil, nil, fmt.Errorf("render %s: %w", directory, err)
	}
	rendered := &Rendered{Files: files}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Base(name) == notes {
			rendered.Notes += files[name]
			continue
		}
		objects, err := manager.Decode([]byte(files[name]))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		rendered.Objects = append(rendered.Objects, objects...)
	}
	return loaded, rendered, nil
}

// Lint returns everything that Helm has to say about a chart with these values, warnings included.
func Lint(directory string, values map[string]any) error {
	var all []error
	for _, message := range lint.RunAll(directory, values, "default").Messages {
		if message.Severity >= support.WarningSev {
			all = append(all, fmt.Errorf("%s: %w", message.Path, message.Err))
		}
	}
	return errors.Join(all...)
}

// Size is how many bytes Helm stores for a release: its JSON with the chart in it, packed, in base64.
func Size(directory string, r Release) (int, error) {
	loaded, rendered, err := render(directory, r)
	if err != nil {
		return 0, err
	}
	manifest := &strings.Builder{}
	for _, name := range slices.Sorted(maps.Keys(rendered.Files)) {
		if path.Base(name) != notes {
			fmt.Fprintf(manifest, "---\n# Source: %s\n%s\n", name, rendered.Files[name])
		}
	}
	text, err := json.Marshal(&release.Release{
		Name: r.Name, Namespace: r.Namespace, Version: 1, Chart: loaded, Config: r.Values, Manifest: manifest.String(),
		Info: &release.Info{Status: releasecommon.StatusDeployed, Notes: rendered.Notes},
	})
	if err != nil {
		return 0, fmt.Errorf("encode the release: %w", err)
	}
	packed := &bytes.Buffer{}
	writer, err := gzip.NewWriterLevel(packed, gzip.BestCompression)
	if err != nil {
		return 0, fmt.Errorf("pack the release: %w", err)
	}
	if _, err := writer.Write(text); err != nil {
		return 0, fmt.Errorf("pack the release: %w", err)
	}
	if err := writer.Close(); err != nil {
		return 0, fmt.Errorf("pack the release: %w", err)
	}
	return base64.StdEncoding.EncodedLen(packed.Len()), nil
}
