// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/belonging"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

const ownerUID = types.UID("owner")

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func testOwner() *v1alpha1.DynamoComponentDeployment {
	return &v1alpha1.DynamoComponentDeployment{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: ownerUID}}
}

func wanted(t *testing.T) (Intent, *appsv1.Deployment) {
	t.Helper()
	owner := testOwner()
	desired := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{"a": "b"}}}
	intent, err := Prepare(testScheme(t), owner, desired, belonging.Owned)
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	live := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Name: "c", UID: "child", Generation: 3, ResourceVersion: "100",
		Labels:          map[string]string{"a": "b", names.LabelApplied: names.OperatorName, "theirs": "x"},
		Annotations:     map[string]string{names.AnnotationAppliedHash: intent.Hash},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "DynamoComponentDeployment", Name: "c", UID: ownerUID, Controller: &yes, BlockOwnerDeletion: &yes}},
	}}
	return intent, live
}

func TestJudgeLooksAtMetadataAndSendsNothingThatIsSoAlready(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*appsv1.Deployment)
		seen   func(*state)
		want   verdict
	}{
		"unchanged":                        {want: nothing},
		"status moved the version":         {change: func(d *appsv1.Deployment) { d.ResourceVersion = "101" }, want: nothing},
		"somebody changed the spec":        {change: func(d *appsv1.Deployment) { d.ResourceVersion, d.Generation = "101", 4 }, want: unverified},
		"first look after a restart":       {seen: func(s *state) { *s = state{} }, want: unverified},
		"another object of the same name":  {change: func(d *appsv1.Deployment) { d.UID = "other" }, want: unverified},
		"hash of an older intent":          {change: func(d *appsv1.Deployment) { d.Annotations[names.AnnotationAppliedHash] = "v1:old" }, want: update},
		"hash lost":                        {change: func(d *appsv1.Deployment) { d.Annotations = nil }, want: update},
		"our label changed":                {change: func(d *appsv1.Deployment) { d.ResourceVersion, d.Labels["a"] = "101", "c" }, want: update},
		"a label of others changed":        {change: func(d *appsv1.Deployment) { d.ResourceVersion, d.Labels["theirs"] = "101", "y" }, want: nothing},
		"owner reference lost":             {change: func(d *appsv1.Deployment) { d.ResourceVersion, d.OwnerReferences = "101", nil }, want: update},
		"a stranger's, without our marks":  {change: func(d *appsv1.Deployment) { d.Labels, d.Annotations, d.OwnerReferences = nil, nil, nil }, want: notOurs},
		"a stranger's that we had touched": {seen: func(s *state) { *s = state{stranger: true} }, want: create},
		"of an owner that was deleted":     {change: func(d *appsv1.Deployment) { d.OwnerReferences[0].UID = "former" }, want: goneFirst},
		"controlled by somebody else":      {change: func(d *appsv1.Deployment) { d.OwnerReferences[0].UID, d.OwnerReferences[0].Name = "stranger", "x" }, want: notOurs},
		"on its way out":                   {change: func(d *appsv1.Deployment) { d.DeletionTimestamp = &metav1.Time{} }, want: goneFirst},
		"kind without a generation, moved": {change: func(d *appsv1.Deployment) { d.ResourceVersion, d.Generation = "101", 0 }, want: unverified},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			intent, live := wanted(t)
			seen := state{uid: live.UID, hash: intent.Hash, version: live.ResourceVersion, generation: live.Generation}
			if tc.change != nil {
				tc.change(live)
			}
			if tc.seen != nil {
				tc.seen(&seen)
			}
			if got := judge(intent, testOwner(), live, seen); got != tc.want {
				t.Errorf("got verdict %d, want %d", got, tc.want)
			}
		})
	}
	intent, _ := wanted(t)
	if got := judge(intent, testOwner(), nil, state{}); got != create {
		t.Errorf("no child: got verdict %d, want create", got)
	}
}

func TestVerifyComparesEveryFieldOfTheIntent(t *testing.T) {
	t.Parallel()
	intent, live := wanted(t)
	for want, change := range map[bool]func(){true: func() {}, false: func() { live.Labels["a"] = "c" }} {
		live.Labels["a"] = "b"
		change()
		if got, err := verify(intent, live); err != nil || got != want {
			t.Errorf("verify = %v, %v, want %v", got, err, want)
		}
	}
}

