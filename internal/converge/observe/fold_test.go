// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// told is a Service as the API server tells of it: no text of it shares memory with another's.
func told() *corev1.Service {
	own := strings.Clone
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: own("ns"), Name: own("s"), Labels: map[string]string{own("label"): own("value")},
			Annotations:     map[string]string{own("annotation"): own("text")},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: own("v1"), Kind: own("Graph"), Name: own("g"), UID: types.UID(own("1-2-3"))}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: own("somebody")}},
		},
		Spec: corev1.ServiceSpec{ClusterIP: own("10.0.0.1")},
	}
}

func TestALeanObjectSaysTheSameWithoutItsManagedFields(t *testing.T) {
	t.Parallel()
	got, err := Lean(told())
	want := told()
	want.ManagedFields = nil
	if diff := cmp.Diff(any(want), got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestLeanObjectsShareTheTextsOfTheirMetadata(t *testing.T) {
	t.Parallel()
	texts := func() []string {
		obj, err := Lean(told())
		if err != nil {
			t.Fatal(err)
		}
		s := obj.(*corev1.Service)
		owner := s.OwnerReferences[0]
		all := []string{s.Namespace, owner.APIVersion, owner.Kind, owner.Name, string(owner.UID)}
		for key, value := range s.Labels {
			all = append(all, key, value)
		}
		for key := range s.Annotations {
			all = append(all, key)
		}
		return all
	}
	one, other := texts(), texts()
	for i := range one {
		if unsafe.StringData(one[i]) != unsafe.StringData(other[i]) {
			t.Errorf("%q is in memory twice", one[i])
		}
	}
}

func TestWhatIsNoObjectStaysAsItIs(t *testing.T) {
	t.Parallel()
	gone := cache.DeletedFinalStateUnknown{Key: "ns/s"}
	if got, err := Lean(gone); err != nil || got != any(gone) {
		t.Errorf("%v, %v", got, err)
	}
}
