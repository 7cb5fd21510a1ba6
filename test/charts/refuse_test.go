// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dynamo-operator/dynamo-operator/test/charts"
)

// refused checks that values are refused, with everything that is wanted in the message.
func refused(t *testing.T, values string, wants ...string) {
	t.Helper()
	_, err := charts.Render(platform, charts.Release{Name: "dynamo-platform", Namespace: "dynamo-system", Values: set(t, values)})
	if err == nil {
		t.Fatalf("%s is taken", values)
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the message does not say %q: %v", values, want, err)
		}
	}
}

func TestEveryRemovedKeyIsRefusedWithItsReplacement(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ values, key, replacement string }{
		{`dynamo-operator: {controllerManager: {kubeRbacProxy: {image: {tag: v0.15.0}}}}`, "controllerManager.kubeRbacProxy", "metricsService"},
		{`dynamo-operator: {webhook: {certGenerator: {image: {tag: latest}}}}`, "webhook.certGenerator", "webhook.certificateValidity"},
		{`dynamo-operator: {dynamo: {mpiRun: {sshKeygen: {enabled: true}}}}`, "dynamo.mpiRun.sshKeygen", "dynamo.mpiRun.secretName"},
		{`dynamo-operator: {dynamo: {enableRestrictedSecurityContext: true}}`, "dynamo.enableRestrictedSecurityContext", "extraPodSpec"},
		{`dynamo-operator: {dynamo: {dynamoIngressSuffix: x.org}}`, "dynamo.dynamoIngressSuffix", "dynamo.ingressHostSuffix"},
		{`dynamo-operator: {dynamo: {dockerRegistry: {secure: false}}}`, "dynamo.dockerRegistry.secure", "on the nodes"},
		{`dynamo-operator: {istioVirtualServiceEnabled: true}`, "istioVirtualServiceEnabled", "dynamo.istio"},
		{`dynamo-operator: {checkpoint: {agent: {image: {tag: x}}}}`, "checkpoint.agent", "a chart of its own"},
		{`dynamo-operator: {namespaceRestriction: {namespace: team-a}}`, "namespaceRestriction.namespace", "namespaceRestriction.targetNamespace"},
		{`dynamo-operator: {controllerManager: {manager: {image: {repository: nvcr.io/nvidia/ai-dynamo/kubernetes-operator, tag: 0.9.0}}}}`,
			"controllerManager.manager.image.repository", "take controllerManager.manager.image out of the values, and imagePullSecrets"},
		{`dynamo-operator: {controllerManager: {manager: {image: {repository: mirror.example.com/nvidia/ai-dynamo/kubernetes-operator}}}}`,
			"controllerManager.manager.image.repository", "an image of this operator"},
		{`dynamo-operator: {controllerManager: {manager: {image: {repository: nvcr.io/nvidian/dynamo-dev/dynamo-operator}}}}`,
			"controllerManager.manager.image.repository", "an image of this operator"},
		{`namespaceRestriction: {enabled: true}`, "namespaceRestriction", "dynamo-operator.namespaceRestriction"},
		{`webhook: {enabled: false}`, "webhook", "dynamo-operator.webhook"},
		{`grove: {tolerations: [{operator: Exists}]}`, "grove.tolerations", "the chart of Grove's own"},
		{`grove: {affinity: {nodeAffinity: {}}}`, "grove.affinity", "the chart of Grove's own"},
		{`kai-scheduler: {global: {tolerations: [{operator: Exists}]}}`, "kai-scheduler.global", "the chart of KAI's own"},
		{`nats: {tlsCA: {enabled: true}}`, "nats.tlsCA.enabled", "dynamo-operator.natsAddr"},
		{`nats: {config: {nats: {tls: {enabled: true}}}}`, "nats.config.nats.tls.enabled", "dynamo-operator.natsAddr"},
		{`nats: {config: {monitor: {tls: {enabled: true}}}}`, "nats.config.monitor.tls.enabled", "dynamo-operator.natsAddr"},
		{`nats: {config: {leafnodes: {enabled: true}}}`, "nats.config.leafnodes.enabled", "dynamo-operator.natsAddr"},
		{`nats: {config: {websocket: {enabled: true}}}`, "nats.config.websocket.enabled", "dynamo-operator.natsAddr"},
		{`nats: {config: {mqtt: {enabled: true}}}`, "nats.config.mqtt.enabled", "dynamo-operator.natsAddr"},
		{`nats: {config: {gateway: {enabled: true}}}`, "nats.config.gateway.enabled", "dynamo-operator.natsAddr"},
		{`nats: {config: {resolver: {enabled: true}}}`, "nats.config.resolver.enabled", "dynamo-operator.natsAddr"},
		{`nats: {config: {patch: [{op: add}]}}`, "nats.config.patch", "config.merge"},
		{`nats: {config: {jetstream: {patch: [{op: add}]}}}`, "nats.config.jetstream.patch", "config.jetstream.merge"},
		{`nats: {config: {jetstream: {fileStore: {pvc: {patch: [{op: add}]}}}}}`, "nats.config.jetstream.fileStore.pvc.patch", "pvc.merge"},
		{`nats: {container: {patch: [{op: add}]}}`, "nats.container.patch", "container.merge"},
		{`nats: {container: {ports: {nats: {hostPort: 4222}}}}`, "nats.container.ports.nats", "container.merge"},
		{`nats: {reloader: {patch: [{op: add}]}}`, "nats.reloader.patch", "reloader.merge"},
		{`nats: {service: {patch: [{op: add}]}}`, "nats.service.patch", "service.merge"},
		{`nats: {statefulSet: {patch: [{op: add}]}}`, "nats.statefulSet.patch", "statefulSet.merge"},
		{`nats: {podTemplate: {patch: [{op: add}]}}`, "nats.podTemplate.patch", "podTemplate.merge"},
		{`nats: {headlessService: {patch: [{op: add}]}}`, "nats.headlessService.patch", "headlessService.merge"},
		{`nats: {configMap: {patch: [{op: add}]}}`, "nats.configMap.patch", "configMap.merge"},
		{`nats: {podDisruptionBudget: {patch: [{op: add}]}}`, "nats.podDisruptionBudget.patch", "podDisruptionBudget.merge"},
		{`nats: {promExporter: {enabled: true}}`, "nats.promExporter.enabled", "config.monitor"},
		{`nats: {serviceAccount: {enabled: true}}`, "nats.serviceAccount.enabled", "podTemplate.merge.spec.serviceAccountName"},
		{`nats: {natsBox: {enabled: true}}`, "nats.natsBox.enabled", "kubectl run"},
		{`etcd: {preUpgradeJob: {enabled: true}}`, "etcd.preUpgradeJob.enabled", "nothing to do"},
		{`etcd: {auth: {rbac: {create: true}}}`, "etcd.auth.rbac.create", "dynamo-operator.etcdAddr"},
	} {
		t.Run(row.values, func(t *testing.T) {
			t.Parallel()
			refused(t, row.values, row.key+" ", row.replacement)
		})
	}
}

