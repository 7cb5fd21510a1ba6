// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// annotationLimit is what the API server allows the annotations of an object, and so what a client-side apply can carry.
const annotationLimit = 262144

// definition is what the wire contract says about a kind beside its schema.
type definition struct {
	kind, singular, short string
	columns               []string // name, type and path, separated by spaces
	status, scale         bool
}

// definitions returns the contract by plural name.
func definitions() map[string]definition {
	const age = "Age date .metadata.creationTimestamp"
	return map[string]definition{
		"dynamomodels": {kind: "DynamoModel", singular: "dynamomodel", short: "dm", status: true, columns: []string{
			"BaseModel string .spec.baseModelName", "Type string .spec.modelType",
			"Ready integer .status.readyEndpoints", "Total integer .status.totalEndpoints", age,
		}},
		"dynamocomponentdeployments": {kind: "DynamoComponentDeployment", singular: "dynamocomponentdeployment", short: "dcd", status: true, columns: []string{
			"DynamoComponent string .spec.dynamoComponent", "Available string .status.conditions[?(@.type=='Available')].status",
			"Backend string .spec.backendFramework", age,
		}},
		"dynamographdeployments": {kind: "DynamoGraphDeployment", singular: "dynamographdeployment", short: "dgd", status: true, columns: []string{
			`Ready string .status.conditions[?(@.type=="Ready")].status`, "Backend string .spec.backendFramework", age,
		}},
		"dynamocheckpoints": {kind: "DynamoCheckpoint", singular: "dynamocheckpoint", short: "dckpt", status: true, columns: []string{
			"Model string .spec.identity.model", "Backend string .spec.identity.backendFramework",
			"Phase string .status.phase", "Hash string .status.identityHash", age,
		}},
		"dynamographdeploymentrequests": {kind: "DynamoGraphDeploymentRequest", singular: "dynamographdeploymentrequest", short: "dgdr", status: true, columns: []string{
			"Model string .spec.model", "Backend string .status.backend", "State string .status.state",
			"DGD-State string .status.deployment.state", age,
		}},
		"dynamographdeploymentscalingadapters": {kind: "DynamoGraphDeploymentScalingAdapter", singular: "dynamographdeploymentscalingadapter", short: "dgdsa", status: true, scale: true, columns: []string{
			"DGD string .spec.dgdRef.name", "SERVICE string .spec.dgdRef.serviceName",
			"REPLICAS integer .status.replicas", "AGE date .metadata.creationTimestamp",
		}},
		"dynamoworkermetadatas": {kind: "DynamoWorkerMetadata", singular: "dynamoworkermetadata", short: "dwm", columns: []string{age}},
	}
}

// installed returns a definition as the API server holds it.
func installed(t testing.TB, plural string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Name: plural + ".nvidia.com"}, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

func TestDefinitionsMatchTheContract(t *testing.T) {
	t.Parallel()
	for plural, want := range definitions() {
		t.Run(plural, func(t *testing.T) {
			t.Parallel()
			crd := installed(t, plural)
			names := apiextensionsv1.CustomResourceDefinitionNames{
				Plural: plural, Singular: want.singular, ShortNames: []string{want.short}, Kind: want.kind, ListKind: want.kind + "List",
			}
			if diff := cmp.Diff(names, crd.Spec.Names); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			if crd.Spec.Group != "nvidia.com" || crd.Spec.Scope != apiextensionsv1.NamespaceScoped || len(crd.Spec.Versions) != 1 {
				t.Fatalf("got group %s, scope %s, %d versions", crd.Spec.Group, crd.Spec.Scope, len(crd.Spec.Versions))
			}
			if crd.Annotations["helm.sh/resource-policy"] != "keep" {
				t.Error("Helm would delete the definition, and every object with it, together with its release")
			}
			checkVersion(t, crd.Spec.Versions[0], want)
		})
	}
}

// checkVersion compares one version of a definition with the contract.
func checkVersion(t *testing.T, version apiextensionsv1.CustomResourceDefinitionVersion, want definition) {
	t.Helper()
	if version.Name != "v1alpha1" || !version.Served || !version.Storage || version.Deprecated || version.SelectableFields != nil {
		t.Errorf("version %s: served %t, stored %t, deprecated %t, selectable %v",
			version.Name, version.Served, version.Storage, version.Deprecated, version.SelectableFields)
	}
	var columns []string
	for _, column := range version.AdditionalPrinterColumns {
		columns = append(columns, column.Name+" "+column.Type+" "+column.JSONPath)
	}
	if diff := cmp.Diff(want.columns, columns); diff != "" {
		t.Errorf("printer columns (-want +got):\n%s", diff)
	}
	subresources := &apiextensionsv1.CustomResourceSubresources{}
	if version.Subresources != nil {
		subresources = version.Subresources
	}
	if got := subresources.Status != nil; got != want.status {
		t.Errorf("status subresource: got %t, want %t", got, want.status)
	}
	var scale *apiextensionsv1.CustomResourceSubresourceScale
	if want.scale {
		selector := ".status.selector"
		scale = &apiextensionsv1.CustomResourceSubresourceScale{
			SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: &selector,
		}
	}
	if diff := cmp.Diff(scale, subresources.Scale); diff != "" {
		t.Errorf("scale subresource (-want +got):\n%s", diff)
	}
	root := version.Schema.OpenAPIV3Schema
	members := []string{"apiVersion", "kind", "metadata", "spec"}
	if want.status {
		members = append(members, "status")
	}
	if diff := cmp.Diff(members, slices.Sorted(maps.Keys(root.Properties))); diff != "" {
		t.Errorf("root members (-want +got):\n%s", diff)
	}
	if len(root.Required) != 0 {
		t.Errorf("root requires %v, but spec is optional on the wire", root.Required)
	}
}

