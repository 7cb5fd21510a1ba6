// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package installed_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/storage/driver"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/charts"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
	"github.com/dynamo-operator/dynamo-operator/test/kubelet"
)

// brisk has a Lease end soon. For how long pods answer that are told to end is left as it is for users.
const brisk = `
leaderElection: {leaseDuration: 6s, renewDeadline: 4s, retryPeriod: 1s}
`

// briskly are values with that configuration.
func briskly(t *testing.T, values map[string]any) map[string]any {
	t.Helper()
	if err := unstructured.SetNestedMap(values, set(t, brisk), "dynamo-operator", "controllerManager", "config"); err != nil {
		t.Fatal(err)
	}
	return values
}

// account is what the operator of the release runs under.
const account = "system:serviceaccount:" + system + ":" + deployment

// released is the version of the last release that was packed.
func released(t *testing.T) string {
	t.Helper()
	name := filepath.Base(archive(t, "dynamo-platform"))
	return strings.TrimSuffix(strings.TrimPrefix(name, "dynamo-platform-"), ".tgz")
}

// runs checks that all pods have one program.
func runs(t *testing.T, k *kubelet.Kubelet, program string) {
	t.Helper()
	for _, p := range k.Pods {
		if p.Binary() != program {
			t.Errorf("%s runs %s, want %s", p.Name, p.Binary(), program)
		}
	}
}

// works has a graph stamped with a version and worked on, and another refused.
func works(t *testing.T, ns, version string) {
	t.Helper()
	good := frontend(ns)
	harness.Eventually(t, time.Minute, "a graph stamped by version "+version, func() (bool, string) {
		try := good.DeepCopy()
		if err := harness.Client(t).Create(t.Context(), try, client.DryRunAll); err != nil {
			return false, err.Error()
		}
		return try.Annotations[names.AnnotationOriginVersion] == version, fmt.Sprint(try.Annotations)
	})
	if err := harness.Client(t).Create(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	harness.AwaitReady(t, ns, good.Name)
	bad := frontend(ns)
	bad.Spec.Services["frontend"] = bad.Spec.Services["Frontend"] // which no schema forbids
	err := harness.Client(t).Create(t.Context(), bad)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `admission webhook "vdynamographdeployment.kb.io" denied the request`) {
		t.Errorf("a wrong graph: %v", err)
	}
}

// audit is how far the log of requests has come.
func audit(t *testing.T) int64 {
	t.Helper()
	_, end, err := localcluster.ReadAudit(harness.AuditLog(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

// allowed checks that an operator's account was denied nothing since the log of requests had come so far.
func allowed(t *testing.T, account string, since int64) {
	t.Helper()
	records, _, err := localcluster.ReadAudit(harness.AuditLog(t), since)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, r := range records {
		if r.User != account {
			continue
		}
		asked++
		if r.Code == http.StatusForbidden && r.Denied {
			t.Errorf("the operator may not %s %s", r.Verb, r.URI)
		}
	}
	if asked == 0 {
		t.Error("nobody asked for anything under the operator's account; the test proves nothing")
	}
}

// forgetGraphs deletes the graphs of a story and their components. Nobody here collects what has lost its owner, and a guide that waits
// for all graphs would wait for these, too.
func forgetGraphs(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, list := range []client.ObjectList{&v1alpha1.DynamoGraphDeploymentList{}, &v1alpha1.DynamoComponentDeploymentList{}} {
		err := harness.Client(t).List(ctx, list)
		if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			t.Errorf("clean up: %v", err)
		}
		_ = meta.EachListItem(list, func(o runtime.Object) error {
			if err := client.IgnoreNotFound(harness.Client(t).Delete(ctx, o.(client.Object))); err != nil {
				t.Errorf("clean up: %v", err)
			}
			return nil
		})
	}
}

// cleanUp takes away what counts for the whole control plane when a story ends, however it ends. Operators have ended by then.
func cleanUp(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		for _, r := range []charts.Release{platform(nil), definitions()} {
			if err := helm(t).Uninstall(r); err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
				t.Errorf("clean up: %v", err)
			}
		}
		ctx := context.WithoutCancel(t.Context())
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "dynamo.nvidia.com"}}
		if err := client.IgnoreNotFound(harness.Client(t).Delete(ctx, lease)); err != nil {
			t.Errorf("clean up: %v", err)
		}
		forgetGraphs(ctx, t)
		all := &apiextensionsv1.CustomResourceDefinitionList{}
		if err := harness.Client(t).DeleteAllOf(ctx, &apiextensionsv1.CustomResourceDefinition{}); err != nil {
			t.Errorf("clean up: %v", err)
		}
		harness.Eventually(t, time.Minute, "the end of all definitions", func() (bool, string) {
			err := harness.Client(t).List(ctx, all)
			return err == nil && len(all.Items) == 0, fmt.Sprintf("%d are there: %v", len(all.Items), err)
		})
	})
}
