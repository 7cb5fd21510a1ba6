// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFaultsAreReadFromAShortFormAndFromJSON(t *testing.T) {
	t.Parallel()
	want := Fault{
		On: OnLoad, Kind: FaultStatus, Adapter: "a/b", Status: 503, Skip: 1, Count: 2, Probability: 0.5, Late: true,
		Delay: metav1.Duration{Duration: time.Second},
	}
	for _, text := range []string{
		"on=load, kind=status, adapter=a/b, status=503, skip=1, count=2, probability=0.5, late, delay=1s",
		`{"on":"load","kind":"status","adapter":"a/b","status":503,"skip":1,"count":2,"probability":0.5,"late":true,"delay":"1s"}`,
	} {
		got, err := ParseFault(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestAFaultThatWouldNeverStrikeIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"on=lod,kind=hang":                          `on: "lod" is none of`,
		"on=load,kind=slow":                         `kind: "slow" is none of`,
		"on=load,kind=lost":                         "belong together",
		"on=publish,kind=hang":                      "belong together",
		"on=start,kind=status,status=500":           "a start knows",
		"on=load,kind=status":                       "status: 0",
		"on=load,kind=hang,probability=2":           "probability: 2",
		"on=load,kind=hang,count=-1":                "negative",
		"on=load,kind=hang,wait=1s":                 `"wait" is no part`,
		"on=load,kind=latency,delay=soon":           "delay:",
		`{"on":"load","kind":"hang","wait":1}`:      "unknown field",
		`[{"on":"load","kind":"hang"},{"on":"no"}]`: `on: "no"`,
		`[`: "read faults",
	} {
		if _, err := ParseFaults(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func TestAFaultStrikesAsOftenAsItSays(t *testing.T) {
	t.Parallel()
	var f Faults
	f.Set(Fault{On: OnLoad, Kind: FaultStatus, Status: 500, Skip: 1, Count: 2})
	var got []bool
	for range 5 {
		got = append(got, len(f.strike(OnLoad, "x", false)) > 0)
	}
	if diff := cmp.Diff([]bool{false, true, true, false, false}, got); diff != "" {
		t.Errorf("strikes (-want +got):\n%s", diff)
	}
	if got := f.List()[0].Struck; got != 2 {
		t.Errorf("it says it struck %d times", got)
	}
}

func TestAFaultStrikesWhatItNamesAndNothingElse(t *testing.T) {
	t.Parallel()
	var f Faults
	f.Set(Fault{On: OnLoad, Kind: FaultHang, Adapter: "x", Late: true})
	for _, at := range []strikeAt{{OnLoad, "y", true}, {OnLoad, "x", false}, {OnUnload, "x", true}} {
		if len(f.strike(at.on, at.adapter, at.late)) != 0 {
			t.Errorf("it struck %+v", at)
		}
	}
	if len(f.strike(OnLoad, "x", true)) != 1 {
		t.Error("it did not strike")
	}
}

func TestDelaysComeBeforeWhatEndsAnOperation(t *testing.T) {
	t.Parallel()
	var f Faults
	f.Set(Fault{On: OnLoad, Kind: FaultLatency}, Fault{On: OnLoad, Kind: FaultReset}, Fault{On: OnLoad, Kind: FaultHang})
	var kinds []FaultKind
	for _, struck := range f.strike(OnLoad, "", false) {
		kinds = append(kinds, struck.Kind)
	}
	if diff := cmp.Diff([]FaultKind{FaultLatency, FaultReset}, kinds); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestDiceFallTheSameWayForTheSameSeed(t *testing.T) {
	t.Parallel()
	throw := func() (strikes []bool) {
		var f Faults
		f.Seed(42)
		f.Set(Fault{On: OnLoad, Kind: FaultReset, Probability: 0.3})
		for range 1000 {
			strikes = append(strikes, len(f.strike(OnLoad, "", false)) > 0)
		}
		if n := f.List()[0].Struck; n < 240 || n > 360 {
			t.Errorf("three in ten struck %d times in a thousand", n)
		}
		return strikes
	}
	if diff := cmp.Diff(throw(), throw()); diff != "" {
		t.Errorf("two series with one seed differ:\n%s", diff)
	}
}