func TestRemovedKeysThatAskForNothingAreLetThrough(t *testing.T) {
	t.Parallel()
	render(t, set(t, `
dynamo-operator:
  istioVirtualServiceEnabled: false
  dynamo: {enableRestrictedSecurityContext: false, dynamoIngressSuffix: "", dockerRegistry: {secure: true}}
grove: {tolerations: [], affinity: {}}
kai-scheduler: {global: {tolerations: [], affinity: {}}}
nats: {tlsCA: {enabled: false}, natsBox: {enabled: false, defaultContextName: default}, config: {patch: [], mqtt: {enabled: false}}, container: {ports: {nats: {}}}, service: {ports: {mqtt: {enabled: true}}}}
etcd: {preUpgradeJob: {enabled: false}, auth: {rbac: {create: false}}}
`))
}

func TestValuesThatCannotWorkAreRefusedWithTheKey(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, values string
		wants        []string
	}{
		{"a key that nobody knows", `dynamo-operator: {webhook: {timeout: 3}}`, []string{"webhook", "timeout"}},
		{"a key that nobody knows at the top", `operator: {}`, []string{"operator"}},
		{"a key that nobody knows of NATS", `nats: {replicas: 3}`, []string{"nats", "replicas"}},
		{"a key that nobody knows of etcd", `etcd: {replicas: 3}`, []string{"etcd", "replicas"}},
		{"a word for a number", `dynamo-operator: {controllerManager: {replicas: two}}`, []string{"controllerManager/replicas"}},
		{"a policy that there is not", `dynamo-operator: {webhook: {failurePolicy: Maybe}}`, []string{"webhook/failurePolicy", "Fail", "Ignore"}},
		{"a wait that is too long", `dynamo-operator: {webhook: {timeoutSeconds: 60}}`, []string{"webhook/timeoutSeconds"}},
		{"an authority that ends before its certificates", `dynamo-operator: {webhook: {certificateValidity: 1}}`, []string{"webhook/certificateValidity"}},
		{"a duration without a unit", `dynamo-operator: {namespaceRestriction: {lease: {duration: "30"}}}`, []string{"namespaceRestriction/lease/duration"}},
		{"an argument that is no flag", `dynamo-operator: {controllerManager: {manager: {args: [leader-elect]}}}`, []string{"controllerManager/manager/args/0"}},
		{"two members", `etcd: {replicaCount: 2}`, []string{"replicaCount"}},
		{"a back end that there is not", `dynamo-operator: {discoveryBackend: consul}`, []string{"discoveryBackend", "kubernetes", "etcd"}},
		{"a Lease of its own", `dynamo-operator: {controllerManager: {leaderElection: {id: mine}}}`,
			[]string{"controllerManager.leaderElection.id", `"mine"`, "leave the value empty"}},
		{"a Lease that others do not see", `dynamo-operator: {controllerManager: {leaderElection: {namespace: dynamo-system}}}`,
			[]string{"controllerManager.leaderElection.namespace", `"dynamo-system"`, "kube-system"}},
		{"a registry without a server", `dynamo-operator: {dynamo: {dockerRegistry: {useKubernetesSecret: true, password: x}}}`,
			[]string{"dynamo.dockerRegistry.server is empty", "existingSecretName"}},
		{"a registry without a user", `dynamo-operator: {dynamo: {dockerRegistry: {useKubernetesSecret: true, server: x, username: "", password: x}}}`,
			[]string{"dynamo.dockerRegistry.username is empty"}},
		{"a registry without a password", `dynamo-operator: {dynamo: {dockerRegistry: {useKubernetesSecret: true, server: x}}}`,
			[]string{"dynamo.dockerRegistry.password is empty"}},
		{"a certificate that nobody trusts", `dynamo-operator: {webhook: {certificateSecret: {external: true}}}`,
			[]string{"webhook.caBundle is empty", "webhook.certManager.enabled"}},
		{"discovery through an etcd that is not there", `{dynamo-operator: {discoveryBackend: etcd}, etcd: {enabled: false}}`,
			[]string{"etcd.enabled=true", "dynamo-operator.etcdAddr"}},
		{"discovery through an etcd that nobody is told of", `dynamo-operator: {discoveryBackend: etcd, etcd: {enabled: false}}`,
			[]string{"dynamo-operator.etcd.enabled=true", "dynamo-operator.etcdAddr"}},
		{"a certificate that ends after its authority", `dynamo-operator: {webhook: {certificateValidity: 8, servingCertificateValidity: 191h60m}}`,
			[]string{"webhook.servingCertificateValidity is 191h60m", "webhook.certificateValidity 8 days"}},
		{"a name that leaves no room for that of a Service", `dynamo-operator: {fullnameOverride: the-operator-of-all-namespaces-of-our-big-cluster}`,
			[]string{"63 characters", "fullnameOverride", "47"}},
		{"two Deployments of the operator", `global: {dynamoPlatform: false}`, []string{"global.dynamoPlatform", "--reset-then-reuse-values"}},
		{"a monitor of a Service that is not there", `dynamo-operator: {metricsService: {enabled: false}, monitoring: {serviceMonitor: {enabled: true}}}`,
			[]string{"monitoring.serviceMonitor.enabled", "metricsService.enabled"}},
		{"a monitor that is told nothing", `dynamo-operator: {namespaceRestriction: {enabled: true}, monitoring: {serviceMonitor: {enabled: true}}}`,
			[]string{"metricsService.tokenSecretName"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			refused(t, row.values, row.wants...)
		})
	}
}

