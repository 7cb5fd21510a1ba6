// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	// failingFor is how long errors last, and calmAfter how long it may take until an object is asked about once a second at most:
	// the first retries follow each other fast, and each child that becomes ready meanwhile is a reason of its own to write.
	failingFor, calmAfter = 8 * time.Second, 3 * time.Second
	// recoverIn is how long it may take to be as it should after the errors are over.
	recoverIn = 5 * time.Second
	// oneErrorIn is how many cells there are to one that is run without -faults.full.
	oneErrorIn = 16

	graphs     = "dynamographdeployments"
	components = "dynamocomponentdeployments"
	adapters   = "dynamographdeploymentscalingadapters"
)

// apiError is a way in which an API server refuses.
type apiError struct {
	fault Fault
	// lasting tells that it does not pass by itself, so that somebody has to be told.
	lasting bool
}

var apiErrors = map[string]apiError{
	"409 conflict": {fault: Fault{Kind: Refused, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict}},
	"429 with a pause": {fault: Fault{Kind: Refused, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
		RetryAfter: time.Second}},
	"503 unavailable":   {fault: Fault{Kind: Refused, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable}},
	"500 internal":      {fault: Fault{Kind: Refused, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError}},
	"504 before commit": {fault: Fault{Kind: Refused, Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout}},
	"lost after commit": {fault: Fault{Kind: LostResponse}},
	"torn answer":       {fault: Fault{Kind: TornResponse}},
	"403 forbidden":     {fault: Fault{Kind: Refused, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}, lasting: true},
	"404 no such kind":  {fault: Fault{Kind: Refused, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound}, lasting: true},
	"422 invalid":       {fault: Fault{Kind: Refused, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid}, lasting: true},
}

// written are the kinds that the operator writes, with one object each of a rich graph.
var written = map[string]func(ns, graph string) client.Object{
	graphs: func(ns, graph string) client.Object {
		return &v1alpha1.DynamoGraphDeployment{ObjectMeta: named(ns, graph)}
	},
	components: func(ns, graph string) client.Object {
		return &v1alpha1.DynamoComponentDeployment{ObjectMeta: named(ns, graph+"-decode")}
	},
	adapters: func(ns, graph string) client.Object {
		return &v1alpha1.DynamoGraphDeploymentScalingAdapter{ObjectMeta: named(ns, graph+"-decode")}
	},
	"deployments": func(ns, graph string) client.Object {
		return &appsv1.Deployment{ObjectMeta: named(ns, graph+"-decode")}
	},
	"services": func(ns, graph string) client.Object { return &corev1.Service{ObjectMeta: named(ns, graph+"-frontend")} },
	"serviceaccounts": func(ns, graph string) client.Object {
		return &corev1.ServiceAccount{ObjectMeta: named(ns, names.DiscoveryAccount(graph))}
	},
	"roles": func(ns, graph string) client.Object {
		return &rbacv1.Role{ObjectMeta: named(ns, names.DiscoveryRole(graph))}
	},
	"rolebindings": func(ns, graph string) client.Object {
		return &rbacv1.RoleBinding{ObjectMeta: named(ns, names.DiscoveryBinding(graph))}
	},
}

// occasions are why the operator writes an object: it is to be made, somebody changed it, nobody wants it any longer.
var occasions = map[string]func(t *testing.T, ns, resource string){
	"create": func(t *testing.T, ns, _ string) { create(t, rich(ns)) },
	"update": disturb,
	"delete": func(t *testing.T, ns, resource string) { change(t, ns, unwanted[resource].edit) },
}

// furnished is a rich graph with one child more of every kind that the operator deletes by itself.
func furnished(ns string) *v1alpha1.DynamoGraphDeployment {
	g := rich(ns)
	publish(g)
	servesModel(g.Spec.Services["Decode"])
	edits["one more service"](g)
	return g
}

