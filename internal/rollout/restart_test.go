// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

func sequential(id string, order ...string) *v1alpha1.Restart {
	return &v1alpha1.Restart{ID: id, Strategy: &v1alpha1.RestartStrategy{Type: v1alpha1.RestartStrategyTypeSequential, Order: order}}
}

func atOnce(id string) *v1alpha1.Restart {
	return &v1alpha1.Restart{ID: id, Strategy: &v1alpha1.RestartStrategy{Type: v1alpha1.RestartStrategyTypeParallel}}
}

func restarting(id string, services ...string) *v1alpha1.RestartStatus {
	return &v1alpha1.RestartStatus{ObservedID: id, Phase: v1alpha1.RestartPhaseRestarting, InProgress: services}
}

func completed(id string) *v1alpha1.RestartStatus {
	return &v1alpha1.RestartStatus{ObservedID: id, Phase: v1alpha1.RestartPhaseCompleted}
}

func failed(id string) *v1alpha1.RestartStatus {
	return &v1alpha1.RestartStatus{ObservedID: id, Phase: v1alpha1.RestartPhaseFailed, InProgress: []string{"Epp"}}
}

type (
	children = map[string]Seen
	tokens   = map[string]string
	planCase struct {
		spec *v1alpha1.Restart
		was  *v1alpha1.RestartStatus
		seen children
		want Restart
	}
)

// up and down are a service with a token that is ready, or not.
func up(token string) Seen   { return Seen{Token: token, Done: true} }
func down(token string) Seen { return Seen{Token: token} }

// check plans for the services Epp, Frontend and worker, then once more with the status of the plan.
func check(t *testing.T, cases map[string]planCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			services := []string{"worker", "Epp", "Frontend"}
			got := Next(tc.spec, services, tc.was, tc.seen)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			again := Next(tc.spec, services, got.Status, tc.seen)
			if again.Note = got.Note; !cmp.Equal(got, again) {
				t.Errorf("the same children and the new status give another plan (-first +again):\n%s", cmp.Diff(got, again))
			}
		})
	}
}

func TestASequentialRestartGoesOnWhenAServiceIsBack(t *testing.T) {
	t.Parallel()
	all := tokens{"Epp": "r1", "Frontend": "r1", "worker": "r1"}
	check(t, map[string]planCase{
		"a new id of a healthy graph": {&v1alpha1.Restart{ID: "r1"}, nil, children{"Epp": up(""), "Frontend": up(""), "worker": up("")},
			Restart{restarting("r1", "Epp"), tokens{"Epp": "r1"}, "restart r1: waiting for Epp (0 of 3 done)"}},
		"told, but seen from before": {sequential("r1"), restarting("r1", "Epp"), children{"Epp": up(""), "Frontend": up(""), "worker": up("")},
			Restart{restarting("r1", "Epp"), tokens{"Epp": "r1"}, "restart r1: waiting for Epp (0 of 3 done)"}},
		"on its way": {sequential("r1"), restarting("r1", "Epp"), children{"Epp": down("r1"), "Frontend": up(""), "worker": up("")},
			Restart{restarting("r1", "Epp"), tokens{"Epp": "r1"}, "restart r1: waiting for Epp (0 of 3 done)"}},
		"back": {sequential("r1"), restarting("r1", "Epp"), children{"Epp": up("r1"), "Frontend": up(""), "worker": up("")},
			Restart{restarting("r1", "Frontend"), tokens{"Epp": "r1", "Frontend": "r1"}, "restart r1: waiting for Frontend (1 of 3 done)"}},
		"the next was unready before": {sequential("r1"), restarting("r1", "Epp"), children{"Epp": up("r1"), "Frontend": down(""), "worker": up("")},
			Restart{restarting("r1", "Frontend"), tokens{"Epp": "r1", "Frontend": "r1"}, "restart r1: waiting for Frontend (1 of 3 done)"}},
		"unready and told": {sequential("r1"), restarting("r1", "Frontend"), children{"Epp": up("r1"), "Frontend": down("r1"), "worker": up("")},
			Restart{restarting("r1", "Frontend"), tokens{"Epp": "r1", "Frontend": "r1"}, "restart r1: waiting for Frontend (1 of 3 done)"}},
		"the last is on its way": {sequential("r1"), restarting("r1", "worker"), children{"Epp": up("r1"), "Frontend": up("r1"), "worker": down("r1")},
			Restart{restarting("r1", "worker"), all, "restart r1: waiting for worker (2 of 3 done)"}},
		"the last is back": {sequential("r1"), restarting("r1", "worker"), children{"Epp": up("r1"), "Frontend": up("r1"), "worker": up("r1")},
			Restart{completed("r1"), all, "restart r1: completed"}},
		"one that was back is unready again": {sequential("r1"), restarting("r1", "Frontend"), children{"Epp": down("r1"), "Frontend": up("r1"), "worker": up("")},
			Restart{restarting("r1", "Epp"), tokens{"Epp": "r1", "Frontend": "r1"}, "restart r1: waiting for Epp (1 of 3 done)"}},
		"tokens of the last restart stay until it is their turn": {sequential("r2"), completed("r1"), children{"Epp": up("r1"), "Frontend": up("r1"), "worker": up("r1")},
			Restart{restarting("r2", "Epp"), tokens{"Epp": "r2", "Frontend": "r1", "worker": "r1"}, "restart r2: waiting for Epp (0 of 3 done)"}},
	})
}

