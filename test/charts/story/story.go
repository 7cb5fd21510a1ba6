// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package story has what stories about installations on a control plane share: the charts as releases, an operator that works, and a
// control plane that is as it was when a story ends. Stories that follow pages and verbs are in followed, the others in installed, each
// with a control plane of its own.
package story

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
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
	"sigs.k8s.io/yaml"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/charts"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	// Root is that of the repository, from the packages of stories.
	Root = "../../.."
	// Charts are the charts of this tree.
	Charts = Root + "/charts"

	// Full is how objects of the release dynamo-platform are called.
	Full = "dynamo-platform-dynamo-operator"
	// Deployment runs the operator, in the namespace System.
	Deployment = Full + "-controller-manager"
	// System is where the release is.
	System = "dynamo-system"
)

// Main runs the stories of a package on a control plane without our definitions, as one is before an installation.
func Main(m *testing.M) {
	harness.Main(m, harness.WithoutDefinitions(), harness.WithAudit(), harness.WithAPIServerArgs("--enable-aggregator-routing=true"))
}

// Definitions is the release of the definitions, as the guides call it.
func Definitions() charts.Release { return charts.Release{Name: "dynamo-crds", Namespace: "default"} }

// Platform is the release of everything else.
func Platform(values map[string]any) charts.Release {
	return charts.Release{Name: "dynamo-platform", Namespace: System, Values: values}
}

// Helm is Helm as the administrator.
func Helm(t *testing.T) charts.Helm {
	t.Helper()
	kubeconfig, err := harness.Cluster(t).Kubeconfig(localcluster.UserAdmin)
	if err != nil {
		t.Fatal(err)
	}
	return charts.Helm{Kubeconfig: kubeconfig}
}

// Upgrade installs a chart, or upgrades to it.
func Upgrade(t *testing.T, chart string, r charts.Release) {
	t.Helper()
	if err := Helm(t).Upgrade(t.Context(), chart, r); err != nil {
		t.Fatal(err)
	}
}

// brisk has a Lease end soon. For how long pods answer that are told to end is left as it is for users.
const brisk = `
leaderElection: {leaseDuration: 6s, renewDeadline: 4s, retryPeriod: 1s}
`

// Briskly are values with that configuration.
func Briskly(t *testing.T, values map[string]any) map[string]any {
	t.Helper()
	if err := unstructured.SetNestedMap(values, Set(t, brisk), "dynamo-operator", "controllerManager", "config"); err != nil {
		t.Fatal(err)
	}
	return values
}

// Account is what the operator of the release runs under.
const Account = "system:serviceaccount:" + System + ":" + Deployment

// Works has a graph stamped with a version and worked on, and another refused.
func Works(t *testing.T, ns, version string) {
	t.Helper()
	good := Frontend(ns)
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
	bad := Frontend(ns)
	bad.Spec.Services["frontend"] = bad.Spec.Services["Frontend"] // which no schema forbids
	err := harness.Client(t).Create(t.Context(), bad)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `admission webhook "vdynamographdeployment.kb.io" denied the request`) {
		t.Errorf("a wrong graph: %v", err)
	}
}

// Audit is how far the log of requests has come.
func Audit(t *testing.T) int64 {
	t.Helper()
	_, end, err := localcluster.ReadAudit(harness.AuditLog(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

// Allowed checks that an operator's account was denied nothing since the log of requests had come so far.
func Allowed(t *testing.T, account string, since int64) {
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
		err = meta.EachListItem(list, func(o runtime.Object) error {
			return client.IgnoreNotFound(harness.Client(t).Delete(ctx, o.(client.Object)))
		})
		if err != nil {
			t.Errorf("clean up: %v", err)
		}
	}
}

// CleanUp takes away what counts for the whole control plane when a story ends, however it ends. Operators have ended by then.
func CleanUp(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		for _, r := range []charts.Release{Platform(nil), Definitions()} {
			if err := Helm(t).Uninstall(r); err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
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

// Set are values in YAML.
func Set(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

var serial atomic.Int64

// Frontend is a graph of one frontend, with a name of its own.
func Frontend(ns string) *v1alpha1.DynamoGraphDeployment {
	name := "g" + strconv.FormatInt(serial.Add(1), 10)
	return builders.Graph(ns, name).Service("Frontend", v1alpha1.ComponentTypeFrontend).Obj()
}
