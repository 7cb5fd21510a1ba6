// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bom describes what a Go binary is made of, as a CycloneDX document: the modules that the linker says are in it, with
// the checksums that they were verified by. Equal binaries give equal documents.
package bom

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
)

// document is the part of CycloneDX 1.6 that is needed here.
type document struct {
	Format      string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    metadata    `json:"metadata"`
	Components  []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	PURL    string `json:"purl,omitempty"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// Write describes a binary.
func Write(out io.Writer, binary string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read build information: %w", err)
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(describe(info)); err != nil {
		return fmt.Errorf("write what %s is made of: %w", binary, err)
	}
	return nil
}

// describe lists the toolchain and all modules, in the order of the linker, which is that of their names.
func describe(info *debug.BuildInfo) document {
	d := document{
		Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata: metadata{component{Type: "application", Name: info.Path, Version: info.Main.Version}},
		Components: []component{{
			Type: "library", Name: "std", Version: strings.TrimPrefix(info.GoVersion, "go"),
			PURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"),
		}},
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		d.Components = append(d.Components, component{
			Type: "library", Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version, Hashes: hashes(m.Sum),
		})
	}
	return d
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