func TestVerifyLeavesTheCachesObjectAlone(t *testing.T) {
	t.Parallel()
	intent, typed := wanted(t)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		t.Fatal(err)
	}
	cached := &unstructured.Unstructured{Object: fields}
	before := cached.DeepCopy()
	if _, err := verify(intent, cached); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Object, cached.Object); diff != "" {
		t.Errorf("the cached object changed:\n%s", diff)
	}
}

func TestPrepareSendsOnlyWhatWasSet(t *testing.T) {
	t.Parallel()
	owner := testOwner()
	desired := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "n"},
		Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main"}},
			Volumes:    []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		}}},
	}
	intent, err := Prepare(testScheme(t), owner, desired, belonging.Owned)
	if err != nil {
		t.Fatal(err)
	}
	body, err := intent.body()
	if err != nil {
		t.Fatal(err)
	}
	spec, _ := body["spec"].(map[string]any)
	if len(spec) != 1 || body["status"] != nil {
		t.Errorf("fields nobody set are sent: %v", body)
	}
	pod := spec["template"].(map[string]any)["spec"].(map[string]any)
	if len(pod["containers"].([]any)[0].(map[string]any)) != 1 {
		t.Errorf("a container is sent with more than its name: %v", pod["containers"])
	}
	if volume := pod["volumes"].([]any)[0].(map[string]any); volume["emptyDir"] == nil {
		t.Errorf("an empty object that means something is not sent: %v", volume)
	}
}

func TestPrepareLeavesAnObjectWithoutATypeAsItIs(t *testing.T) {
	t.Parallel()
	desired := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1beta1", "kind": "VirtualService",
		"metadata": map[string]any{"name": "v", "namespace": "ns"},
		"spec":     map[string]any{"hosts": []any{"h"}, "unset": nil, "resources": map[string]any{}},
		"status":   map[string]any{"state": "any"},
	}}
	before := desired.DeepCopy()
	if _, err := Prepare(testScheme(t), testOwner(), desired, belonging.Owned); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Object, desired.Object); diff != "" {
		t.Errorf("what was rendered changed (-before +after):\n%s", diff)
	}
}

func TestPrepareIsDeterministicAndSeesEveryChange(t *testing.T) {
	t.Parallel()
	scheme := testScheme(t)
	owner := testOwner()
	hash := func(owner client.Object, change func(*corev1.Service)) string {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"a": "b", "c": "d"}}}
		change(s)
		intent, err := Prepare(scheme, owner, s, belonging.Owned)
		if err != nil {
			t.Fatal(err)
		}
		return intent.Hash
	}
	same := hash(owner, func(*corev1.Service) {})
	for range 20 {
		if hash(owner, func(*corev1.Service) {}) != same {
			t.Fatal("equal objects have different hashes")
		}
	}
	for name, other := range map[string]string{
		"spec":  hash(owner, func(s *corev1.Service) { s.Spec.Selector["a"] = "x" }),
		"label": hash(owner, func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} }),
		"owner": hash(&v1alpha1.DynamoComponentDeployment{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "other"}}, func(*corev1.Service) {}),
	} {
		if other == same {
			t.Errorf("another %s gives the same hash", name)
		}
	}
}

func TestAnObjectWithAnotherMakerIsRecognised(t *testing.T) {
	t.Parallel()
	entry := func(manager, subresource, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	ours := entry(names.FieldManager, "", `{"f:spec":{}}`)
	for name, tc := range map[string]struct {
		managed []metav1.ManagedFieldsEntry
		want    bool
	}{
		"only us":                      {[]metav1.ManagedFieldsEntry{ours}, false},
		"a person":                     {[]metav1.ManagedFieldsEntry{ours, entry("kubectl", "", `{"f:spec":{}}`)}, true},
		"a status":                     {[]metav1.ManagedFieldsEntry{ours, entry("kubelet", "status", `{"f:status":{}}`)}, false},
		"kube-controller-manager":      {[]metav1.ManagedFieldsEntry{ours, entry("kube-controller-manager", "", `{"f:metadata":{}}`)}, false},
		"somebody who made it for us":  {[]metav1.ManagedFieldsEntry{ours, entry("manager", "", `{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"owner\"}":{}}}}`)}, false},
		"somebody who made it for her": {[]metav1.ManagedFieldsEntry{ours, entry("manager", "", `{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"her\"}":{}}}}`)}, true},
	} {
		obj := &corev1.Service{ObjectMeta: metav1.ObjectMeta{ManagedFields: tc.managed}}
		if got := hadAnotherMaker(obj, ownerUID); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}