func createFurnished(t *testing.T, ns string) {
	t.Helper()
	create(t, furnished(ns))
	published(t, ns)
	scaled(t, ns, 1)
}

// unwanted are the kinds that the operator deletes, with a child of a furnished graph each and the edit after which nobody wants it.
var unwanted = map[string]struct {
	edit  func(*v1alpha1.DynamoGraphDeployment)
	child func(ns string) client.Object
}{
	components: {
		edit: func(g *v1alpha1.DynamoGraphDeployment) { delete(g.Spec.Services, "Prefill") },
		child: func(ns string) client.Object {
			return &v1alpha1.DynamoComponentDeployment{ObjectMeta: named(ns, "chat-prefill")}
		},
	},
	adapters: {
		edit:  edits["no adapter"],
		child: func(ns string) client.Object { return written[adapters](ns, "chat") },
	},
	"services": {
		edit: func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].ModelRef = nil },
		child: func(ns string) client.Object {
			return &corev1.Service{ObjectMeta: named(ns, names.ModelService(baseModel))}
		},
	},
	"serviceaccounts": {
		edit:  edits["discovery"],
		child: func(ns string) client.Object { return written["serviceaccounts"](ns, "chat") },
	},
	"roles": {
		edit:  edits["discovery"],
		child: func(ns string) client.Object { return written["roles"](ns, "chat") },
	},
	"rolebindings": {
		edit:  edits["discovery"],
		child: func(ns string) client.Object { return written["rolebindings"](ns, "chat") },
	},
	"ingresses": {
		edit:  func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Frontend"].Ingress = nil },
		child: func(ns string) client.Object { return &networkingv1.Ingress{ObjectMeta: named(ns, "chat-frontend")} },
	},
	"poddisruptionbudgets": {
		edit: func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Frontend"].Annotations = nil },
		child: func(ns string) client.Object {
			return &policyv1.PodDisruptionBudget{ObjectMeta: named(ns, "chat-frontend")}
		},
	},
}

