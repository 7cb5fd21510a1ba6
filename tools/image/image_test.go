// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// sizeLimit of what a node pulls, in bytes.
const sizeLimit = 60e6

const operatorImage = "dynamo-operator"

// copied is what programs are built from, for a build in another place.
var copied = []string{"api", "cmd", "internal", "config", "go.mod", "go.sum"}

func TestImagesAreWhatAReleasePromises(t *testing.T) {
	t.Parallel()
	// Neither tree is the repository, which somebody may be working on while this runs.
	one, other := copyOf(t), copyOf(t)
	here := t.TempDir()
	buildAll(t, one, here, imageNames())
	for _, d := range images() {
		archive := files(t, read(t, filepath.Join(here, d.name+"-1.2.3.oci.tar")))
		check(t, archive, d)
		runs(t, archive, d)
		for _, architecture := range []string{"amd64", "arm64"} {
			bill := read(t, filepath.Join(here, d.name+"-1.2.3-linux-"+architecture+".sbom.json"))
			if !bytes.Contains(bill, []byte(`"name": "k8s.io/client-go"`)) {
				t.Errorf("what %s for %s is made of lacks client-go", d.name, architecture)
			}
			for _, want := range []string{`"version": "1.2.3"`, "registry.example.com/team/" + d.name + ":1.2.3", digestFor(t, archive, architecture)} {
				if !bytes.Contains(bill, []byte(want)) {
					t.Errorf("what %s for %s is made of does not say %s", d.name, architecture, want)
				}
			}
		}
	}

	// A second build elsewhere. One image will do: the other is made by the same steps.
	there := t.TempDir()
	buildAll(t, other, there, []string{operatorImage})
	for _, file := range []string{operatorImage + "-1.2.3.oci.tar", operatorImage + "-1.2.3-linux-amd64.sbom.json"} {
		if !bytes.Equal(read(t, filepath.Join(here, file)), read(t, filepath.Join(there, file))) {
			t.Errorf("two builds gave different %s", file)
		}
	}
}

// digestFor is the digest of an image for an architecture.
func digestFor(t *testing.T, archive map[string][]byte, architecture string) string {
	t.Helper()
	top := decode[v1.Index](t, archive["index.json"])
	for _, m := range decode[v1.Index](t, blobOf(t, archive, top.Manifests[0])).Manifests {
		if m.Platform.Architecture == architecture {
			return m.Digest.String()
		}
	}
	t.Fatalf("no image for %s", architecture)
	return ""
}

// copyOf copies what programs are built from to a place of its own.
func copyOf(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range copied {
		if out, err := exec.CommandContext(t.Context(), "cp", "-r", filepath.Join(repository(t), name), root).CombinedOutput(); err != nil {
			t.Fatalf("copy %s: %v\n%s", name, err, out)
		}
	}
	return root
}

// buildAll runs the command as make does. In this process it would be many times slower, for the sake of the race detector.
// Whoever works with another Go than that of releases runs these tests as well.
func buildAll(t *testing.T, root, out string, names []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "run", ".", "-root", root, "-out", out, "-version", "1.2.3",
		"-revision", "0123456789abcdef", "-repository", "registry.example.com/team", "-images", strings.Join(names, ","))
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000", anyGo+"=1")
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("build images: %v\n%s", err, said)
	}
	if n := strings.Count(string(said), "\n  built with "+runtime.Version()); n != len(names) {
		t.Errorf("it says %d times which Go built %v:\n%s", n, names, said)
	}
}

func repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// files unpacks an archive and holds its order and its times against the rules.
func files(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	found, last := map[string][]byte{}, ""
	for reader := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Name <= last {
			t.Errorf("%s comes after %s", header.Name, last)
		}
		if header.ModTime.Unix() != 0 || header.Uid != 0 || header.Gid != 0 || header.Uname != "" {
			t.Errorf("%s has a time or an owner: %+v", header.Name, header)
		}
		last = header.Name
		content := make([]byte, header.Size)
		if _, err := io.ReadFull(reader, content); err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeSymlink {
			content = []byte("-> " + header.Linkname)
		}
		found[header.Name] = content
	}
}