func TestAnOrderIsFollowed(t *testing.T) {
	t.Parallel()
	check(t, map[string]planCase{
		"its first is first": {sequential("r1", "worker", "Frontend", "Epp"), nil, children{"Epp": up(""), "Frontend": up(""), "worker": up("")},
			Restart{restarting("r1", "worker"), tokens{"worker": "r1"}, "restart r1: waiting for worker (0 of 3 done)"}},
		"its second is second": {sequential("r1", "worker", "Frontend", "Epp"), restarting("r1", "worker"), children{"Epp": up(""), "Frontend": up(""), "worker": up("r1")},
			Restart{restarting("r1", "Frontend"), tokens{"Frontend": "r1", "worker": "r1"}, "restart r1: waiting for Frontend (1 of 3 done)"}},
		"changed while one is on its way": {sequential("r1", "worker", "Frontend", "Epp"), restarting("r1", "Epp"), children{"Epp": down("r1"), "Frontend": up(""), "worker": up("")},
			Restart{restarting("r1", "Epp"), tokens{"Epp": "r1"}, "restart r1: waiting for Epp (0 of 3 done)"}},
		"changed after one is back": {sequential("r1", "worker", "Frontend", "Epp"), restarting("r1", "Frontend"), children{"Epp": up("r1"), "Frontend": up("r1"), "worker": up("")},
			Restart{restarting("r1", "worker"), tokens{"Epp": "r1", "Frontend": "r1", "worker": "r1"}, "restart r1: waiting for worker (2 of 3 done)"}},
		"one is missing in it": {sequential("r1", "worker", "Frontend"), restarting("r1", "Frontend"), children{"Epp": up(""), "Frontend": up("r1"), "worker": up("r1")},
			Restart{restarting("r1", "Epp"), tokens{"Epp": "r1", "Frontend": "r1", "worker": "r1"}, "restart r1: waiting for Epp (2 of 3 done)"}},
		"it names strangers and repeats itself": {sequential("r1", "gone", "worker", "worker", "Epp"), nil, children{"Epp": up(""), "Frontend": up(""), "worker": up("r1")},
			Restart{restarting("r1", "Epp"), tokens{"Epp": "r1", "worker": "r1"}, "restart r1: waiting for Epp (1 of 3 done)"}},
	})
}

func TestAParallelRestartTellsAllAndWaitsForAll(t *testing.T) {
	t.Parallel()
	all := tokens{"Epp": "r2", "Frontend": "r2", "worker": "r2"}
	check(t, map[string]planCase{
		"a new id of a healthy graph": {atOnce("r2"), completed("r1"), children{"Epp": up("r1"), "Frontend": up("r1"), "worker": up("r1")},
			Restart{restarting("r2", "Epp", "Frontend", "worker"), all, "restart r2: waiting for Epp, Frontend, worker (0 of 3 done)"}},
		"an order means nothing": {
			&v1alpha1.Restart{ID: "r2", Strategy: &v1alpha1.RestartStrategy{Type: v1alpha1.RestartStrategyTypeParallel, Order: []string{"worker"}}},
			nil, children{"Epp": up(""), "Frontend": up(""), "worker": up("")},
			Restart{restarting("r2", "Epp", "Frontend", "worker"), all, "restart r2: waiting for Epp, Frontend, worker (0 of 3 done)"}},
		"one is back": {atOnce("r2"), restarting("r2", "Epp", "Frontend", "worker"), children{"Epp": down("r2"), "Frontend": up("r2"), "worker": up("r1")},
			Restart{restarting("r2", "Epp", "worker"), all, "restart r2: waiting for Epp, worker (1 of 3 done)"}},
		"all are back": {atOnce("r2"), restarting("r2", "worker"), children{"Epp": up("r2"), "Frontend": up("r2"), "worker": up("r2")},
			Restart{completed("r2"), all, "restart r2: completed"}},
		"it became sequential": {sequential("r2"), restarting("r2", "Epp", "Frontend", "worker"), children{"Epp": up("r2"), "Frontend": down("r2"), "worker": down("r2")},
			Restart{restarting("r2", "Frontend", "worker"), all, "restart r2: waiting for Frontend, worker (1 of 3 done)"}},
		"it was sequential": {atOnce("r2"), restarting("r2", "Epp"), children{"Epp": down("r2"), "Frontend": up("r1"), "worker": up("r1")},
			Restart{restarting("r2", "Epp", "Frontend", "worker"), all, "restart r2: waiting for Epp, Frontend, worker (0 of 3 done)"}},
	})
}

