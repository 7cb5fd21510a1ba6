// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bom describes what a Go binary is made of, as a CycloneDX document: the modules that the linker says are in it, with
// the checksums that they were verified by. Equal binaries of equal images give equal documents.
package bom

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
)

// Subject is what the linker does not know about a binary.
type Subject struct {
	// Version that it was built as; without one, that of its module.
	Version string
	// Image and Digest are the name of the image that the binary is in, and the digest of its manifest for this platform; empty for a
	// binary that is in none.
	Image, Digest string
}

// document is the part of CycloneDX 1.6 that is needed here.
type document struct {
	Format       string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	Serial       string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Reference  string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	PURL       string     `json:"purl,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// dependency says what a component is linked with. The linker knows all modules of a program, and not which of them wants which.
type dependency struct {
	Reference string   `json:"ref"`
	On        []string `json:"dependsOn"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// Write describes a binary.
func Write(out io.Writer, binary string, subject Subject) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read build information: %w", err)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read what is to be described: %w", err)
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(describe(info, sha256.Sum256(content), subject)); err != nil {
		return fmt.Errorf("write what %s is made of: %w", binary, err)
	}
	return nil
}

// describe lists the toolchain and all modules, in the order of the linker, which is that of their names.
func describe(info *debug.BuildInfo, sum [sha256.Size]byte, subject Subject) document {
	d := document{
		Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Serial: serial(sum, subject),
		Components: []component{module("std", strings.TrimPrefix(info.GoVersion, "go"), "")},
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		d.Components = append(d.Components, module(m.Path, m.Version, m.Sum))
	}
	program := component{
		Type: "application", Name: info.Path, Version: cmp.Or(subject.Version, info.Main.Version),
		Hashes: []hash{{Algorithm: "SHA-256", Content: hex.EncodeToString(sum[:])}},
	}
	program.PURL = "pkg:golang/" + info.Main.Path + "@" + program.Version
	if below, ok := strings.CutPrefix(info.Path, info.Main.Path+"/"); ok {
		program.PURL += "#" + below
	}
	program.Reference = program.PURL
	if subject.Digest != "" {
		program.Properties = []property{{"image", subject.Image}, {"image:digest", subject.Digest}}
	}
	d.Metadata = metadata{program}
	all := dependency{Reference: program.Reference}
	for _, c := range d.Components {
		all.On = append(all.On, c.Reference)
	}
	d.Dependencies = []dependency{all}
	return d
}

// module is one that a program is linked with.
func module(path, version, sum string) component {
	purl := "pkg:golang/" + path + "@" + version
	return component{Type: "library", Reference: purl, Name: path, Version: version, PURL: purl, Hashes: hashes(sum)}
}

// serial is the identity of a document, a UUID of version 8: made from what it describes, so that equal ones are called the same.
func serial(sum [sha256.Size]byte, subject Subject) string {
	id := sha256.Sum256(fmt.Appendf(nil, "%x %s %s %s", sum, subject.Version, subject.Image, subject.Digest))
	const version, variant = 0x80, 0x80
	id[6], id[8] = id[6]&0x0f|version, id[8]&0x3f|variant
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:16])
}

// hashes turns a checksum of the module database, "h1:" and base64, into that of the document.
func hashes(sum string) []hash {
	encoded, ok := strings.CutPrefix(sum, "h1:")
	if !ok {
		return nil
	}
	content, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil
	}
	return []hash{{Algorithm: "SHA-256", Content: hex.EncodeToString(content)}}
}
