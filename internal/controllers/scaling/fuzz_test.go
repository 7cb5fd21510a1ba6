// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/admission"
)

// FuzzPass feeds a pass with adapters and graphs that no schema has looked at: it must not panic, and must be content with
// a status that it wrote itself.
func FuzzPass(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"a"},"spec":{"replicas":2,"dgdRef":{"name":"g","serviceName":"s"}}}`),
		[]byte(`{"metadata":{"name":"g"},"spec":{"services":{"s":{"scalingAdapter":{"enabled":true}}}}}`), []byte(random))
	f.Add([]byte(`{"spec":{"replicas":-1}}`), []byte(`{"spec":{"services":{"":null}}}`), []byte(random))
	f.Fuzz(func(t *testing.T, adapterText, graphText, random []byte) {
		a, g := &adapterObject{}, &v1alpha1.DynamoGraphDeployment{}
		if json.Unmarshal(adapterText, a) != nil || json.Unmarshal(graphText, g) != nil {
			return
		}
		imagine(random, a, g)
		seen := Seen{Graph: g, Adapters: []adapterObject{*a}}
		pass := Pass{Seen: seen, Target: Desired(a, admission.ScalingAdapter(a), seen)}
		if (pass.Problem == "") != (pass.Service != nil) {
			t.Errorf("an adapter has a service and a problem, or neither: %+v", pass.Target)
		}
		now := metav1.NewTime(time.Unix(1, 0))
		next := Status(a, pass, now)
		_ = Events(a, next, nil)
		a.Status = next
		if diff := cmp.Diff(next, Status(a, pass, now)); diff != "" {
			t.Errorf("a status that was stored leads to another one (-first +second):\n%s", diff)
		}
	})
}

// random is where the search for strange objects begins.
const random = "\x01\x7f\x00\xff\x10\x03\x80\x42 any bytes will do, the more the stranger the object \x01\x02\x03\xfe\xfd"

// imagine fills what the texts left empty with whatever the bytes stand for.
func imagine(from []byte, objects ...any) {
	if len(from) == 0 {
		return
	}
	fill := randfill.NewFromGoFuzz(from).NilChance(.3).NumElements(0, 2).MaxDepth(9)
	for _, o := range objects {
		fill.Fill(o)
	}
}
