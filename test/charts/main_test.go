// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/dynamo-operator/dynamo-operator/test/charts"
)

const (
	definitions = "../../charts/crds"
	platform    = "../../charts/platform"
	config      = "../../config"
)

// set are values in YAML.
func set(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// file are values in a file.
func file(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return set(t, string(text))
}

// presets are the values that come with the platform, and none at all.
func presets(t *testing.T) map[string]map[string]any {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(platform, "presets", "*.yaml"))
	if err != nil || len(files) != 3 {
		t.Fatalf("found %v: %v", files, err)
	}
	all := map[string]map[string]any{"default": {}}
	for _, name := range files {
		all[strings.TrimSuffix(filepath.Base(name), ".yaml")] = file(t, name)
	}
	return all
}

// everything are values that turn on what can be on together.
const everything = `
dynamo-operator:
  controllerManager:
    networkPolicy: {enabled: true, extraEgress: [{ports: [{port: 4317, protocol: TCP}]}]}
    nodeSelector: {disk: fast}
    affinity: {nodeAffinity: {}}
    tolerations: [{operator: Exists}]
    serviceAccount: {annotations: {a: b}}
    podAnnotations: {c: d}
    manager: {image: {registry: registry.example.com/team/, pullPolicy: Always}, env: [{name: E, value: f}]}
    config: {ignoredNamespaces: [kube-*], tracing: {endpoint: "http://collector:4318"}}
  imagePullSecrets: [{name: pull}]
  metricsService: {readers: [{name: prometheus, namespace: monitoring}]}
  monitoring: {serviceMonitor: {enabled: true}, podMonitor: {enabled: true}}
  modelExpressURL: http://model-express:8001
  dynamo:
    components: {serviceAccount: {annotations: {g: h}}}
    dockerRegistry: {useKubernetesSecret: true, server: docker.io, password: secret}
    ingress: {enabled: true, className: nginx, tlsSecretName: tls}
    istio: {enabled: true, gateway: istio-system/public}
    ingressHostSuffix: example.com
    virtualServiceSupportsHTTPS: true
    metrics: {prometheusEndpoint: "http://prometheus:9090"}
  webhook: {namespaceSelector: {matchExpressions: [{key: dynamo, operator: Exists}]}, certManager: {enabled: true}}
  checkpoint: {enabled: true}
nats:
  config: {cluster: {enabled: true}, jetstream: {memoryStore: {enabled: true}}, profiling: {enabled: true}}
  container: {env: {GOMEMLIMIT: 1GiB, B: {valueFrom: {fieldRef: {fieldPath: metadata.name}}}}, merge: {resources: {requests: {cpu: 1}}}}
  reloader: {env: {C: d}}
  service: {ports: {monitor: {enabled: true}}, merge: {metadata: {annotations: {i: j}}}}
  podTemplate: {topologySpreadConstraints: {kubernetes.io/hostname: {}}, merge: {spec: {serviceAccountName: nats}}}
etcd: {replicaCount: 3, pdb: {create: true}, resources: {requests: {cpu: 1}}, nodeSelector: {disk: fast}, affinity: {nodeAffinity: {}}, tolerations: [{operator: Exists}]}
grove: {enabled: true}
kai-scheduler: {enabled: true}
kai: {createQueues: true}
`

// render renders the platform as the release dynamo-platform in dynamo-system.
func render(t *testing.T, values map[string]any) *charts.Rendered {
	t.Helper()
	return renderAs(t, charts.Release{Name: "dynamo-platform", Namespace: "dynamo-system", Values: values})
}

func renderAs(t *testing.T, r charts.Release) *charts.Rendered {
	t.Helper()
	rendered, err := charts.Render(platform, r)
	if err != nil {
		t.Fatal(err)
	}
	return rendered
}

// named are objects by their kinds and names. None may be there twice.
func named(t *testing.T, objects []*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	t.Helper()
	byName := map[string]*unstructured.Unstructured{}
	for _, u := range objects {
		name := u.GetKind() + " " + u.GetName()
		if byName[name] != nil {
			t.Errorf("%s is there twice", name)
		}
		byName[name] = u
	}
	return byName
}

// typed is an object in its type, which may have no member that the type does not have.
func typed[T any](t *testing.T, objects map[string]*unstructured.Unstructured, name string) *T {
	t.Helper()
	u := objects[name]
	if u == nil {
		t.Fatalf("there is no %s", name)
	}
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, into, true); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return into
}