// paths are all keys of a section and of those below it.
func paths(section map[string]any, above ...string) [][]string {
	var all [][]string
	for key, value := range section {
		path := append(slices.Clone(above), key)
		all = append(all, path)
		if below, ok := value.(map[string]any); ok {
			all = append(all, paths(below, path...)...)
		}
	}
	return all
}

// isAbout tells a refusal that names a key from a template that came to grief.
func isAbout(err error, key string) bool {
	text := err.Error()
	grief := strings.Contains(text, "nil pointer") || strings.Contains(text, "error calling") && !strings.Contains(text, "error calling fail")
	return strings.Contains(text, key) && !grief
}

// TestANullIsTakenOrRefusedWithItsKey gives every key the value with which Helm takes a default away. What comes out has to be what
// Kubernetes takes, or a message about the key and not about a template.
func TestANullIsTakenOrRefusedWithItsKey(t *testing.T) {
	t.Parallel()
	for part, directory := range map[string]string{"": "", "dynamo-operator": "charts/dynamo-operator", "nats": "charts/nats", "etcd": "charts/etcd"} {
		for _, path := range paths(file(t, filepath.Join(platform, directory, "values.yaml"))) {
			if part != "" {
				path = append([]string{part}, path...)
			}
			name, key := strings.Join(path, "."), path[len(path)-1]
			values := set(t, everything)
			if err := unstructured.SetNestedField(values, nil, path...); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			rendered, err := charts.Render(platform, charts.Release{Name: "dynamo-platform", Namespace: "dynamo-system", Values: values})
			if err != nil {
				if !isAbout(err, key) {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			for file, text := range rendered.Files {
				if strings.Contains(text, "<nil>") || strings.Contains(text, "%!") {
					t.Errorf("%s: %s has a nil in it", name, file)
				}
			}
			ofTheirKinds(t, name, named(t, rendered.Objects))
		}
	}
}
