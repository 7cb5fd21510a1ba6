// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	grovev1alpha1 "github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/offline"
	"github.com/dynamo-operator/dynamo-operator/internal/render"
)

// The operator applies a graph in two steps: the graph's own objects, and later, from what the API server has stored of
// them, those of its components. What is printed has to be what these two steps send.
func TestTheOperatorAppliesWhatIsPrinted(t *testing.T) {
	t.Parallel()
	for _, name := range cases(t) {
		if _, err := os.Stat(filepath.Join(name, objectsFile)); err != nil {
			continue // refused: nothing is applied
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			operator, documents := load(t, name)
			printed, problems := offline.Objects(documents, operator)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			sent := newRecorder(t)
			for _, d := range documents {
				sent.document(d.Object, operator)
			}
			want := map[recent.Key]map[string]any{}
			for _, o := range printed {
				want[recent.KeyOf(o.GroupVersionKind().GroupKind(), o)] = o.Object
			}
			if diff := cmp.Diff(want, sent.objects); diff != "" {
				t.Errorf("(-printed +sent):\n%s", diff)
			}
		})
	}
}

// recorder plays the API server for an applier and keeps what is sent to it.
type recorder struct {
	client.Writer
	client.Reader

	t      *testing.T
	scheme *runtime.Scheme

	mu      sync.Mutex
	objects map[recent.Key]map[string]any
}

func newRecorder(t *testing.T) *recorder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, lwsv1.AddToScheme, grovev1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return &recorder{t: t, scheme: scheme, objects: map[recent.Key]map[string]any{}}
}

func (r *recorder) document(object client.Object, played offline.Operator) {
	switch o := object.(type) {
	case *v1alpha1.DynamoGraphDeployment:
		stages, errs := render.Graph(o, played.Place(o))
		if len(errs) > 0 {
			r.t.Fatal(errs)
		}
		for _, key := range r.apply(o, stages) {
			if key.Kind == v1alpha1.KindDynamoComponentDeployment {
				r.component(r.stored(key), played)
			}
		}
	case *v1alpha1.DynamoComponentDeployment:
		r.component(o, played)
	}
}

func (r *recorder) component(c *v1alpha1.DynamoComponentDeployment, played offline.Operator) {
	stages, errs := render.Component(played.Component(c))
	if len(errs) > 0 {
		r.t.Fatal(errs)
	}
	r.apply(c, stages)
}

// stored reads a component back from what was sent.
func (r *recorder) stored(key recent.Key) *v1alpha1.DynamoComponentDeployment {
	text, err := json.Marshal(r.objects[key])
	if err != nil {
		r.t.Fatal(err)
	}
	c := &v1alpha1.DynamoComponentDeployment{}
	if err := json.Unmarshal(text, c); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// apply sends stages and returns the keys of what was sent, in a stable order.
// SubResource is never asked for: nothing that is rendered is scaled.
func (r *recorder) SubResource(string) client.SubResourceClient {
	r.t.Fatal("a subresource was asked for")
	return nil
}

func (r *recorder) apply(owner client.Object, stages render.Stages) []recent.Key {
	var plan apply.Plan
	keys := map[string]recent.Key{}
	for _, stage := range stages {
		var intents []apply.Intent
		for _, object := range stage {
			intent, err := apply.Prepare(r.scheme, owner, object.Object, object.Belonging)
			if err != nil {
				r.t.Fatal(err)
			}
			intents, keys[intent.Key.String()] = append(intents, intent), intent.Key
		}
		plan = append(plan, intents)
	}
	// A fresh applier for each owner: it tells owners apart by uid, and offline nobody has one.
	clock := &clocktesting.FakePassiveClock{}
	applier := apply.NewApplier(r, r, r.scheme, recent.NewStore(clock), clock)
	if result := applier.All(r.t.Context(), owner, plan, apply.Children{}); len(result.Failures) > 0 {
		r.t.Fatal(result.Failures)
	}
	var sorted []recent.Key
	for _, text := range slices.Sorted(maps.Keys(keys)) {
		sorted = append(sorted, keys[text])
	}
	return sorted
}

// Get finds nothing: the cluster is empty.
func (r *recorder) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (r *recorder) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	text, err := patch.Data(object)
	if err != nil {
		return err
	}
	return r.record(text)
}

// Create makes what is not there yet: of what is made once, the first counts.
func (r *recorder) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	r.mu.Lock()
	_, there := r.objects[recent.KeyOf(object.GetObjectKind().GroupVersionKind().GroupKind(), object)]
	r.mu.Unlock()
	if there {
		return apierrors.NewAlreadyExists(schema.GroupResource{}, object.GetName())
	}
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return r.record(text)
}

// record keeps an object without what only a cluster knows: uids, the hash that is made with them, and status.
func (r *recorder) record(text []byte) error {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(text); err != nil {
		return err
	}
	delete(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "annotations", names.AnnotationAppliedHash)
	if len(u.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(u.Object, "metadata", "annotations")
	}
	owners, _, err := unstructured.NestedSlice(u.Object, "metadata", "ownerReferences")
	if err != nil {
		return err
	}
	for _, o := range owners {
		if reference, ok := o.(map[string]any); ok {
			delete(reference, "uid")
		}
	}
	key := recent.KeyOf(u.GroupVersionKind().GroupKind(), u)
	r.mu.Lock()
	defer r.mu.Unlock()
	if before, ok := r.objects[key]; ok { // a shared object: the API server keeps the owners that others have set
		others, _, err := unstructured.NestedSlice(before, "metadata", "ownerReferences")
		if err != nil {
			return err
		}
		owners = append(others, owners...)
	}
	r.objects[key] = u.Object
	if len(owners) == 0 {
		return nil
	}
	return unstructured.SetNestedSlice(u.Object, owners, "metadata", "ownerReferences")
}
