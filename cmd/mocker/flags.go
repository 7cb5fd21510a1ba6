// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// setting is something that can be chosen by flags or variables. Engines have different names for the same thing.
type setting string

// Settings of workers and front ends.
const (
	settingServedName  setting = "served name"
	settingModel       setting = "model"
	settingPrefill     setting = "prefill"
	settingDecode      setting = "decode"
	settingMode        setting = "disaggregation mode"
	settingSpeedup     setting = "speedup"
	settingBlocks      setting = "blocks"
	settingBlockSize   setting = "block size"
	settingSequences   setting = "sequences"
	settingBatch       setting = "batched tokens"
	settingContext     setting = "context length"
	settingStartup     setting = "startup time"
	settingEndpoint    setting = "endpoint"
	settingRank        setting = "node rank"
	settingHeadless    setting = "headless"
	settingPort        setting = "port"
	settingHost        setting = "host"
	settingNamespace   setting = "namespace"
	settingFault       setting = "fault"
	settingSeed        setting = "seed"
	settingSlots       setting = "adapter slots"
	settingWaiting     setting = "waiting"
	settingClock       setting = "clock"
	settingWorkers     setting = "workers"
	settingAddressMap  setting = "address map"
	settingGracePeriod setting = "grace period"
)

// workerFlags are the flags of workers by what they set. Those that begin with mock are ours.
func workerFlags() map[string]setting {
	return map[string]setting{
		"model": settingModel, "model-path": settingModel,
		"served-model-name": settingServedName, "model-name": settingServedName,
		"is-prefill-worker": settingPrefill, "is-decode-worker": settingDecode, "disaggregation-mode": settingMode,
		"speedup-ratio":           settingSpeedup,
		"num-gpu-blocks-override": settingBlocks,
		"block-size":              settingBlockSize, "page-size": settingBlockSize, "kv-block-size": settingBlockSize,
		"max-num-seqs": settingSequences, "max-running-requests": settingSequences, "max-batch-size": settingSequences,
		"max-num-batched-tokens": settingBatch, "chunked-prefill-size": settingBatch, "max-num-tokens": settingBatch,
		"max-model-len": settingContext, "context-length": settingContext, "max-seq-len": settingContext,
		"startup-time": settingStartup, "endpoint": settingEndpoint,
		"node-rank": settingRank, "headless": settingHeadless,

		"mock-port": settingPort, "mock-host": settingHost, "mock-fault": settingFault, "mock-seed": settingSeed,
		"mock-adapter-slots": settingSlots, "mock-max-waiting": settingWaiting, "mock-clock": settingClock,
		"mock-grace-period": settingGracePeriod,
	}
}

// frontendFlags are the flags of front ends by what they set.
func frontendFlags() map[string]setting {
	return map[string]setting{
		"http-port": settingPort, "http-host": settingHost, "namespace": settingNamespace,
		"mock-workers": settingWorkers, "mock-address-map": settingAddressMap, "mock-grace-period": settingGracePeriod,
	}
}

// variables are what the environment sets if no flag does, the first of them that is there.
func variables() map[setting][]string {
	return map[setting][]string{
		settingFault: {"MOCK_FAULTS"}, settingSeed: {"MOCK_SEED"}, settingSlots: {"MOCK_ADAPTER_SLOTS"},
		settingWaiting: {"MOCK_MAX_WAITING"}, settingClock: {"MOCK_CLOCK"}, settingSpeedup: {"MOCK_SPEEDUP_RATIO"},
		settingStartup: {"MOCK_STARTUP_TIME"}, settingWorkers: {"MOCK_WORKERS"}, settingAddressMap: {"MOCK_ADDRESS_MAP"},
		settingGracePeriod: {"MOCK_GRACE_PERIOD"}, settingNamespace: {"DYN_NAMESPACE"},
	}
}

// choices are what was chosen. A setting can be chosen several times.
type choices map[setting][]string

// parseFlags reads arguments as the engines do: --flag value, --flag=value, --flag, with underscores as good as dashes. What is
// unknown is returned, together with what looks like its value.
func parseFlags(args []string, known map[string]setting) (c choices, ignored []string) {
	switches := []setting{settingPrefill, settingDecode, settingHeadless}
	c = choices{}
	for i := 0; i < len(args); i++ {
		name, value, inline := strings.Cut(args[i], "=")
		if !strings.HasPrefix(name, "-") {
			ignored = append(ignored, args[i])
			continue
		}
		follows := i+1 < len(args) && (!strings.HasPrefix(args[i+1], "-") || isNumber(args[i+1]))
		what, ok := known[strings.ReplaceAll(strings.TrimPrefix(name, "--"), "_", "-")]
		switch {
		case !ok:
			ignored = append(ignored, args[i])
			if !inline && follows {
				i++
				ignored = append(ignored, args[i])
			}
			continue
		case inline:
		case slices.Contains(switches, what):
			value = "true"
		case follows:
			i++
			value = args[i]
		}
		c[what] = append(c[what], value)
	}
	return c, ignored
}

func isNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}

// withEnvironment adds what the environment chooses where no flag did.
func (c choices) withEnvironment(lookup func(string) (string, bool)) choices {
	all := maps.Clone(c)
	for what, names := range variables() {
		for _, name := range names {
			if value, ok := lookup(name); ok && value != "" && len(all[what]) == 0 {
				all[what] = []string{value}
			}
		}
	}
	return all
}

// first is the value that was chosen first; empty if none was.
func (c choices) first(what setting) string {
	if values := c[what]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// on tells whether a switch is set.
func (c choices) on(what setting) bool { return c.first(what) == "true" }

// number reads a whole number; what is not chosen stays as it is.
func (c choices) number(what setting, into *int) error {
	text := c.first(what)
	if text == "" {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%s: %q is not a whole number", what, text)
	}
	*into = n
	return nil
}

// size reads a number of things of which there has to be one at least. Engines take smaller ones as "choose yourself".
func (c choices) size(what setting, into *int) error {
	chosen := 0
	err := c.number(what, &chosen)
	if chosen > 0 {
		*into = chosen
	}
	return err
}

// duration reads seconds, or a duration with its unit.
func (c choices) duration(what setting, into *time.Duration) error {
	text := c.first(what)
	if text == "" {
		return nil
	}
	d, err := parseSeconds(text)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	*into = d
	return nil
}

func parseSeconds(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds >= 0 {
		return time.Duration(seconds * float64(time.Second)), nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return d, nil
	}
	return 0, fmt.Errorf("%q is no time; give seconds, or a number and its unit", text)
}
