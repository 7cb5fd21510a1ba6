// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// definition is what one image holds.
type definition struct {
	// name of the image, and of the program in its root.
	name string
	// program is the package of the program.
	program string
	// links are further paths of the program.
	links       []string
	entrypoint  string
	title       string
	description string
}

// images are those that a release has. They hold no certificate authorities: the operator knows that of the API server from its
// account, and those of webhooks it makes itself. Whoever has it speak TLS to an etcd or a collector of traces gives it the authority of
// that one, see docs/guides/production.md; a bundle of the build machine would make the bytes of an image depend on that machine.
func images() []definition {
	return []definition{
		{
			name: "dynamo-operator", program: "./cmd/operator", links: []string{"/manager"}, entrypoint: "/manager",
			title: "dynamo-operator", description: "Kubernetes operator for distributed inference graphs",
		},
		{
			name: "mocker", program: "./cmd/mocker", entrypoint: "/mocker",
			// What manifests of real engines call, see docs/mocker.md.
			links: []string{
				"/bin/bash", "/bin/sh", "/bin/sleep", "/usr/bin/mpirun", "/usr/bin/python", "/usr/bin/python3", "/usr/bin/ray",
				"/usr/bin/trtllm-llmapi-launch",
			},
			title: "mocker", description: "Simulated inference engine and front end for graphs without a GPU",
		},
	}
}

func imageNames() []string {
	var names []string
	for _, d := range images() {
		names = append(names, d.name)
	}
	return names
}
