// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/config/crd"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

const argocd = "../../deploy/gitops/argocd"

// script reads what Argo CD runs for a kind.
func script(t *testing.T, kind string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(argocd, "resource_customizations", v1alpha1.GroupVersion.Group, kind, "health.lua"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// health runs a script as Argo CD does: with the object in a global variable, a second to think, and of the libraries of
// Lua only those that Argo CD lets scripts have.
func health(t *testing.T, script string, object map[string]any) (verdict, message string) {
	t.Helper()
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	state.SetContext(ctx)
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			t.Fatal(err)
		}
	}
	state.SetGlobal("obj", value(t, state, object))
	if err := state.DoString(script); err != nil {
		t.Fatalf("the script ends with: %v", err)
	}
	answer, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the script answers with %s, want a table", state.Get(-1))
	}
	return lua.LVAsString(answer.RawGetString("status")), lua.LVAsString(answer.RawGetString("message"))
}

// value turns something from JSON into something of Lua.
func value(t *testing.T, state *lua.LState, from any) lua.LValue {
	t.Helper()
	switch v := from.(type) {
	case nil:
		return lua.LNil
	case bool:
		return lua.LBool(v)
	case string:
		return lua.LString(v)
	case int64:
		return lua.LNumber(v)
	case []any:
		table := state.NewTable()
		for _, element := range v {
			table.Append(value(t, state, element))
		}
		return table
	case map[string]any:
		table := state.NewTable()
		for key, member := range v {
			table.RawSetString(key, value(t, state, member))
		}
		return table
	}
	t.Fatalf("no sample has a %T", from)
	return nil
}

func TestArgoCDTellsTheStateOfEveryObject(t *testing.T) {
	t.Parallel()
	for kind, states := range samples() {
		for name, s := range states {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				if s.argo == notAsked {
					return
				}
				object := fields(t, s.object)
				verdict, message := health(t, script(t, object.GetKind()), object.Object)
				if verdict != s.argo || !strings.Contains(message, s.says) {
					t.Errorf("it is %s: %q, want %s: ...%q...", verdict, message, s.argo, s.says)
				}
			})
		}
	}
}

func TestArgoCDWaitsForObjectsWithoutAStatus(t *testing.T) {
	t.Parallel()
	for _, kind := range kindsWithStatus(t) {
		object := map[string]any{"kind": kind, "metadata": map[string]any{"name": "x", "generation": int64(1)}, "spec": map[string]any{}}
		if verdict, message := health(t, script(t, kind), object); verdict != progressing || message == "" {
			t.Errorf("%s without a status is %s: %q", kind, verdict, message)
		}
	}
}

// kindsWithStatus are the kinds that Argo CD can ask for their health.
func kindsWithStatus(t *testing.T) []string {
	t.Helper()
	definitions, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, d := range definitions {
		if d.Spec.Versions[0].Subresources.Status != nil {
			kinds = append(kinds, d.Spec.Names.Kind)
		}
	}
	return kinds
}

func TestTheConfigMapOfArgoCDHasTheScripts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(argocd, "argocd-cm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config corev1.ConfigMap
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"resource.customizations.ignoreDifferences.nvidia.com_DynamoGraphDeployment": "managedFieldsManagers:\n- " + names.FieldManagerScaling + "\n",
	}
	for _, kind := range kindsWithStatus(t) {
		want["resource.customizations.health.nvidia.com_"+kind] = script(t, kind)
	}
	if diff := cmp.Diff(want, config.Data); diff != "" {
		t.Errorf("argocd-cm.yaml (-want +got):\n%s", diff)
	}
	files, err := filepath.Glob(filepath.Join(argocd, "resource_customizations", "*", "*", "*"))
	if err != nil || len(files) != len(want)-1 || slices.ContainsFunc(files, func(f string) bool { return filepath.Base(f) != "health.lua" }) {
		t.Errorf("scripts %v, %v", files, err)
	}
}
