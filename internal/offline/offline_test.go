// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

const graph = `
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: chat}
spec:
  services:
    Frontend:
      componentType: frontend
      extraPodSpec: {mainContainer: {image: registry.example.com/dynamo:1}}
`

// The wording of problems is shown by the golden cases. Here is what a file may look like, and where objects end up.
func TestFilesAreReadWhateverTheirShape(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		content, namespace string
		want               []string
	}{
		"one document":              {content: graph, want: []string{"default/chat"}},
		"a namespace from outside":  {content: graph, namespace: "team-a", want: []string{"team-a/chat"}},
		"empty":                     {content: ""},
		"only separators, comments": {content: "---\n# nothing\n---\n---\n"},
		"two documents":             {content: graph + "---" + strings.ReplaceAll(graph, "chat", "shop"), want: []string{"default/chat", "default/shop"}},
		"JSON":                      {content: `{"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoModel", "metadata": {"name": "m", "namespace": "n"}}`, want: []string{"n/m"}},
		"no newline at the end":     {content: strings.TrimSpace(graph), want: []string{"default/chat"}},
		"a List": {
			content: "apiVersion: v1\nkind: List\nitems:\n- apiVersion: nvidia.com/v1alpha1\n  kind: DynamoModel\n  metadata: {name: m}\n",
			want:    []string{"default/m"},
		},
		"a list of our own kind, as kubectl get prints it": {
			content: "apiVersion: nvidia.com/v1alpha1\nkind: DynamoModelList\nmetadata: {}\nitems:\n- apiVersion: nvidia.com/v1alpha1\n  kind: DynamoModel\n  metadata: {name: m, uid: x}\n  status: {readyEndpoints: 1, totalEndpoints: 1}\n",
			want:    []string{"default/m"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			documents, problems := Read(File{Name: "f", Content: []byte(tc.content), Namespace: tc.namespace})
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			var got []string
			for _, d := range documents {
				got = append(got, d.Object.GetNamespace()+"/"+d.Object.GetName())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatCannotBeReadIsNamed(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"kind: DynamoGraphDeployment":                        `f: DynamoGraphDeployment: apiVersion: Unsupported value: "": supported values: "nvidia.com/v1alpha1"`,
		"apiVersion: nvidia.com/v1alpha1":                    `f: kind: Unsupported value: "": supported values: "DynamoGraphDeployment", "DynamoComponentDeployment", "DynamoModel", "DynamoGraphDeploymentRequest", "DynamoGraphDeploymentScalingAdapter", "DynamoCheckpoint"`,
		"a: [":                                               `f: yaml: line 1: did not find expected node content`,
		"apiVersion: v1\nkind: List\nitems: [text]":          `f: items[0]: Invalid value: "text": must be an object`,
		graph + "---oops\n":                                  `f: invalid Yaml document separator: oops`,
		strings.ReplaceAll(graph, "Frontend", `"a.b"`) + "x": `f: yaml: line 11: could not find expected ':'`,
		strings.ReplaceAll(graph, "{name: chat}", "{name: chat, namespace: team-b}"): `f: DynamoGraphDeployment chat: metadata.namespace: Invalid value: "team-b": differs from --namespace team-a`,
		strings.ReplaceAll(graph, "frontend", "frontend\n      replicas: 1.5"):       `f: DynamoGraphDeployment chat: spec.services[Frontend].replicas: Invalid value: 1.5: must be a whole number, not a number`,
	} {
		_, problems := Read(File{Name: "f", Content: []byte(content), Namespace: "team-a"})
		if len(problems) != 1 || problems[0].Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", content, problems, want)
		}
	}
}

func TestOneProblemAnywhereLeavesNoObjects(t *testing.T) {
	t.Parallel()
	broken := strings.ReplaceAll(strings.ReplaceAll(graph, "chat", "shop"), "image:", "imagePullPolicy:")
	documents, problems := Read(File{Name: "f", Content: []byte(graph + "---" + broken)})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	objects, problems := Objects(documents, DefaultOperator())
	if len(objects) > 0 || len(problems) != 1 {
		t.Errorf("got %d objects, problems %v", len(objects), problems)
	}
}

func TestFindingsKnowTheirDocumentAndLine(t *testing.T) {
	t.Parallel()
	model := "\napiVersion: nvidia.com/v1alpha1\nkind: DynamoModel\nmetadata:\n  name: m\nspec:\n  modelName: \"\"\n  baseModelName: b\n"
	for name, tc := range map[string]struct {
		content string
		want    []string
	}{
		"one":                {model, []string{"1:7 model-name spec.modelName"}},
		"behind a separator": {"---" + model, []string{"1:7 model-name spec.modelName"}},
		"behind a comment":   {"# one\n# two\n---" + model, []string{"2:9 model-name spec.modelName"}},
		"twice the same": {model + "---" + model, []string{
			"1:7 model-name spec.modelName", "2:13 names metadata.name", "2:15 model-name spec.modelName",
		}},
		"in a list": {"apiVersion: v1\nkind: List\nitems:\n- apiVersion: nvidia.com/v1alpha1\n  kind: DynamoModel\n  metadata: {name: m}\n  spec:\n    baseModelName: b\n    modelName: \"\"\n",
			[]string{"1:9 model-name spec.modelName"}},
		"a member that is not there": {strings.ReplaceAll(model, "  modelName: \"\"\n", ""), []string{"1:6 model-name spec.modelName"}},
		"JSON":                       {"{\"apiVersion\": \"nvidia.com/v1alpha1\", \"kind\": \"DynamoModel\",\n\"metadata\": {\"name\": \"m\"},\n\"spec\": {\"modelName\": \"\", \"baseModelName\": \"b\"}}", []string{"1:3 model-name spec.modelName"}},
		"carriage returns":           {strings.ReplaceAll(model+"---"+strings.ReplaceAll(model, "name: m", "name: o"), "\n", "\r\n"), []string{"1:7 model-name spec.modelName", "2:15 model-name spec.modelName"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, p := range Lint([]File{{Name: "f", Content: []byte(tc.content)}}, DefaultOperator()).Findings {
				got = append(got, fmt.Sprintf("%d:%d %s %s", p.Document, p.Line, p.Rule, p.Field()))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequestsAdaptersAndCheckpointsAreJudgedAndNotRendered(t *testing.T) {
	t.Parallel()
	documents, problems := Read(File{Name: "f", Content: []byte(
		"apiVersion: nvidia.com/v1alpha1\nkind: DynamoGraphDeploymentScalingAdapter\nmetadata: {name: a}\nspec: {replicas: 1, dgdRef: {name: g, serviceName: s}}\n")})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	const want = `f: DynamoGraphDeploymentScalingAdapter a: kind: Unsupported value: "DynamoGraphDeploymentScalingAdapter": supported values: "DynamoGraphDeployment", "DynamoComponentDeployment", "DynamoModel"`
	if _, problems := Objects(documents, DefaultOperator()); len(problems) != 1 || problems[0].Error() != want {
		t.Errorf("got %v, want %s", problems, want)
	}
}

func TestPathsAreTakenApart(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][]string{
		"":                                nil,
		"spec":                            {"spec"},
		"spec.services[a.b].envs[0].name": {"spec", "services", "a.b", "envs", "0", "name"},
		"metadata.annotations[nvidia.com/enable-grove]": {"metadata", "annotations", "nvidia.com/enable-grove"},
		"a[":  {"a", ""},
		"..a": {"", "a"},
	} {
		if diff := cmp.Diff(want, steps(path)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", path, diff)
		}
	}
}

func TestTheOrchestratorIsTheOneAskedForOrThatOfTheOperatorsRule(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		metadata     string
		orchestrator Orchestrator
		served       bool
		onGrove      bool
	}{
		"nothing served":           {metadata: "{name: chat}"},
		"Grove served":             {metadata: "{name: chat}", served: true, onGrove: true},
		"switched off":             {metadata: `{name: chat, annotations: {nvidia.com/enable-grove: "False"}}`, served: true},
		"an empty word is no word": {metadata: `{name: chat, annotations: {nvidia.com/enable-grove: ""}}`, served: true, onGrove: true},
		"asked for":                {metadata: "{name: chat}", orchestrator: Grove, onGrove: true},
		"asked not to":             {metadata: "{name: chat}", orchestrator: Deployment, served: true},
	} {
		operator := DefaultOperator()
		operator.Settings.Serves.Grove, operator.Orchestrator = tc.served, tc.orchestrator
		documents, problems := Read(File{Name: "f", Content: []byte(strings.ReplaceAll(graph, "{name: chat}", tc.metadata))})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		objects, problems := Objects(documents, operator)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "PodCliqueSet" }) != tc.onGrove {
			t.Errorf("%s: on Grove is not %v", name, tc.onGrove)
		}
	}
}

func TestAConfigurationIsLaidOverTheDefaultsOfTheFlags(t *testing.T) {
	t.Parallel()
	const header = "apiVersion: config.nvidia.com/v1alpha1\nkind: OperatorConfiguration\n"
	defaults := input.Settings{
		DiscoveryBackend: names.DiscoveryKubernetes, ClusterWide: true, DebuggerImage: "python:3.12-slim",
		SSHSecret: "mpi-run-ssh-secret", GroveTerminationDelay: 15 * time.Minute,
	}
	for name, tc := range map[string]struct {
		content string
		want    Operator
	}{
		"empty": {content: header, want: Operator{Settings: defaults}},
		"full": {
			content: header + "natsAddress: a\netcdAddress: b\nmodelExpressURL: c\nprometheusEndpoint: d\ndiscoveryBackend: etcd\n" +
				"ingress: {className: e, tlsSecretName: f, hostSuffix: g}\nistioVirtualServiceGateway: h\n" +
				"plannerClusterRoleName: i\neppClusterRoleName: j\nrestrictedNamespace: k\n" +
				"groveTerminationDelay: 4h\nmpiRunSSHSecret: {name: l, namespace: m}\n",
			want: Operator{Namespace: "k", Settings: input.Settings{
				NATSAddress: "a", EtcdAddress: "b", ModelExpressURL: "c", PrometheusEndpoint: "d", DiscoveryBackend: "etcd",
				IngressClass: "e", IngressTLSSecret: "f", IngressHostSuffix: "g", IstioGateway: "h",
				PlannerClusterRole: "i", EPPClusterRole: "j", DebuggerImage: "python:3.12-slim",
				SSHSecret: "l", SSHSecretNamespace: "m", GroveTerminationDelay: 4 * time.Hour,
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, problems := Configured("operator.yaml", []byte(tc.content))
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	defaults.PlannerClusterRole, defaults.EPPClusterRole = "dynamo-operator-planner", "dynamo-operator-epp"
	if diff := cmp.Diff(Operator{Settings: defaults}, DefaultOperator()); diff != "" {
		t.Errorf("without a configuration (-want +got):\n%s", diff)
	}
}

func TestAConfigurationThatIsWrongIsRefusedWithThePath(t *testing.T) {
	t.Parallel()
	const header = "apiVersion: config.nvidia.com/v1alpha1\nkind: OperatorConfiguration\n"
	for content, want := range map[string]string{
		"":                                      `o: kind: Unsupported value: null: supported values: "OperatorConfiguration"`,
		"- a":                                   `o: a document has to be a mapping with apiVersion and kind, not a list`,
		"kind: OperatorConfiguration":           `o: apiVersion: Unsupported value: null: supported values: "config.nvidia.com/v1alpha1"`,
		header + "natsAddr: a":                  `o: natsAddr: Forbidden: there is no such field`,
		header + "ingress: {class: a}":          `o: ingress.class: Forbidden: there is no such field`,
		header + "natsAddress: 1":               `o: natsAddress: Invalid value: 1: must be a text, not a whole number; put it in quotes`,
		header + "discoveryBackend: consul":     `o: discoveryBackend: Unsupported value: "consul": supported values: "kubernetes", "etcd"`,
		header + `modelExpressURL: "::"`:        `o: modelExpressURL: Invalid value: "::": must be a URL`,
		header + `natsAddress: a` + "\nkind: b": `o: yaml: unmarshal errors: line 4: key "kind" already set in map`,
	} {
		_, problems := Configured("o", []byte(content))
		if len(problems) != 1 || problems[0].Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", content, problems, want)
		}
	}
}
