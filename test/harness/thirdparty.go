// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/simulator/crds"
	"github.com/dynamo-operator/dynamo-operator/test/simulator/grove"
)

// apiTimeout bounds the wait for an API or a policy to come or go.
const apiTimeout = time.Minute

// WithGrove installs the CRDs of Grove and a policy that stands for its admission. Nobody acts on PodCliqueSets until a
// test calls SimulateGrove.
func WithGrove() Option {
	return func(o *settings) {
		o.moduleCRDs[grove.Module] = grove.CRDs
		o.grove = true
	}
}

// WithVolcano installs the PodGroup of Volcano.
func WithVolcano() Option {
	return func(o *settings) { o.ownCRDs = append(o.ownCRDs, crds.Volcano) }
}

// WithKAI installs the Queue of the KAI scheduler.
func WithKAI() Option {
	return func(o *settings) { o.ownCRDs = append(o.ownCRDs, crds.KAI) }
}

// definition reads a CRD that comes with the tests.
type definition func() (*apiextensionsv1.CustomResourceDefinition, error)

// installGroveAdmission applies the policy and returns when the API server obeys it, which it starts to do some time
// after it has stored it.
func installGroveAdmission(ctx context.Context, config *rest.Config, api client.Client) error {
	objects, err := localcluster.DecodeManifest(bytes.NewReader(grove.Admission()))
	if err != nil {
		return err
	}
	if err := localcluster.ApplyObjects(ctx, config, "dynamo-test", objects); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := api.Create(ctx, refusedByGrove(), client.DryRunAll)
		if err != nil && strings.Contains(err.Error(), grove.PolicyName) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the policy of Grove has no effect after %s: %w", apiTimeout, err)
		case <-ticker.C:
		}
	}
}

// refusedByGrove is a PodCliqueSet that only the policy refuses.
func refusedByGrove() *v1alpha1.PodCliqueSet {
	clique := &v1alpha1.PodCliqueTemplateSpec{Name: strings.Repeat("long", 12)}
	clique.Spec.RoleName = "any"
	clique.Spec.PodSpec.Containers = []corev1.Container{{Name: "main"}}
	set := &v1alpha1.PodCliqueSet{}
	set.Name, set.Namespace = "refused", corev1.NamespaceDefault
	set.Spec.Template.Cliques = []*v1alpha1.PodCliqueTemplateSpec{clique}
	return set
}

// GroveCRDs returns the CRDs of Grove, for tests in which its API comes and goes. They come without the admission that
// WithGrove installs.
func GroveCRDs(t testing.TB) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	definitions, err := localcluster.ModuleCRDs(t.Context(), grove.Module, grove.CRDs)
	if err != nil {
		t.Fatalf("CRDs of Grove: %v", err)
	}
	return definitions
}

// InstallCRDs installs CRDs in a running control plane and returns when discovery lists them. All tests of the package
// see them, until RemoveCRDs.
func InstallCRDs(t testing.TB, definitions ...*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	if err := localcluster.InstallCRDs(t.Context(), RESTConfig(t, localcluster.UserAdmin), definitions); err != nil {
		t.Fatalf("install CRDs: %v", err)
	}
	awaitDiscovery(t, definitions, true)
}

// RemoveCRDs removes CRDs with all objects of theirs and returns when discovery lists them no longer. Objects with
// finalizers need somebody who still serves these.
func RemoveCRDs(t testing.TB, definitions ...*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	for _, d := range definitions {
		if err := Client(t).Delete(t.Context(), d.DeepCopy()); client.IgnoreNotFound(err) != nil {
			t.Fatalf("delete CRD %s: %v", d.Name, err)
		}
	}
	for _, d := range definitions {
		reminded := time.Now()
		Eventually(t, apiTimeout, "end of CRD "+d.Name, func() (bool, string) {
			live := &apiextensionsv1.CustomResourceDefinition{}
			err := Client(t).Get(t.Context(), client.ObjectKeyFromObject(d), live)
			if err == nil && time.Since(reminded) > reminderAfter {
				reminded = time.Now()
				err = remind(t, live)
			}
			return apierrors.IsNotFound(err), fmt.Sprintf("%v, finalizers %v, conditions %v", err, live.Finalizers, live.Status.Conditions)
		})
	}
	awaitDiscovery(t, definitions, false)
}

// reminderAfter is how long the API server may take to let a CRD go whose objects are gone. It looks for them every five seconds.
const reminderAfter = 15 * time.Second

// remind has the API server look again at a CRD that is to go. About once in fifty times on a busy machine it lets go of one and then
// forgets it: after a conflict it counts on news of that CRD, and none come as long as only its own condition has changed.
func remind(t testing.TB, live *apiextensionsv1.CustomResourceDefinition) error {
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"dynamo-test/reminder":%q}}}`, time.Now().Format(time.RFC3339)))
	return Client(t).Patch(t.Context(), live, patch)
}

// awaitDiscovery waits until discovery lists all resources, or none of them.
func awaitDiscovery(t testing.TB, definitions []*apiextensionsv1.CustomResourceDefinition, listed bool) {
	t.Helper()
	api, err := discovery.NewDiscoveryClientForConfig(RESTConfig(t, localcluster.UserAdmin))
	if err != nil {
		t.Fatalf("make discovery client: %v", err)
	}
	for _, d := range definitions {
		Eventually(t, apiTimeout, "discovery of "+d.Name, func() (bool, string) {
			_, lists, err := api.ServerGroupsAndResources()
			if err != nil {
				return false, err.Error() // a group that comes or goes can be listed without its resources for a moment
			}
			found := false
			for _, list := range lists {
				for _, resource := range list.APIResources {
					gv, err := schema.ParseGroupVersion(list.GroupVersion)
					found = found || err == nil && gv.Group == d.Spec.Group && resource.Name == d.Spec.Names.Plural
				}
			}
			return found == listed, fmt.Sprintf("listed: %t", found)
		})
	}
}

// SimulateGrove plays Grove in the namespace until the test ends.
func SimulateGrove(t testing.TB, namespace string, opts ...grove.Option) *grove.Simulator {
	t.Helper()
	api, err := client.NewWithWatch(RESTConfig(t, localcluster.UserSimulator), client.Options{Scheme: Scheme(t)})
	if err != nil {
		t.Fatalf("make the simulator's client: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	sim := grove.New(api, namespace, opts...)
	done := make(chan error, 1)
	go func() { done <- sim.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("simulator of Grove: %v", err)
		}
	})
	return sim
}