func TestPodOverlayOffersEveryPodMember(t *testing.T) {
	t.Parallel()
	members := strings.Fields(`activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy enableServiceLinks
		ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets initContainers nodeName
		nodeSelector os overhead preemptionPolicy priority priorityClassName readinessGates resourceClaims resources restartPolicy
		runtimeClassName schedulerName schedulingGates securityContext serviceAccount serviceAccountName setHostnameAsFQDN
		shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes mainContainer`)
	crd := installed(t, "dynamocomponentdeployments")
	overlay := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["extraPodSpec"]
	for _, member := range members {
		if _, found := overlay.Properties[member]; !found {
			t.Errorf("extraPodSpec lacks %s", member)
		}
	}
}

func TestGeneratedDeploymentIsAWholeObject(t *testing.T) {
	t.Parallel()
	crd := installed(t, "dynamographdeploymentrequests")
	generated := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties["generatedDeployment"]
	want := apiextensionsv1.JSONSchemaProps{
		Type: "object", XEmbeddedResource: true, XPreserveUnknownFields: new(true), Description: generated.Description,
	}
	if diff := cmp.Diff(want, generated); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

func TestDefinitionsFitIntoAClientSideApply(t *testing.T) {
	t.Parallel()
	for plural := range definitions() {
		t.Run(plural, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("..", "..", "config", "crd", "bases", "nvidia.com_"+plural+".yaml")
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			compact, err := yaml.YAMLToJSON(content)
			if err != nil {
				t.Fatal(err)
			}
			if len(compact) >= annotationLimit {
				t.Errorf("%d bytes as JSON, want fewer than %d", len(compact), annotationLimit)
			}
			if _, stderr, err := harness.Kubectl(t, "apply", "--server-side=false", "-f", path); err != nil {
				t.Fatalf("kubectl apply: %v: %s", err, stderr)
			}
			applied := installed(t, plural).Annotations["kubectl.kubernetes.io/last-applied-configuration"]
			if !json.Valid([]byte(applied)) {
				t.Errorf("no record of a client-side apply on the object, got %q", applied)
			}
		})
	}
}

func TestShortNamesAndColumnsWorkForKubectl(t *testing.T) {
	t.Parallel()
	namespace := harness.Namespace(t)
	for kind, spec := range map[string]string{
		"DynamoModel":                         `{modelName: m, baseModelName: b}`,
		"DynamoComponentDeployment":           `{backendFramework: vllm}`,
		"DynamoGraphDeployment":               `{backendFramework: vllm, services: {a: {}}}`,
		"DynamoCheckpoint":                    validCheckpoint,
		"DynamoGraphDeploymentRequest":        `{model: m, backend: vllm, profilingConfig: {profilerImage: i, config: {}}}`,
		"DynamoGraphDeploymentScalingAdapter": `{replicas: 1, dgdRef: {name: g, serviceName: s}}`,
		"DynamoWorkerMetadata":                `{data: {}}`,
	} {
		mustCreate(t, namespace, kind, spec)
	}
	for plural, want := range definitions() {
		t.Run(want.short, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, err := harness.Kubectl(t, "get", want.short, "--namespace", namespace)
			if err != nil {
				t.Fatalf("kubectl get %s: %v: %s", want.short, err, stderr)
			}
			header := []string{"NAME"}
			for _, column := range want.columns {
				header = append(header, strings.ToUpper(strings.Fields(column)[0]))
			}
			lines := strings.Split(strings.TrimSpace(stdout), "\n")
			if diff := cmp.Diff(header, strings.Fields(lines[0])); diff != "" {
				t.Errorf("columns of %s (-want +got):\n%s", plural, diff)
			}
			if len(lines) != 2 {
				t.Errorf("got %d objects, want the one that was created:\n%s", len(lines)-1, stdout)
			}
		})
	}
}

func TestFieldsExplainThemselves(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"dgd.spec.services":                            "Services of the graph by name",
		"dgd.spec.services.extraPodSpec.mainContainer": "Laid over the main container",
		"dcd.spec.eppConfig.config.plugins":            "Plugin instances the profiles refer to",
		"dckpt.spec.identity.maxModelLen":              "Context length in tokens",
		"dgdr.spec.profilingConfig.configMapRef.key":   "Data key that holds the manifest",
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, err := harness.Kubectl(t, "explain", field)
			if err != nil {
				t.Fatalf("kubectl explain %s: %v: %s", field, err, stderr)
			}
			if !strings.Contains(stdout, want) {
				t.Errorf("got\n%s\nwant it to contain %q", stdout, want)
			}
		})
	}
}