// blobOf finds what a descriptor names and checks its digest and its size.
func blobOf(t *testing.T, files map[string][]byte, d v1.Descriptor) []byte {
	t.Helper()
	content, ok := files["blobs/sha256/"+d.Digest.Encoded()]
	if !ok {
		t.Fatalf("%s %s is not in the archive", d.MediaType, d.Digest)
	}
	if got := digestOf(content); got != d.Digest.String() || int64(len(content)) != d.Size {
		t.Errorf("%s %s of %d bytes is %s of %d", d.MediaType, d.Digest, d.Size, got, len(content))
	}
	return content
}

func decode[T any](t *testing.T, content []byte) T {
	t.Helper()
	var document T
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&document); err != nil {
		t.Fatalf("%T: %v", document, err)
	}
	return document
}

// check follows an archive from its index to every layer.
func check(t *testing.T, files map[string][]byte, d definition) {
	t.Helper()
	if got := decode[v1.ImageLayout](t, files["oci-layout"]); got.Version != "1.0.0" {
		t.Errorf("layout version %q", got.Version)
	}
	top := decode[v1.Index](t, files["index.json"])
	if len(top.Manifests) != 1 {
		t.Fatalf("the archive names %d images", len(top.Manifests))
	}
	named := map[string]string{
		"org.opencontainers.image.ref.name": "1.2.3", "io.containerd.image.name": "registry.example.com/team/" + d.name + ":1.2.3",
	}
	if diff := cmp.Diff(named, top.Manifests[0].Annotations); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	reached := 1
	var architectures []string
	for _, m := range decode[v1.Index](t, blobOf(t, files, top.Manifests[0])).Manifests {
		architectures = append(architectures, m.Platform.OS+"/"+m.Platform.Architecture)
		reached += checkManifest(t, files, m, d)
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, architectures); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
	blobs := 0
	for name, content := range files {
		if strings.HasPrefix(name, "blobs/sha256/") && len(content) > 0 {
			blobs++
		}
	}
	if blobs != reached {
		t.Errorf("%d blobs in the archive, %d of them named", blobs, reached)
	}
}

// checkManifest holds one platform against the definition and returns how many blobs it has.
func checkManifest(t *testing.T, files map[string][]byte, m v1.Descriptor, d definition) int {
	t.Helper()
	manifest := decode[v1.Manifest](t, blobOf(t, files, m))
	config := decode[v1.Image](t, blobOf(t, files, manifest.Config))
	if config.Architecture != m.Platform.Architecture || config.OS != "linux" {
		t.Errorf("platform %s/%s in the configuration", config.OS, config.Architecture)
	}
	if config.Config.User != "65532:65532" {
		t.Errorf("user %q", config.Config.User)
	}
	if diff := cmp.Diff([]string{d.entrypoint}, config.Config.Entrypoint); diff != "" {
		t.Errorf("entry point (-want +got):\n%s", diff)
	}
	if got := config.Config.Labels[v1.AnnotationRevision]; got != "0123456789abcdef" || manifest.Annotations[v1.AnnotationVersion] != "1.2.3" {
		t.Errorf("labels %v, annotations %v", config.Config.Labels, manifest.Annotations)
	}
	if config.Created.Unix() != 1700000000 {
		t.Errorf("created at %s", config.Created)
	}
	if len(manifest.Layers) != 1 || len(config.RootFS.DiffIDs) != 1 {
		t.Fatalf("%d layers and %d digests of them", len(manifest.Layers), len(config.RootFS.DiffIDs))
	}
	if size := m.Size + manifest.Config.Size + manifest.Layers[0].Size; size > sizeLimit {
		t.Errorf("%s for %s has %d bytes, more than %.0f", d.name, m.Platform.Architecture, size, sizeLimit)
	}
	plain := unzip(t, blobOf(t, files, manifest.Layers[0]))
	if got := digestOf(plain); got != config.RootFS.DiffIDs[0].String() {
		t.Errorf("the layer is %s, its digest says %s", got, config.RootFS.DiffIDs[0])
	}
	return 3
}