func TestALostStatusRepeatsNothing(t *testing.T) {
	t.Parallel()
	all := tokens{"Epp": "r1", "Frontend": "r1", "worker": "r1"}
	check(t, map[string]planCase{
		"sequential, midway": {sequential("r1"), nil, children{"Epp": up("r1"), "Frontend": down("r1"), "worker": up("")},
			Restart{restarting("r1", "Frontend"), tokens{"Epp": "r1", "Frontend": "r1"}, "restart r1: waiting for Frontend (1 of 3 done)"}},
		"parallel, midway": {atOnce("r1"), &v1alpha1.RestartStatus{}, children{"Epp": up("r1"), "Frontend": up("r1"), "worker": down("r1")},
			Restart{restarting("r1", "worker"), all, "restart r1: waiting for worker (2 of 3 done)"}},
		"sequential, after the end": {sequential("r1"), nil, children{"Epp": up("r1"), "Frontend": up("r1"), "worker": up("r1")},
			Restart{completed("r1"), all, "restart r1: completed"}},
		"parallel, after the end": {atOnce("r1"), nil, children{"Epp": up("r1"), "Frontend": up("r1"), "worker": up("r1")},
			Restart{completed("r1"), all, "restart r1: completed"}},
	})
}

func TestAnEndedRestartIsKept(t *testing.T) {
	t.Parallel()
	all := tokens{"Epp": "r1", "Frontend": "r1", "worker": "r1"}
	healthy := children{"Epp": up("r1"), "Frontend": up("r1"), "worker": up("r1")}
	check(t, map[string]planCase{
		"still asked for":            {sequential("r1"), completed("r1"), healthy, Restart{completed("r1"), all, "restart r1: completed"}},
		"removed":                    {nil, completed("r1"), healthy, Restart{completed("r1"), all, "restart r1: completed"}},
		"an empty id":                {sequential(""), completed("r1"), healthy, Restart{completed("r1"), all, "restart r1: completed"}},
		"another order":              {sequential("r1", "worker"), completed("r1"), healthy, Restart{completed("r1"), all, "restart r1: completed"}},
		"a service is unready later": {atOnce("r1"), completed("r1"), children{"Epp": down("r1"), "Frontend": up("r1"), "worker": up("r1")}, Restart{completed("r1"), all, "restart r1: completed"}},
		"a service is new":           {nil, completed("r1"), children{"Epp": up("r1"), "worker": up("r1")}, Restart{completed("r1"), all, "restart r1: completed"}},
		"failed, still asked for": {sequential("r1"), failed("r1"), children{"Epp": down("r1"), "Frontend": up(""), "worker": up("r0")},
			Restart{failed("r1"), tokens{"Epp": "r1", "worker": "r0"}, "restart r1: failed"}},
		"failed, removed": {nil, failed("r1"), children{"Epp": down("r1"), "Frontend": up(""), "worker": up("r0")},
			Restart{failed("r1"), tokens{"Epp": "r1", "worker": "r0"}, "restart r1: failed"}},
		"failed, another id": {sequential("r2"), failed("r1"), children{"Epp": down("r1"), "Frontend": up(""), "worker": up("r0")},
			Restart{restarting("r2", "Epp"), tokens{"Epp": "r2", "worker": "r0"}, "restart r2: waiting for Epp (0 of 3 done)"}},
		"of no known id": {nil, completed(""), healthy, Restart{completed(""), all, "restart : completed"}},
	})
}

