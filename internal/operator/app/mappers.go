// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"net/http"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/dynamo-operator/dynamo-operator/internal/operator/apis"
)

// hopefulMapper answers for optional kinds that the cluster does not serve: that they would be namespaced is all that a
// cache wants to know before somebody reads them.
type hopefulMapper struct{ meta.RESTMapper }

// RESTMapping returns the server's answer, and a guess for optional kinds that it does not know.
func (m hopefulMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	mapping, err := m.RESTMapper.RESTMapping(kind, versions...)
	if resource, optional := apis.ResourceOf(kind); meta.IsNoMatchError(err) && optional {
		return &meta.RESTMapping{Resource: resource, GroupVersionKind: kind.WithVersion(resource.Version), Scope: meta.RESTScopeNamespace}, nil
	}
	return mapping, err
}

// rememberingMapper asks the mapper behind it only once for each kind. Everything that is read, and every event of a child, asks
// where its kind is served, and finding that out anew was a tenth of all memory that the operator allocated. The answer never
// changes: kinds and versions are those that the operator was built with, and a kind that is not served is asked for again.
type rememberingMapper struct {
	meta.RESTMapper
	known *sync.Map
}

// newMapper makes the mapper that clients, caches and watches share.
func newMapper(api *rest.Config, client *http.Client) (meta.RESTMapper, error) {
	mapper, err := apiutil.NewDynamicRESTMapper(api, client)
	return rememberingMapper{RESTMapper: mapper, known: &sync.Map{}}, err
}

type mapped struct {
	schema.GroupKind
	versions string
}

// RESTMapping returns the server's first answer.
func (m rememberingMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	key := mapped{kind, strings.Join(versions, ",")}
	if mapping, ok := m.known.Load(key); ok {
		return mapping.(*meta.RESTMapping), nil
	}
	mapping, err := m.RESTMapper.RESTMapping(kind, versions...)
	if err == nil {
		m.known.Store(key, mapping)
	}
	return mapping, err
}
