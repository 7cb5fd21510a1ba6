// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
)

const (
	// firstWord is how long the first status of a new object waits for something to tell, and progress after the write before it.
	firstWord = time.Second
	// noticed is how long it may take on a loaded machine until an operator has seen what was reported to the API server.
	noticed = firstWord / 2
	// started is how much earlier than the answer to the last request for its children an operator may begin to wait.
	started = firstWord / 10
	// mostOfAComponent and mostOfAGraph bound the status writes of an object about which time decides: a component is told of as not
	// ready and as ready; of a graph there is how far its two components are in between.
	mostOfAComponent, mostOfAGraph = 2, 5
)

// tale is what was told of one object.
type tale struct {
	// told are its status writes.
	told []localcluster.AuditRecord
	// whole is when everything was made for it, reported when there was all to tell: of a component when its Deployment was reported as
	// rolled out, of a graph when the last of its components was told of.
	whole, reported time.Time
}

func (w tale) first() time.Time { return w.told[0].Received }

// tales sorts the requests of a story by the object they are about.
func tales(records []localcluster.AuditRecord) map[string]tale {
	all := map[string]tale{}
	note := func(object string, change func(*tale)) {
		w := all[object]
		change(&w)
		all[object] = w
	}
	made := func(r localcluster.AuditRecord) func(*tale) {
		return func(w *tale) { w.whole = later(w.whole, r.Answered) }
	}
	for _, r := range records {
		status, component := r.Subresource == "status", "dynamocomponentdeployments/"+r.Name
		switch {
		case r.User == SimulatorUser && r.Resource == "deployments" && status:
			note(component, func(w *tale) {
				if w.reported.IsZero() {
					w.reported = r.Answered
				}
			})
		case r.User != OperatorUser || r.Name == "": // watches have no name
		case status:
			note(r.Resource+"/"+r.Name, func(w *tale) { w.told = append(w.told, r) })
			if r.Resource == "dynamocomponentdeployments" {
				note(graphOf(r), func(w *tale) { w.reported = later(w.reported, r.Answered) })
			}
		case r.Resource == "deployments", r.Resource == "services":
			note(component, made(r))
		case r.Resource == "dynamocomponentdeployments":
			note(graphOf(r), made(r))
		}
	}
	return all
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// graphOf names the graph that a component belongs to.
func graphOf(component localcluster.AuditRecord) string {
	return "dynamographdeployments/" + component.Name[:strings.LastIndex(component.Name, "-")]
}

func isGraph(object string) bool { return strings.HasPrefix(object, "dynamographdeployments/") }

// verdicts are how many objects are in each class, and what is wrong.
type verdicts struct {
	classes  map[string]int
	problems []string
	// exact is of how many objects it is known how often they have to be told of.
	exact int
}

// place puts an object into a class, whose objects are told of so many times.
func (v *verdicts) place(class, object string, got, least, most int) {
	if isGraph(object) {
		class = "graphs " + class
	} else {
		class = "components " + class
	}
	v.classes[class]++
	if least == most {
		v.exact++
	}
	if got < least || got > most {
		v.problems = append(v.problems, fmt.Sprintf("%s: %d status writes of %s, want %d to %d", class, got, object, least, most))
	}
}

// paced finds what was told without being news. Neither the first nor the last status of an object is progress.
func (v *verdicts) paced(object string, w tale) {
	for i := 1; i < len(w.told)-1; i++ {
		if pause := w.told[i].Received.Sub(w.told[i-1].Received); pause < time.Second {
			v.problems = append(v.problems, fmt.Sprintf("progress of %s was told %s after the write before, want a second at least", object, pause))
		}
	}
}

// Classes of new objects.
const (
	inTime = "reported in time"
	late   = "reported late"
)

// ofNew judges the status writes of new objects. One that was reported in time is told of exactly once. Time decides about the others:
// they may be told of as not ready first, but not before the time for a first word is over.
func ofNew(all map[string]tale) verdicts {
	v := verdicts{classes: map[string]int{}}
	for object, w := range all {
		n, most := len(w.told), mostOfAComponent
		if isGraph(object) {
			most = mostOfAGraph
		}
		if n == 0 {
			v.problems = append(v.problems, object+" was never told of")
			continue
		}
		if !w.reported.IsZero() && w.reported.Sub(w.whole) <= firstWord-noticed-started {
			v.place(inTime, object, n, 1, 1)
			continue
		}
		v.place(late, object, n, 1, most)
		v.paced(object, w)
		if waited := w.first().Sub(w.whole); n > 1 && waited < firstWord-started {
			v.problems = append(v.problems, fmt.Sprintf("%s was told of %d times, and first %s after everything was made for it: there was nothing to tell", object, n, waited))
		}
	}
	slices.Sort(v.problems)
	return v
}

// judge shows the classes and fails for what is wrong in them.
func judge(t *testing.T, v verdicts) {
	t.Helper()
	objects := 0
	for _, n := range v.classes {
		objects += n
	}
	t.Logf("objects by what time decided: %v", v.classes)
	if objects != 3*hundred {
		t.Errorf("statuses of %d objects were written, want %d", objects, 3*hundred)
	}
	for _, problem := range v.problems {
		t.Error(problem)
	}
}

// TestAStatusTooManyIsFound shows that what is said of status writes can be wrong.
func TestAStatusTooManyIsFound(t *testing.T) {
	t.Parallel()
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for name, c := range map[string]struct {
		reported time.Duration
		told     []time.Duration
		class    string
		problems int
	}{
		"new, once":                            {ms(30), []time.Duration{ms(60)}, inTime, 0},
		"new, twice, because it was late":      {ms(3000), []time.Duration{ms(1000), ms(4000)}, late, 0},
		"new, twice, because it was seen late": {ms(700), []time.Duration{ms(1000), ms(2000)}, late, 0},
		"new, twice, though it was in time":    {ms(30), []time.Duration{ms(1000), ms(2000)}, inTime, 1},
		"new, twice, without having waited":    {ms(3000), []time.Duration{ms(500), ms(4000)}, late, 1},
		"new, three times":                     {ms(3000), []time.Duration{ms(1000), ms(2000), ms(4000)}, late, 1},
		"new, three times in a second":         {ms(3000), []time.Duration{ms(1000), ms(1200), ms(4000)}, late, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			record := func(user, resource, subresource string, after time.Duration) localcluster.AuditRecord {
				at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(after)
				return localcluster.AuditRecord{User: user, Resource: resource, Subresource: subresource, Name: "g-a", Received: at, Answered: at}
			}
			records := []localcluster.AuditRecord{
				record(OperatorUser, "deployments", "", 0), record(SimulatorUser, "deployments", "status", c.reported),
			}
			for _, after := range c.told {
				records = append(records, record(OperatorUser, "dynamocomponentdeployments", "status", after))
			}
			all := tales(records)
			delete(all, "dynamographdeployments/g")
			got := ofNew(all)
			if diff := cmp.Diff(map[string]int{"components " + c.class: 1}, got.classes); diff != "" {
				t.Errorf("classes (-want +got):\n%s", diff)
			}
			if len(got.problems) != c.problems {
				t.Errorf("problems %q, want %d", got.problems, c.problems)
			}
		})
	}
}