func unzip(t *testing.T, content []byte) []byte {
	t.Helper()
	reader, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// runs unpacks the image of this machine and starts its entry point by the path in the image.
func runs(t *testing.T, archive map[string][]byte, d definition) {
	t.Helper()
	top := decode[v1.Index](t, archive["index.json"])
	for _, m := range decode[v1.Index](t, blobOf(t, archive, top.Manifests[0])).Manifests {
		if m.Platform.Architecture != runtime.GOARCH {
			continue
		}
		manifest := decode[v1.Manifest](t, blobOf(t, archive, m))
		root := t.TempDir()
		for name, content := range files(t, unzip(t, blobOf(t, archive, manifest.Layers[0]))) {
			unpack(t, root, name, content)
		}
		for _, path := range append([]string{"/" + d.name}, d.links...) {
			if target, err := filepath.EvalSymlinks(filepath.Join(root, path)); err != nil || filepath.Base(target) != d.name {
				t.Errorf("%s leads to %q: %v", path, target, err)
			}
		}
		out, err := exec.CommandContext(t.Context(), filepath.Join(root, d.entrypoint), "--help").CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("Usage")) {
			t.Errorf("%s --help: %v\n%s", d.entrypoint, err, out)
		}
		if d.name == operatorImage {
			knowsItsVersion(t, filepath.Join(root, d.entrypoint))
		}
		return
	}
	t.Errorf("no image for %s", runtime.GOARCH)
}

// knowsItsVersion starts an operator that nobody tells its version. It says it before it finds that its API server does not answer.
func knowsItsVersion(t *testing.T, operator string) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	const nowhere = "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n" +
		"contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
	if err := os.WriteFile(kubeconfig, []byte(nowhere), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), operator)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	out, err := cmd.CombinedOutput()
	if !bytes.Contains(out, []byte(`"version": "1.2.3"`)) {
		t.Errorf("the operator does not say that it is 1.2.3 (%v):\n%s", err, out)
	}
}

func unpack(t *testing.T, root, name string, content []byte) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(name, "/") {
		return
	}
	if target, ok := strings.CutPrefix(string(content), "-> "); ok && len(content) < 100 {
		if err := os.Symlink(filepath.Join(root, target), path); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestACommandLineIsRefusedInOneSentence(t *testing.T) {
	for args, want := range map[string]string{
		"-images=proxy": `no image is called "proxy": name some of dynamo-operator, mocker`,
		"":              `SOURCE_DATE_EPOCH "today" is not a number of seconds`,
	} {
		t.Setenv("SOURCE_DATE_EPOCH", map[bool]string{true: "today"}[args == ""])
		err := run(t.Context(), strings.Fields(args), io.Discard)
		if got := fmt.Sprint(err); got != want {
			t.Errorf("%q: got %q, want %q", args, got, want)
		}
	}
}

func TestATagHasNoPlusSign(t *testing.T) {
	t.Parallel()
	if got := (release{version: "1.2.3+build.4"}).reference(images()[0]); got != "dynamo-operator:1.2.3_build.4" {
		t.Errorf("got %s", got)
	}
	// The chart of a release names it in the same way, which the tests of that command hold.
	for _, repository := range []string{"registry.example.com/team", "registry.example.com/team/"} {
		if got := (release{version: "1.2.3", repository: repository}).reference(images()[0]); got != "registry.example.com/team/dynamo-operator:1.2.3" {
			t.Errorf("got %s", got)
		}
	}
}
