// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	specs "github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// platformImage is an image for one platform: the blobs it is made of, and the descriptor of its manifest.
type platformImage struct {
	descriptor v1.Descriptor
	blobs      []blob
	// size is what a node pulls.
	size int64
	// tools are those that it was made with.
	tools toolchain
}

// assemble makes an image of a layer.
func (r release) assemble(d definition, architecture string, content blob, plain string) (platformImage, error) {
	platform := v1.Platform{OS: "linux", Architecture: architecture}
	config, err := jsonBlob(v1.Image{
		Created: new(r.created), Author: "The dynamo-operator Authors", Platform: platform,
		Config: v1.ImageConfig{
			User: user + ":" + user, Entrypoint: []string{d.entrypoint}, WorkingDir: "/",
			Env:    []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
			Labels: r.annotations(d),
		},
		RootFS:  v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.Digest(plain)}},
		History: []v1.History{{Created: new(r.created), CreatedBy: "make images"}},
	})
	if err != nil {
		return platformImage{}, err
	}
	manifest, err := jsonBlob(v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest,
		Config:      describe(v1.MediaTypeImageConfig, config),
		Layers:      []v1.Descriptor{describe(v1.MediaTypeImageLayerGzip, content)},
		Annotations: r.annotations(d),
	})
	if err != nil {
		return platformImage{}, err
	}
	descriptor := describe(v1.MediaTypeImageManifest, manifest)
	descriptor.Platform = &platform
	return platformImage{
		descriptor: descriptor, blobs: []blob{content, config, manifest},
		size: int64(len(content.content) + len(config.content) + len(manifest.content)),
	}, nil
}

// annotations say where an image comes from.
func (r release) annotations(d definition) map[string]string {
	a := map[string]string{
		v1.AnnotationTitle: d.title, v1.AnnotationDescription: d.description, v1.AnnotationVersion: r.version,
		v1.AnnotationLicenses: "Apache-2.0", v1.AnnotationVendor: "The dynamo-operator Authors",
		v1.AnnotationSource: "https://github.com/dynamo-operator/dynamo-operator", v1.AnnotationCreated: r.created.Format(time.RFC3339),
	}
	if r.revision != "" {
		a[v1.AnnotationRevision] = r.revision
	}
	return a
}

// layout joins images for several platforms: an index of them, and the index of the archive, which names that one.
func (r release) layout(d definition, platforms []platformImage) (index blob, files []blob, err error) {
	joined := v1.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Annotations: r.annotations(d),
	}
	var all []blob
	for _, p := range platforms {
		joined.Manifests = append(joined.Manifests, p.descriptor)
		all = append(all, p.blobs...)
	}
	if index, err = jsonBlob(joined); err != nil {
		return blob{}, nil, err
	}
	return index, append(all, index), nil
}

// reference is the name by which an image is pulled.
func (r release) reference(d definition) string {
	return strings.TrimPrefix(strings.TrimSuffix(r.repository, "/")+"/"+d.name, "/") + ":" + tag(r.version)
}

// tag is a version as a registry takes it: build metadata begins with a plus sign, which tags cannot have.
func tag(version string) string { return strings.ReplaceAll(version, "+", "_") }

// writeArchive writes an OCI image layout as one file, entries in the order of their names.
func (r release) writeArchive(out io.Writer, d definition, index blob, blobs []blob) error {
	named := describe(v1.MediaTypeImageIndex, index)
	named.Annotations = map[string]string{
		v1.AnnotationRefName: tag(r.version),
		// By this one containerd names what it imports.
		"io.containerd.image.name": r.reference(d),
	}
	top, err := jsonBlob(v1.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Manifests: []v1.Descriptor{named},
	})
	if err != nil {
		return err
	}
	marker, err := jsonBlob(v1.ImageLayout{Version: v1.ImageLayoutVersion})
	if err != nil {
		return err
	}
	all := []entry{
		{name: "blobs/", mode: 0o755}, {name: "blobs/sha256/", mode: 0o755},
		{name: v1.ImageIndexFile, mode: 0o644, content: top.content}, {name: v1.ImageLayoutFile, mode: 0o644, content: marker.content},
	}
	for _, b := range blobs {
		all = append(all, entry{name: "blobs/sha256/" + strings.TrimPrefix(b.digest, "sha256:"), mode: 0o644, content: b.content})
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	// Platforms may share a blob, and a layout has each once.
	all = slices.CompactFunc(all, func(a, b entry) bool { return a.name == b.name })
	archive := tar.NewWriter(out)
	for _, e := range all {
		if err := add(archive, e); err != nil {
			return err
		}
	}
	return archive.Close()
}

func describe(mediaType string, b blob) v1.Descriptor {
	return v1.Descriptor{MediaType: mediaType, Digest: digest.Digest(b.digest), Size: int64(len(b.content))}
}

// jsonBlob encodes a document. Keys of maps are sorted by the encoder, so equal values give equal bytes.
func jsonBlob(document any) (blob, error) {
	content, err := json.Marshal(document)
	if err != nil {
		return blob{}, fmt.Errorf("encode a document of the image: %w", err)
	}
	return newBlob(content), nil
}
