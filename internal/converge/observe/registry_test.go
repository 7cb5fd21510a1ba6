// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestImagesNameTheirRegistry(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]string{
		"ubuntu:22.04":                      dockerHub,
		"library/x":                         dockerHub,
		"nvcr.io/nvidia/dynamo:1":           "nvcr.io",
		"localhost/x":                       "localhost",
		"reg.example.com:5000/a/b@sha256:1": "reg.example.com:5000",
		"index.docker.io/library/x":         dockerHub,
		"team:5000/x":                       "team:5000",
	} {
		if got := ImageHost(image); got != want {
			t.Errorf("ImageHost(%q) = %q, want %q", image, got, want)
		}
	}
}

func TestASecretIsFoldedToItsHostsAndLosesItsCredentials(t *testing.T) {
	t.Parallel()
	folded, err := FoldPullSecret(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "n", Labels: map[string]string{"a": "b"}},
		Type:       corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(
			`{"auths":{"https://index.docker.io/v1/":{"auth":"c2VjcmV0"},"nvcr.io":{},"reg.example.com:5000":{}}}`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if folded, err = FoldPullSecret(folded); err != nil { // informers do it twice
		t.Fatal(err)
	}
	want := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "n", Annotations: map[string]string{
		hostsAnnotation: "docker.io nvcr.io reg.example.com:5000",
	}}}
	if diff := cmp.Diff(want, folded); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
