// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command image builds the operator and the mocker for every platform and writes each as an OCI image archive, with what it is
// made of beside it. It needs Go alone. Equal sources give equal bytes, whenever and wherever they are built, with one and the same
// release of Go: another compiles and compresses to other bytes. Which one it was is in what they are made of, as std, and only the one
// that is pinned here builds a released version, unless ANY_GO is set.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynamo-operator/dynamo-operator/tools/command"
)

func main() { command.Main("image", run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	var r release
	flags.StringVar(&r.root, "root", "..", "root of the repository")
	flags.StringVar(&r.directory, "out", "../dist", "directory to write to")
	flags.StringVar(&r.version, "version", unreleased, "version of the images, which is also their tag")
	flags.StringVar(&r.revision, "revision", "", "commit that the images are built from")
	flags.StringVar(&r.repository, "repository", "", "registry and path before the names of the images, for example registry.example.com/team")
	names := flags.String("images", strings.Join(imageNames(), ","), "images to build")
	architectures := flags.String("architectures", "amd64,arm64", "architectures to build for")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r.tools, r.anyGo = toolchain{compressor: runtime.Version(), pinned: releaseToolchain}, os.Getenv(anyGo)
	var err error
	if r.created, err = createdAt(os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		return err
	}
	r.architectures = strings.Split(*architectures, ",")
	for name := range strings.SplitSeq(*names, ",") {
		i := slices.IndexFunc(images(), func(d definition) bool { return d.name == name })
		if i < 0 {
			return fmt.Errorf("no image is called %q: name some of %s", name, strings.Join(imageNames(), ", "))
		}
		made, err := r.build(ctx, images()[i])
		if err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
		if err := made.report(out); err != nil {
			return err
		}
	}
	return nil
}

// createdAt is the time that images bear: that of SOURCE_DATE_EPOCH, or the epoch itself. The clock would make each build differ.
func createdAt(epoch string) (time.Time, error) {
	if epoch == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %q is not a number of seconds", epoch)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
