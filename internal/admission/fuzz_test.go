// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// FuzzJudge gives the rules whatever JSON can be decoded into our types, as a new object and as a change of another. The first
// byte chooses the kind. They must not fail, must say the same each time and in order, and must name a field.
func FuzzJudge(f *testing.F) {
	for _, seed := range []struct {
		kind     uint8
		old, obj string
	}{
		{0, `{}`, `{}`},
		{0, `{"spec":{"services":{"a":null}}}`, `{"spec":{"services":{"a":null,"A":{"componentType":"epp"}},"pvcs":[{}],"restart":{"id":""}}}`},
		{0, `{"spec":{"services":{"a":{"scalingAdapter":{"enabled":true}}}}}`, `{"spec":{"services":{"a":{"replicas":-3,"multinode":{}}}}}`},
		{1, `{}`, `{"metadata":{"name":"..","annotations":{"nvidia.com/":""}},"spec":{"sharedMemory":{"size":"0"},"resources":{"limits":{"custom":{"":""}}}}}`},
		{2, `{"spec":{"modelType":"lora"}}`, `{"spec":{"modelType":"LORA","source":{"uri":""}}}`},
		{3, `{"status":{"state":"Ready"}}`, `{"spec":{"profilingConfig":{"config":[null]}}}`},
		{3, `{}`, `{"spec":{"profilingConfig":{"config":{"engine":{"backend":7},"deployment":null}}}}`},
		{4, `{}`, `{"spec":{"replicas":-1}}`},
		{5, `{}`, `{"spec":{"identity":{"extraParameters":{}}}}`},
	} {
		f.Add(seed.kind, []byte(seed.old), []byte(seed.obj))
	}
	f.Fuzz(func(t *testing.T, kind uint8, before, after []byte) {
		old, obj := blank(kind), blank(kind)
		if json.Unmarshal(before, old) != nil || json.Unmarshal(after, obj) != nil {
			return
		}
		c := Circumstances{Restricted: kind%2 == 0, InferencePools: Presence(kind % 3), Caller: string(before), ReplicaWriters: []string{string(after)}}
		for _, was := range []runtime.Object{nil, old} {
			verdict := Judge(kindOf(obj), was, obj, c)
			if diff := cmp.Diff(verdict, Judge(kindOf(obj), was, obj, c)); diff != "" {
				t.Fatalf("the same object, another verdict (-first +again):\n%s", diff)
			}
			for i, err := range verdict.Errors {
				if err.Field == "" || err.Origin == "" || i > 0 && verdict.Errors[i-1].Field > err.Field {
					t.Fatalf("%v is about nothing, of no rule, or out of order", err)
				}
			}
			if slices.Contains(verdict.Warnings, "") {
				t.Fatal("an empty warning")
			}
		}
		Examine(obj, c)
	})
}

// blank is an empty object of some kind.
func blank(kind uint8) runtime.Object {
	return []runtime.Object{
		&v1alpha1.DynamoGraphDeployment{}, &v1alpha1.DynamoComponentDeployment{}, &v1alpha1.DynamoModel{},
		&v1alpha1.DynamoGraphDeploymentRequest{}, &v1alpha1.DynamoGraphDeploymentScalingAdapter{}, &v1alpha1.DynamoCheckpoint{},
	}[kind%6]
}
