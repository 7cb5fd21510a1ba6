// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mockengine stands in for an inference engine and for the front end before it, without a GPU. To everything around
// them the two are real: they answer the probes, the model API and the LoRA API, publish themselves in Kubernetes and find
// each other there. What they say means nothing; when they say it follows a model of prefill and decode.
//
// The parts, from pure to real:
//
//   - [Timing], [Scheduler] and [Simulate]: one iteration after another in a time that nobody waits for.
//   - [Engine]: the same under a clock, wall or virtual, for requests that arrive while it runs.
//   - [Worker]: an engine with a base model, adapters, counters, faults and a system port.
//   - [Frontend]: the OpenAI API over all workers that a [Discovery] reports.
//   - Package kubediscovery: how the two find each other in a cluster.
package mockengine