// disturb changes a label of a child, what a user wants of a graph, or what an autoscaler wants.
func disturb(t *testing.T, ns, resource string) {
	t.Helper()
	switch resource {
	case graphs:
		change(t, ns, edits["replicas"])
		return
	case adapters:
		scale(t, ns, 2) // adapters are left as they are but for this
		return
	}
	object := written[resource](ns, "chat")
	if err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	for _, label := range slices.Sorted(maps.Keys(object.GetLabels())) {
		if label == names.LabelApplied {
			continue
		}
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"disturbed"}}}`, label)
		if err := harness.Client(t).Patch(t.Context(), object, client.RawPatch(types.MergePatchType, patch)); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("%s has no label", object.GetName())
}

func TestErrorsOfTheAPIServerPassWithoutATraceOrAreTold(t *testing.T) {
	t.Parallel()
	b := theBed(t)
	for occasion := range occasions {
		for _, resource := range resourcesOf(occasion) {
			scenario := occasion + " " + resource
			var rows []*Result
			for name := range apiErrors {
				r := &Result{Goal: "L5", Scenario: scenario, Fault: name}
				if isPossible(scenario, name) && isPicked(r.Cell(), oneErrorIn) && b.isWanted(t, *r) {
					rows = append(rows, r)
				}
			}
			if len(rows) == 0 {
				continue
			}
			t.Run(scenario, func(t *testing.T) {
				t.Parallel()
				want := b.meetError(t, trial{resource: resource, occasion: occasion}, &Result{})
				for _, r := range rows {
					t.Run(r.Fault, func(t *testing.T) {
						t.Parallel()
						b.record(t, r)
						got := b.meetError(t, trial{resource: resource, occasion: occasion, want: want.world}, r)
						if diff := want.differs(got); diff != "" {
							t.Errorf("(-undisturbed +after errors):\n%s", diff)
						}
					})
				}
			})
		}
	}
}

// resourcesOf are the kinds that are written on an occasion.
func resourcesOf(occasion string) []string {
	if occasion == "delete" {
		return slices.Sorted(maps.Keys(unwanted))
	}
	return slices.Sorted(maps.Keys(written))
}

// isPossible tells whether an error can happen. A kind whose objects are being served is there; an operator that hears
// otherwise about an object takes it for deleted, and there is nobody to tell. Of an adapter that scales only the status is
// written. Who refuses a deletion does not say that it is invalid.
func isPossible(scenario, name string) bool {
	if strings.HasPrefix(scenario, "delete ") {
		return name != "404 no such kind" && name != "422 invalid"
	}
	return name != "404 no such kind" || !strings.HasSuffix(scenario, " "+graphs) && scenario != "update "+adapters
}

// isTold tells whether there is somebody who could tell that a write was refused. A status that cannot be written is not.
func isTold(resource, occasion string) bool {
	return resource != graphs && (resource != adapters || occasion != "update")
}

// meets tells whether a write can be answered with a code. A kind that is served has its status, too; and who refuses a change as
// invalid does not refuse a deletion, which is why nobody may try one instead.
func meets(c Call, code int) bool {
	switch code {
	case http.StatusNotFound:
		return c.Subresource != "status"
	case http.StatusUnprocessableEntity:
		return c.Method != http.MethodDelete
	}
	return true
}

// trial is a kind whose writes fail, why it is written, and how it ends without errors.
type trial struct {
	resource, occasion string
	want               Snapshot
}

// meetError has an error happen to all writes of a kind for a while.
func (b *bed) meetError(t *testing.T, try trial, r *Result) ending {
	t.Helper()
	ns, wire := b.begin(t)
	switch try.occasion {
	case "update":
		createRich(t, ns)
		b.rest(t, ns, wire)
	case "delete":
		createFurnished(t, ns)
		b.rest(t, ns, wire)
	}
	e, isFault := apiErrors[r.Fault]
	e.fault.Concerns = func(c Call) bool {
		isDeletion := c.Method == http.MethodDelete
		return c.Resource == try.resource && c.IsWrite() && meets(c, e.fault.Code) && (isDeletion || try.occasion != "delete")
	}
	wire.Arm(e.fault)
	occasions[try.occasion](t, ns, try.resource)
	if isFault {
		lasting := e.lasting && isTold(try.resource, try.occasion)
		b.endure(t, ns, wire, try.named(ns, lasting))
		keepsAway(t, wire, e.fault.RetryAfter)
		if lasting && try.occasion == "create" {
			b.othersAreThere(t, ns, try)
		}
		r.Faults = len(wire.Fired())
		wire.Clear()
		b.recover(t, ns, try.want, r)
	}
	if try.occasion == "delete" {
		child := unwanted[try.resource].child(ns)
		gone(t, ns, child.GetName(), child)
		ready(t, ns)
	} else {
		scaledAsWanted(t, ns)
	}
	// How often something changed on the way is a matter of luck: what is disturbed may be handed on before it is put right.
	if !isFault {
		return ending{world: b.rest(t, ns, wire).Without(counters...), lives: b.lives(ns)}
	}
	return ending{world: b.lastRest(t, ns, wire).Without(counters...), lives: b.lives(ns)}
}

// named is the kind that has to be named where something does not pass by itself, empty where nothing has to be told.
func (try trial) named(ns string, lasting bool) string {
	if !lasting {
		return ""
	}
	var object client.Object
	if try.occasion == "delete" {
		object = unwanted[try.resource].child(ns)
	} else {
		object = written[try.resource](ns, "chat")
	}
	return reflect.TypeOf(object).Elem().Name()
}

// keepsAway checks that who was told for how long to stay away did so.
func keepsAway(t *testing.T, wire *Wire, pause time.Duration) {
	t.Helper()
	for object, times := range wire.Asked() {
		for i := 1; i < len(times); i++ {
			if gap := times[i].Sub(times[i-1]); gap < pause-pollEvery {
				t.Errorf("%s was asked about %s after the last time, want %s at least", object, gap, pause)
			}
		}
	}
}

// othersAreThere checks that a kind that is refused stands in the way of no other: only what belongs to a component waits for it.
func (b *bed) othersAreThere(t *testing.T, ns string, try trial) {
	t.Helper()
	now, _, err := b.world.Read(t.Context(), ns)
	if err != nil {
		t.Fatal(err)
	}
	for key := range try.want {
		resource, _ := split(key)
		isBelow := try.resource == components && (resource == "deployments" || resource == "services")
		if resource != try.resource && !isBelow && now[key] == nil {
			t.Errorf("there is no %s because %s are refused", key, try.resource)
		}
	}
}

// recover waits until the world is as it should be. It looks again whenever something has moved.
func (b *bed) recover(t *testing.T, ns string, want Snapshot, r *Result) {
	t.Helper()
	over := time.Now()
	var seen time.Time
	var diff string
	harness.Eventually(t, patience, "the world is as if nothing had happened", func() (bool, string) {
		moved := b.diary.Moved(ns)
		if moved.Equal(seen) {
			return false, diff
		}
		seen = moved
		now, _, err := b.world.Read(t.Context(), ns)
		if err != nil {
			return false, err.Error()
		}
		diff = cmp.Diff(want, now.Without(counters...))
		return diff == "", diff
	})
	moved := b.diary.Moved(ns)
	r.Seconds = max(0, moved.Sub(over).Seconds())
	if r.Seconds > (recoverIn + unlessAlone(slack)).Seconds() {
		t.Errorf("it took %.1f s after the errors were over", r.Seconds)
	}
}

// endure waits until errors have lasted long enough, and looks at what was asked and what is told meanwhile: the kind that is refused, or
// nothing.
func (b *bed) endure(t *testing.T, ns string, wire *Wire, kind string) {
	t.Helper()
	var since time.Time
	harness.Eventually(t, patience, "errors for a while", func() (bool, string) {
		if len(wire.Fired()) > 0 && since.IsZero() {
			since = time.Now()
		}
		return !since.IsZero() && time.Since(since) > failingFor, "no request has failed yet"
	})
	calm := since.Add(calmAfter)
	for object, times := range wire.Asked() {
		late := slices.IndexFunc(times, func(at time.Time) bool { return at.After(calm) })
		if late < 0 {
			continue
		}
		t.Logf("%d requests about %s in %s, %d of them after %s", len(times), object, time.Since(since), len(times)-late, calmAfter)
		if n := len(times) - late; n > int(time.Since(calm)/time.Second)+1 {
			t.Errorf("%d requests about %s in %s", n, object, time.Since(calm))
		}
	}
	told := toldIn(t, ns)
	if kind == "" && len(told) > 0 {
		t.Errorf("what passes by itself is told: %q", told)
	}
	named := regexp.MustCompile(`\b` + kind + `\b`) // the name of an object may be like that of its kind
	if kind != "" && !slices.ContainsFunc(told, named.MatchString) {
		t.Errorf("that %s is refused is not told: %q", kind, told)
	}
}

// toldIn are the conditions of graphs and components that say what the API server answered.
func toldIn(t *testing.T, ns string) []string {
	t.Helper()
	var all []metav1.Condition
	var some v1alpha1.DynamoGraphDeploymentList
	if err := harness.Client(t).List(t.Context(), &some, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	for _, g := range some.Items {
		all = append(all, g.Status.Conditions...)
	}
	var parts v1alpha1.DynamoComponentDeploymentList
	if err := harness.Client(t).List(t.Context(), &parts, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	for _, c := range parts.Items {
		all = append(all, c.Status.Conditions...)
	}
	var told []string
	for _, c := range all {
		if strings.Contains(c.Message, "fault on the wire") {
			told = append(told, c.Message)
		}
	}
	return told
}
