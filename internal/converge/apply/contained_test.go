// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

func TestContained(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		intent, live string
		want         bool
	}{
		"equal":                           {`{"a":1}`, `{"a":1}`, true},
		"more in the live object":         {`{"a":1}`, `{"a":1,"b":2}`, true},
		"missing in the live object":      {`{"a":1,"b":2}`, `{"a":1}`, false},
		"another value":                   {`{"a":1}`, `{"a":2}`, false},
		"zero is a value":                 {`{"a":0}`, `{"a":1}`, false},
		"false is a value":                {`{"a":false}`, `{"a":true}`, false},
		"another type":                    {`{"a":"1"}`, `{"a":1}`, false},
		"number formats":                  {`{"a":1}`, `{"a":1.0}`, true},
		"nested":                          {`{"a":{"b":1}}`, `{"a":{"b":1,"c":2}}`, true},
		"quantity written otherwise":      {`{"limits":{"cpu":"0.5"}}`, `{"limits":{"cpu":"500m"}}`, true},
		"another quantity":                {`{"limits":{"cpu":"0.5"}}`, `{"limits":{"cpu":"501m"}}`, false},
		"size written otherwise":          {`{"sizeLimit":"1024Mi"}`, `{"sizeLimit":"1Gi"}`, true},
		"text that looks like a quantity": {`{"value":"1000m"}`, `{"value":"1"}`, false},
		"plain list":                      {`{"args":["a","b"]}`, `{"args":["a","b"]}`, true},
		"plain list, other order":         {`{"args":["a","b"]}`, `{"args":["b","a"]}`, false},
		"plain list, one more":            {`{"args":["a"]}`, `{"args":["a","b"]}`, false},
		"plain list of objects, one more": {`{"tolerations":[{"key":"a"}]}`, `{"tolerations":[{"key":"a"},{"key":"b"}]}`, false},
		"plain list of objects, defaults": {`{"rules":[{"verbs":["get"]}]}`, `{"rules":[{"verbs":["get"],"x":1}]}`, true},
		"keyed list, somebody added one":  {`{"containers":[{"name":"main","image":"a"}]}`, `{"containers":[{"name":"sidecar"},{"name":"main","image":"a","tty":true}]}`, true},
		"keyed list, element changed":     {`{"containers":[{"name":"main","image":"a"}]}`, `{"containers":[{"name":"main","image":"b"}]}`, false},
		"keyed list, element gone":        {`{"env":[{"name":"A","value":"1"}]}`, `{"env":[{"name":"B","value":"1"}]}`, false},
		"port with two protocols":         {`{"ports":[{"containerPort":53,"protocol":"UDP"}]}`, `{"ports":[{"containerPort":53,"protocol":"TCP"},{"containerPort":53,"protocol":"UDP"}]}`, true},
		"service port":                    {`{"ports":[{"port":80,"name":"http"}]}`, `{"ports":[{"port":80,"name":"web"}]}`, false},
		"keyed by another member":         {`{"volumeMounts":[{"name":"a","mountPath":"/x"}]}`, `{"volumeMounts":[{"name":"b","mountPath":"/y"},{"name":"a","mountPath":"/x","readOnly":false}]}`, true},
		"list where a map is wanted":      {`{"a":{}}`, `{"a":[]}`, false},
		"empty object":                    {`{"emptyDir":{}}`, `{"emptyDir":{"medium":""}}`, true},
		"atomic map, one key more":        {`{"selector":{"a":"1"}}`, `{"selector":{"a":"1","b":"2"}}`, false},
		"atomic map inside another":       {`{"selector":{"matchLabels":{"a":"1"}}}`, `{"selector":{"matchLabels":{"a":"1"}}}`, true},
		"null against nothing":            {`{"a":null}`, `{}`, false},
	} {
		if got := contained(decode(t, tc.intent), decode(t, tc.live)); got != tc.want {
			t.Errorf("%s: contained(%s, %s) = %v, want %v", name, tc.intent, tc.live, got, tc.want)
		}
	}
}

// FuzzContained checks two properties of any JSON object: it is contained in itself and in every object with more in
// it, and no longer once one of its own scalars is another.
func FuzzContained(f *testing.F) {
	for _, seed := range []string{
		`{"spec":{"containers":[{"name":"main","env":[{"name":"A","value":"1"}],"resources":{"limits":{"cpu":"1"}}}]}}`,
		`{"a":[1,2,[3]],"b":{"c":null,"d":true},"e":"x"}`, `{}`, `{"ports":[{"port":80}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var intent map[string]any
		if err := json.Unmarshal(data, &intent); err != nil {
			return
		}
		if !contained(intent, intent) {
			t.Fatalf("%s is not contained in itself", data)
		}
		more := runtime.DeepCopyJSON(intent)
		more["something else"] = "added by others"
		if !contained(intent, more) {
			t.Fatalf("%s is not contained in itself and more", data)
		}
		for key, value := range intent {
			if _, scalar := value.(bool); !scalar {
				continue
			}
			other := runtime.DeepCopyJSON(intent)
			other[key] = !value.(bool)
			if contained(intent, other) {
				t.Fatalf("%s is contained in an object with another %q", data, key)
			}
		}
	})
}

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}
