// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// keys are what is in the etcd of a story. Its zero value is that of a story without one.
type keys struct {
	etcd      *harness.Etcd
	namespace string
}

func startEtcd(t *testing.T, s scenario, ns string) keys {
	t.Helper()
	if !s.etcd {
		return keys{}
	}
	etcd := harness.StartEtcd(t)
	etcd.Put(names.DiscoveryKeys(ns+"-solo", "solo")+"generate:1", names.DiscoveryKeys(ns+"-solo", "solo2")+"generate:1")
	return keys{etcd: etcd, namespace: ns}
}

// put adds a key, where there is an etcd.
func (k keys) put(key string) {
	if k.etcd != nil {
		k.etcd.Put(key)
	}
}

func (k keys) flags() []string {
	if k.etcd == nil {
		return nil
	}
	return []string{"--discovery-backend=" + names.DiscoveryEtcd, "--etcdAddr=" + k.etcd.Address}
}

// forgot tells whether no key with a word in it is left.
func (k keys) forgot(word string) bool {
	return !slices.ContainsFunc(k.etcd.Keys(), func(key string) bool { return strings.Contains(key, word) })
}

// addTo makes the keys part of the world. Addresses differ between two runs and mean nothing.
func (k keys) addTo(world Snapshot) Snapshot {
	if k.etcd == nil {
		return world
	}
	there := map[string]any{}
	for _, key := range k.etcd.Keys() {
		there[strings.ReplaceAll(key, k.namespace, "NAMESPACE")] = true
	}
	for name, object := range world {
		world[name], _ = replaceText(object, k.etcd.Address, "ETCD").(map[string]any)
	}
	world["etcd"] = there
	return world
}

func replaceText(value any, what, by string) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			v[key] = replaceText(v[key], what, by)
		}
	case []any:
		for i := range v {
			v[i] = replaceText(v[i], what, by)
		}
	case string:
		return strings.ReplaceAll(v, what, by)
	}
	return value
}

func solo(ns string) *v1alpha1.DynamoComponentDeployment {
	return &v1alpha1.DynamoComponentDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "solo"},
		Spec: v1alpha1.DynamoComponentDeploymentSpec{
			DynamoComponentDeploymentSharedSpec: *builders.TwoComponents(ns, "x").Obj().Spec.Services["Decode"],
		},
	}
}

func createSolo(t *testing.T, ns string) {
	t.Helper()
	if err := harness.Client(t).Create(t.Context(), solo(ns)); err != nil {
		t.Fatalf("create component: %v", err)
	}
}

func deleteSolo(t *testing.T, ns string) {
	t.Helper()
	if err := harness.Client(t).Delete(t.Context(), solo(ns)); err != nil {
		t.Fatalf("delete component: %v", err)
	}
}

func soloReady(t *testing.T, ns string) {
	t.Helper()
	harness.Eventually(t, patience, "the component is ready", func() (bool, string) {
		c := solo(ns)
		if err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
			return false, err.Error()
		}
		return conditions.IsTrue(c.Status.Conditions, v1alpha1.ConditionReady), fmt.Sprint(c.Status.Conditions)
	})
}

func createWithClaim(t *testing.T, ns string) {
	t.Helper()
	g := builders.TwoComponents(ns, "chat").Obj()
	g.Spec.PVCs = []v1alpha1.PVC{{
		Name: new("weights"), Create: new(true), StorageClass: "fast", Size: resource.MustParse("1Gi"), VolumeAccessMode: corev1.ReadWriteMany,
	}}
	create(t, g)
	ready(t, ns)
}

func released(t *testing.T, ns string) {
	t.Helper()
	harness.Eventually(t, patience, "the claim belongs to nobody", func() (bool, string) {
		var claim corev1.PersistentVolumeClaim
		if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "weights"}, &claim); err != nil {
			return false, err.Error()
		}
		return len(claim.OwnerReferences) == 0, fmt.Sprint(claim.OwnerReferences)
	})
}
