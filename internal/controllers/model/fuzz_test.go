// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/randfill"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/admission"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/placement"
)

// FuzzPass feeds a pass with models that no schema has looked at and endpoints that nobody has seen: it must not panic, and
// must be content with a status that it wrote itself.
func FuzzPass(f *testing.F) {
	const random = "\x01\x7f\x00\xff\x10\x03\x80\x42 any bytes will do, the more the stranger the object \x01\x02\x03\xfe\xfd"
	f.Add([]byte(`{"metadata":{"name":"m"},"spec":{"modelName":"a","baseModelName":"b","modelType":"lora","source":{"uri":"s3://x"}}}`), []byte(random))
	f.Add([]byte(`{"spec":{"modelType":"LORA"},"status":{"endpoints":[{"address":"","podName":"","ready":true,"adapters":[{"name":"x","uri":"s3://y"}]}]}}`), []byte(random))
	f.Fuzz(func(t *testing.T, text, random []byte) {
		m := &v1alpha1.DynamoModel{}
		if len(random) == 0 || json.Unmarshal(text, m) != nil {
			return
		}
		var seen Seen
		fill := randfill.NewFromGoFuzz(random).NilChance(.3).NumElements(0, 3).MaxDepth(9)
		fill.Fill(&m.Status)
		fill.Fill(&seen.Endpoints)
		fill.Fill(&seen.Holder)
		fill.Fill(&seen.Pods)
		seen.Problems = admission.Model(m)
		reports := map[placement.Target]placement.Report{}
		for _, w := range append(Desired(m, seen), Undone(m, seen)...) {
			var report placement.Report
			fill.Fill(&report)
			reports[w.Target] = report
		}
		_, _ = Judge(seen, reports).Event()
		seen.Known = reports
		next := Status(m, seen, now)
		_ = Events(m, next)
		m.Status = next
		if again := Status(m, seen, now); len(again.Endpoints) != len(next.Endpoints) || again.ReadyEndpoints > again.TotalEndpoints {
			t.Errorf("a status that was stored leads to another one (-first +second):\n%s", cmp.Diff(next, again))
		}
	})
}
