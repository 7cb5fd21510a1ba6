// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// packed is one file of a package.
type packed struct {
	name    string
	content []byte
}

// normalise packs a package of Helm again: files in the order of their names, all of one time. Helm takes the time of day and no
// particular order, so that two packages of the same chart have different checksums.
func normalise(path string, created time.Time) error {
	files, err := unpack(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	slices.SortFunc(files, func(a, b packed) int { return cmp.Compare(a.name, b.name) })
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	for _, f := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Mode: 0o644, Size: int64(len(f.content)), ModTime: created, Format: tar.FormatPAX,
		}
		if err := errors.Join(archive.WriteHeader(header), second(archive.Write(f.content))); err != nil {
			return fmt.Errorf("pack %s: %w", f.name, err)
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		return fmt.Errorf("pack %s: %w", path, err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write a chart: %w", err)
	}
	return nil
}

func second(_ int, err error) error { return err }

// unpack reads the files of a package. Helm packs nothing but files.
func unpack(path string) ([]packed, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	plain, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	var files []packed
	for reader := tar.NewReader(plain); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		file, err := io.ReadAll(reader)
		if err != nil {
			return nil, err
		}
		files = append(files, packed{header.Name, file})
	}
}
