// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package installed_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// account is what the operator of the release runs under.
const account = "system:serviceaccount:" + system + ":" + deployment

// released is the version of the last release that was packed.
func released(t *testing.T) string {
	t.Helper()
	name := filepath.Base(archive(t, "dynamo-platform"))
	return strings.TrimSuffix(strings.TrimPrefix(name, "dynamo-platform-"), ".tgz")
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

// allowed checks that an operator's account was denied nothing so far.
func allowed(t *testing.T, account string) {
	t.Helper()
	records, _, err := localcluster.ReadAudit(harness.AuditLog(t), 0)
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

// cleanUp takes away what counts for the whole control plane when a story ends, however it ends.
func cleanUp(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for _, kind := range []client.Object{
			&admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{},
			&apiextensionsv1.CustomResourceDefinition{},
		} {
			if err := harness.Client(t).DeleteAllOf(ctx, kind); err != nil {
				t.Errorf("clean up: %v", err)
			}
		}
	})
}
