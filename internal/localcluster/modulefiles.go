// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ModuleCRDs returns the CRDs in those files of a Go module, named with its version as in "example.com/m@v1.2.3", that
// match the pattern. They are what the project itself ships.
func ModuleCRDs(ctx context.Context, module, pattern string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	out, err := downloadModule(ctx, module)
	if err != nil {
		return nil, fmt.Errorf("download %s: %w", module, err)
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal([]byte(out), &downloaded); err != nil {
		return nil, fmt.Errorf("download %s: %w", module, err)
	}
	files, err := filepath.Glob(filepath.Join(downloaded.Dir, filepath.FromSlash(pattern)))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%s has no file %s", module, pattern)
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		objects, err := decodeFile(file)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, crd); err != nil {
				return nil, fmt.Errorf("decode CRD %s: %w", object.GetName(), err)
			}
			crds = append(crds, crd)
		}
	}
	return crds, nil
}

// downloadModule fetches a module into the module cache and returns what the go command says about it. A download that
// failed for a reason that passes is repeated.
func downloadModule(ctx context.Context, module string) (string, error) {
	for attempt := 1; ; attempt++ {
		// With -json the reason of a failure would not be among the error output.
		_, err := runGo(ctx, os.TempDir(), "mod", "download", module)
		if err == nil {
			return runGo(ctx, os.TempDir(), "mod", "download", "-json", module)
		}
		if attempt == buildAttempts || !downloadMayRecover(err) {
			return "", err
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(downloadPause):
		}
	}
}
