// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// user owns the processes of every image. It is a number, because Kubernetes cannot tell whether a name is root.
const user = "65532"

// blob is a part of an image, named by the digest of its bytes.
type blob struct {
	digest  string
	content []byte
}

func newBlob(content []byte) blob { return blob{digest: digestOf(content), content: content} }

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// layer packs a program with its links and the few files that programs expect. It returns the compressed layer and the digest
// of what is in it.
func layer(program string, d definition) (blob, string, error) {
	binary, err := os.ReadFile(program)
	if err != nil {
		return blob{}, "", fmt.Errorf("read the program: %w", err)
	}
	var packed bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&packed, gzip.DefaultCompression)
	if err != nil {
		return blob{}, "", err
	}
	plain := sha256.New()
	archive := tar.NewWriter(io.MultiWriter(zipped, plain))
	for _, e := range entries(binary, d) {
		if err := add(archive, e); err != nil {
			return blob{}, "", err
		}
	}
	if err := archive.Close(); err != nil {
		return blob{}, "", err
	}
	if err := zipped.Close(); err != nil {
		return blob{}, "", err
	}
	return newBlob(packed.Bytes()), "sha256:" + hex.EncodeToString(plain.Sum(nil)), nil
}

// entry is a file of a layer, a link if it has a target, a directory if its name ends with a slash.
type entry struct {
	name    string
	mode    int64
	content []byte
	target  string
}

// entries are the files of an image in the order of their names, directories before what is in them.
func entries(binary []byte, d definition) []entry {
	program := "/" + d.name
	all := []entry{
		{name: program, mode: 0o755, content: binary},
		{name: "/etc/passwd", mode: 0o644, content: []byte("nonroot:x:" + user + ":" + user + ":nonroot:/:/sbin/nologin\n")},
		{name: "/etc/group", mode: 0o644, content: []byte("nonroot:x:" + user + ":\n")},
		// Programs may write here where the root file system is not read-only.
		{name: "/tmp/", mode: 0o1777},
	}
	for _, link := range d.links {
		all = append(all, entry{name: link, mode: 0o777, target: program})
	}
	directories := map[string]bool{"/": true, "/tmp": true}
	for _, e := range slices.Clone(all) {
		for dir := path.Dir(strings.TrimSuffix(e.name, "/")); !directories[dir]; dir = path.Dir(dir) {
			directories[dir] = true
			all = append(all, entry{name: dir + "/", mode: 0o755})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return all
}

// add writes an entry that belongs to root and has no time, so that a layer depends on what is in it alone.
func add(archive *tar.Writer, e entry) error {
	header := &tar.Header{Name: strings.TrimPrefix(e.name, "/"), Mode: e.mode, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	switch {
	case e.target != "":
		header.Typeflag, header.Linkname = tar.TypeSymlink, e.target
	case strings.HasSuffix(e.name, "/"):
		header.Typeflag = tar.TypeDir
	default:
		header.Typeflag, header.Size = tar.TypeReg, int64(len(e.content))
	}
	if err := archive.WriteHeader(header); err != nil {
		return fmt.Errorf("add %s to the layer: %w", e.name, err)
	}
	if _, err := archive.Write(e.content); err != nil {
		return fmt.Errorf("add %s to the layer: %w", e.name, err)
	}
	return nil
}
