// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package names

import (
	"strings"
	"testing"
)

func TestNamesMatchTheWireContract(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ got, want string }{
		{Component("chat", "VllmDecodeWorker"), "chat-vllmdecodeworker"},
		{DiscoveryAccount("chat"), "chat-k8s-service-discovery"},
		{DiscoveryRole("chat"), "chat-k8s-service-discovery-role"},
		{DiscoveryBinding("chat"), "chat-k8s-service-discovery-binding"},
		{DiscoveryKeys("team-a-chat", "Decode"), "/team-a-chat/components/Decode/"},
		{ModelHash("Qwen/Qwen3-0.6B"), "fb68f5a6"},
		{ModelHash("acme/tiny-1b"), "cca03965"},
		{ModelHash("meta-llama/Llama-3.1-70B-Instruct"), "376674eb"},
		{ModelService("acme/tiny-1b"), "dynamo-model-cca03965"},
		{LabelValue(strings.Repeat("a", 63)), strings.Repeat("a", 63)},
		{LabelValue(strings.Repeat("a", 64)), strings.Repeat("a", 54) + "-ffe054fe"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
}
