// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/dynamo-operator/dynamo-operator/tools/bom"
)

// release is what all images of one run share.
type release struct {
	// root of the repository, directory to write to.
	root, directory string
	version         string
	revision        string
	repository      string
	created         time.Time
	architectures   []string
	// tools are what is in use as far as it is known before something is built; anyGo is not empty if they may be any.
	tools toolchain
	anyGo string
}

// image is what was written for one definition.
type image struct {
	reference string
	digest    string
	archive   string
	// sizes are those of a pull, by architecture in the order of the release.
	sizes         []int64
	architectures []string
	tools         toolchain
}

// build compiles a program for every architecture and writes the archive and the bills of material.
func (r release) build(ctx context.Context, d definition) (image, error) {
	if err := os.MkdirAll(r.directory, 0o755); err != nil {
		return image{}, fmt.Errorf("make the directory of the images: %w", err)
	}
	made := image{
		reference: r.reference(d), architectures: r.architectures,
		archive: filepath.Join(r.directory, d.name+"-"+r.version+".oci.tar"),
	}
	var platforms []platformImage
	for _, architecture := range r.architectures {
		p, err := r.platform(ctx, d, architecture)
		if err != nil {
			return image{}, fmt.Errorf("%s: %w", architecture, err)
		}
		platforms, made.sizes, made.tools = append(platforms, p), append(made.sizes, p.size), p.tools
	}
	index, blobs, err := r.layout(d, platforms)
	if err != nil {
		return image{}, err
	}
	made.digest = index.digest
	var archive bytes.Buffer
	if err := r.writeArchive(&archive, d, index, blobs); err != nil {
		return image{}, err
	}
	if err := os.WriteFile(made.archive, archive.Bytes(), 0o644); err != nil {
		return image{}, fmt.Errorf("write the archive: %w", err)
	}
	return made, nil
}

// platform makes the image for one architecture, and writes what the program is made of.
func (r release) platform(ctx context.Context, d definition, architecture string) (platformImage, error) {
	scratch, err := os.MkdirTemp("", "image-")
	if err != nil {
		return platformImage{}, fmt.Errorf("make a directory for the program: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	program := filepath.Join(scratch, d.name)
	if err := r.compile(ctx, d, architecture, program); err != nil {
		return platformImage{}, err
	}
	used := r.tools
	if used.compiler, err = compilerOf(program); err != nil {
		return platformImage{}, err
	}
	if err := used.check(r.version, r.anyGo); err != nil {
		return platformImage{}, err
	}
	content, plain, err := layer(program, d)
	if err != nil {
		return platformImage{}, err
	}
	made, err := r.assemble(d, architecture, content, plain)
	if err != nil {
		return platformImage{}, err
	}
	made.tools = used
	var bill bytes.Buffer
	subject := bom.Subject{Version: r.version, Image: r.reference(d), Digest: made.descriptor.Digest.String()}
	if err := bom.Write(&bill, program, subject); err != nil {
		return platformImage{}, err
	}
	path := filepath.Join(r.directory, d.name+"-"+r.version+"-linux-"+architecture+".sbom.json")
	if err := os.WriteFile(path, bill.Bytes(), 0o644); err != nil {
		return platformImage{}, fmt.Errorf("write what the program is made of: %w", err)
	}
	return made, nil
}

// versionVariable is the one of the operator's configuration that a version is linked into.
const versionVariable = "github.com/dynamo-operator/dynamo-operator/internal/operator/config.linked"

// compile builds a static program that knows its version, and neither the machine nor the directory it was built in.
func (r release) compile(ctx context.Context, d definition, architecture, program string) error {
	link := "-ldflags=-s -w -buildid= -X " + versionVariable + "=" + r.version
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", link, "-o", program, d.program)
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture, "GOFLAGS=", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", d.program, err, strings.TrimSpace(said.String()))
	}
	return nil
}

// report says what was made, for people.
func (i image) report(out io.Writer) error {
	const megabyte = 1e6
	if _, err := fmt.Fprintf(out, "%s\n  %s\n  %s\n  %s\n", i.reference, i.digest, i.archive, i.tools); err != nil {
		return err
	}
	for n, architecture := range i.architectures {
		if _, err := fmt.Fprintf(out, "  linux/%s %.1f MB\n", architecture, float64(i.sizes[n])/megabyte); err != nil {
			return err
		}
	}
	return nil
}