func TestARunningRestartCanBeReplacedOrWithdrawn(t *testing.T) {
	t.Parallel()
	midway := children{"Epp": up("r1"), "Frontend": down("r1"), "worker": up("r0")}
	live := tokens{"Epp": "r1", "Frontend": "r1", "worker": "r0"}
	check(t, map[string]planCase{
		"another id starts at the first": {sequential("r2"), restarting("r1", "Frontend"), midway,
			Restart{restarting("r2", "Epp"), tokens{"Epp": "r2", "Frontend": "r1", "worker": "r0"}, "restart r2: waiting for Epp (0 of 3 done)"}},
		"another id, all at once": {atOnce("r2"), restarting("r1", "Frontend"), midway,
			Restart{restarting("r2", "Epp", "Frontend", "worker"), tokens{"Epp": "r2", "Frontend": "r2", "worker": "r2"}, "restart r2: waiting for Epp, Frontend, worker (0 of 3 done)"}},
		"withdrawn":           {nil, restarting("r1", "Frontend"), midway, Restart{nil, live, "restart r1: withdrawn"}},
		"withdrawn, again":    {nil, nil, midway, Restart{nil, live, ""}},
		"never one, no child": {nil, nil, nil, Restart{nil, tokens{}, ""}},
		"never one":           {nil, nil, children{"Epp": up(""), "Frontend": down("")}, Restart{nil, tokens{}, ""}},
	})
}

func TestServicesThatComeAndGoNeitherBlockNorEscapeARestart(t *testing.T) {
	t.Parallel()
	check(t, map[string]planCase{
		"no child yet": {sequential("r1"), nil, nil,
			Restart{restarting("r1", "Epp"), tokens{"Epp": "r1", "Frontend": "r1", "worker": "r1"}, "restart r1: waiting for Epp (0 of 3 done)"}},
		"all were made with it": {sequential("r1"), restarting("r1", "Epp"), children{"Epp": down("r1"), "Frontend": down("r1"), "worker": up("r1")},
			Restart{restarting("r1", "Epp", "Frontend"), tokens{"Epp": "r1", "Frontend": "r1", "worker": "r1"}, "restart r1: waiting for Epp, Frontend (1 of 3 done)"}},
		"one is new and is made with it": {sequential("r1"), restarting("r1", "Epp"), children{"Epp": down("r1"), "Frontend": up("")},
			Restart{restarting("r1", "Epp"), tokens{"Epp": "r1", "worker": "r1"}, "restart r1: waiting for Epp (0 of 3 done)"}},
		"one that cannot be made holds up nobody before it": {sequential("r1"), restarting("r1", "Epp"), children{"Epp": up("r1"), "Frontend": up("")},
			Restart{restarting("r1", "Frontend"), tokens{"Epp": "r1", "Frontend": "r1", "worker": "r1"}, "restart r1: waiting for Frontend (1 of 3 done)"}},
		"and is waited for in the end": {sequential("r1"), restarting("r1", "Frontend"), children{"Epp": up("r1"), "Frontend": up("r1")},
			Restart{restarting("r1", "worker"), tokens{"Epp": "r1", "Frontend": "r1", "worker": "r1"}, "restart r1: waiting for worker (2 of 3 done)"}},
		"the one on its way was removed": {sequential("r1"), restarting("r1", "gone"), children{"Epp": up("r1"), "Frontend": up(""), "worker": up(""), "gone": down("r1")},
			Restart{restarting("r1", "Frontend"), tokens{"Epp": "r1", "Frontend": "r1"}, "restart r1: waiting for Frontend (1 of 3 done)"}},
		"the last one missing was removed": {atOnce("r1"), restarting("r1", "gone"), children{"Epp": up("r1"), "Frontend": up("r1"), "worker": up("r1"), "gone": down("r1")},
			Restart{completed("r1"), tokens{"Epp": "r1", "Frontend": "r1", "worker": "r1"}, "restart r1: completed"}},
	})
}

func TestAGraphWithoutServicesIsRestartedAtOnce(t *testing.T) {
	t.Parallel()
	for _, spec := range []*v1alpha1.Restart{sequential("r1"), sequential("r1", "gone"), atOnce("r1")} {
		want := Restart{completed("r1"), tokens{}, "restart r1: completed"}
		if diff := cmp.Diff(want, Next(spec, nil, nil, nil)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", spec, diff)
		}
	}
}

func TestANoteNamesAFewServicesAndCountsTheRest(t *testing.T) {
	t.Parallel()
	got := Next(atOnce("r1"), []string{"e", "d", "c", "b", "a"}, nil, children{"b": up("r1")}).Note
	if want := "restart r1: waiting for a, c, d and 1 more (1 of 5 done)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
