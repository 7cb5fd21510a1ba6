// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterwide

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const root = "../../../examples"

// documented are the manifests that the documentation of the API prints, with an image added.
var documented = []string{"../../golden/documented-graph/input.yaml", "../../golden/documented-component/input.yaml"}

// patience covers image-less pods of some twenty graphs on two cores.
const patience = 3 * time.Minute

// everyExampleBecomesReady applies every manifest of the examples folder, as a user would.
func everyExampleBecomesReady(t *testing.T) {
	for _, path := range manifests(t) {
		t.Run(strings.TrimPrefix(path, root+"/"), func(t *testing.T) {
			t.Parallel()
			ns := harness.Namespace(t)
			for _, object := range decode(t, path) {
				object.SetNamespace(ns)
				provideStorage(t, object)
				create(t, object)
				awaitReady(t, object)
			}
		})
	}
}

func manifests(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(path) == ".yaml" {
			found = append(found, path)
		}
		return err
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("found %d examples: %v", len(found), err)
	}
	return append(found, documented...)
}

func decode(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	objects, err := localcluster.DecodeManifest(file)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return objects
}

// awaitReady waits until the object says it is Ready in its latest generation. Objects without such a condition are.
func awaitReady(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	if object.GroupVersionKind().Group != v1alpha1.GroupVersion.Group {
		return
	}
	harness.Eventually(t, patience, object.GetKind()+" "+object.GetName()+" is ready", func() (bool, string) {
		if err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return false, err.Error()
		}
		all, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		for _, entry := range all {
			c, _ := entry.(map[string]any)
			if c["type"] == v1alpha1.ConditionReady {
				return c["status"] == string(metav1.ConditionTrue) && c["observedGeneration"] == object.GetGeneration(), c["message"].(string)
			}
		}
		return false, "no Ready condition"
	})
}

// provideStorage plays the provisioner: it makes a volume for every claim a graph will create.
func provideStorage(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	claims, _, _ := unstructured.NestedSlice(object.Object, "spec", "pvcs")
	for _, entry := range claims {
		claim, _ := entry.(map[string]any)
		class, _ := claim["storageClass"].(string)
		size, _ := claim["size"].(string)
		mode, _ := claim["volumeAccessMode"].(string)
		name, _ := claim["name"].(string)
		for _, obj := range []client.Object{
			&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "kubernetes.io/no-provisioner"},
			&corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: object.GetNamespace() + "-" + name},
				Spec: corev1.PersistentVolumeSpec{
					StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.PersistentVolumeAccessMode(mode)},
					Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
					ClaimRef:               &corev1.ObjectReference{Namespace: object.GetNamespace(), Name: name},
					PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
				},
			},
		} {
			if err := harness.Client(t).Create(t.Context(), obj); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatalf("create %s: %v", obj.GetName(), err)
			}
		}
	}
}
