// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/config/rbac"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/app"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/config"
	"github.com/dynamo-operator/dynamo-operator/test/simulator"
)

// stopTimeout is how long an operator may take to end. It has nothing to finish, so this is only for loaded machines.
const stopTimeout = 30 * time.Second

// errDead is what a killed operator's requests get. They never leave the process.
var errDead = errors.New("this operator was killed")

// Operator is an operator in the test's own process, restricted to one namespace, with the rights it is shipped with.
type Operator struct {
	// User is the operator's identity, different for every namespace, so that the audit log tells operators apart.
	User string

	t      testing.TB
	cancel context.CancelFunc
	ended  chan error
	gate   *gate
	once   sync.Once
}

// OperatorOption changes how an operator is started.
type OperatorOption func(*operatorOptions)

type operatorOptions struct {
	flags     []string
	transport func(http.RoundTripper) http.RoundTripper
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	pollAPIs  time.Duration
}

// WithAPIPoll has a restricted operator look more often for optional APIs than it otherwise does.
func WithAPIPoll(pause time.Duration) OperatorOption {
	return func(o *operatorOptions) { o.pollAPIs = pause }
}

// WithFlags gives the operator command line flags.
func WithFlags(flags ...string) OperatorOption {
	return func(o *operatorOptions) { o.flags = append(o.flags, flags...) }
}

// WithTransport puts something between the operator and the API server.
func WithTransport(wrap func(http.RoundTripper) http.RoundTripper) OperatorOption {
	return func(o *operatorOptions) { o.transport = wrap }
}

// WithWorkers has the operator reach workers in another way than by the addresses of their pods, which lead nowhere here.
func WithWorkers(dial func(ctx context.Context, network, address string) (net.Conn, error)) OperatorOption {
	return func(o *operatorOptions) { o.dial = dial }
}

// ClusterWide is the namespace of an operator that works in all. A test package that starts one starts no other.
const ClusterWide = ""

// StartOperator starts an operator for the namespace and returns when its caches are filled. It is stopped with the test.
func StartOperator(t testing.TB, namespace string, opts ...OperatorOption) *Operator {
	t.Helper()
	var options operatorOptions
	for _, opt := range opts {
		opt(&options)
	}
	o := &Operator{User: "operator-" + namespace, t: t, ended: make(chan error, 1), gate: &gate{}}
	grantShippedRole(t, namespace, o.User)
	api := RESTConfig(t, o.User)
	api.Wrap(func(next http.RoundTripper) http.RoundTripper {
		o.gate.next = next
		if options.transport != nil {
			return options.transport(o.gate)
		}
		return o.gate
	})
	ctx, cancel := context.WithCancel(context.Background())
	o.cancel = cancel
	settings := operatorConfig(t, namespace, options)
	settings.DialWorkers = options.dial
	mgr, err := app.New(ctx, settings, api)
	if err != nil {
		cancel()
		t.Fatalf("build the operator: %v", err)
	}
	go func() { o.ended <- mgr.Start(ctx) }()
	t.Cleanup(o.Stop)
	o.awaitCaches(mgr)
	return o
}

func operatorConfig(t testing.TB, namespace string, o operatorOptions) *config.Config {
	t.Helper()
	args := append([]string{"--metrics-bind-address=0", "--health-probe-bind-address=0", "--restrictedNamespace=" + namespace}, o.flags...)
	c, err := config.Load(flag.NewFlagSet("operator", flag.ContinueOnError), args, os.ReadFile)
	if err != nil {
		t.Fatalf("parse operator flags: %v", err)
	}
	c.SharedProcess, c.PollAPIs = true, o.pollAPIs
	// No operator of all namespaces is near, and a claim takes its time. test/e2e/tenancy is about those.
	c.NamespaceScope.Disabled = true
	if err := c.Validate(app.Environment); err != nil {
		t.Fatalf("operator flags: %v", err)
	}
	return c
}

func (o *Operator) awaitCaches(mgr manager.Manager) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	select {
	case err := <-o.ended:
		o.ended <- err
		o.t.Fatalf("the operator ended at its start: %v", err)
	case <-mgr.Elected():
	}
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		o.t.Fatal("the operator's caches were not filled in time")
	}
}

// Stop ends the operator as a termination signal does, and waits for it.
func (o *Operator) Stop() {
	o.once.Do(func() {
		o.cancel()
		select {
		case err := <-o.ended:
			if err != nil {
				o.t.Errorf("the operator ended with: %v", err)
			}
		case <-time.After(stopTimeout):
			o.t.Errorf("the operator did not end within %s", stopTimeout)
		}
		o.gate.shut()
	})
}

// Kill ends the operator as SIGKILL does: from now on nothing of it reaches the API server.
func (o *Operator) Kill() {
	o.gate.shut()
	o.Stop()
}

// gate lets requests through until it is shut.
type gate struct {
	next http.RoundTripper

	mu   sync.RWMutex
	dead bool
}

func (g *gate) RoundTrip(req *http.Request) (*http.Response, error) {
	g.mu.RLock()
	defer g.mu.RUnlock() // a request that is under way when the gate shuts is finished first
	if g.dead {
		return nil, errDead
	}
	return g.next.RoundTrip(req)
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dead = true
}

// GrantShippedRole gives a user the rights that the operator is shipped with in the whole cluster.
func GrantShippedRole(t testing.TB, user string) {
	t.Helper()
	RESTConfig(t, user) // makes its credentials
	grantShippedRole(t, ClusterWide, user)
}

// grantShippedRole gives a user the operator's own rights, as they are in config/rbac, where it works: a ClusterRole for the
// whole cluster, and nothing but a Role for one namespace.
func grantShippedRole(t testing.TB, namespace, user string) {
	t.Helper()
	note(t, namespace, user)
	role, err := rbac.ManagerRole()
	if err != nil {
		t.Fatal(err)
	}
	restricted, err := rbac.RestrictedRole()
	if err != nil {
		t.Fatal(err)
	}
	workloads, err := rbac.WorkloadRoles()
	if err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	for _, w := range workloads {
		objects = append(objects, w)
	}
	meta := metav1.ObjectMeta{Name: "test-operator", Namespace: namespace}
	if user != "operator-"+namespace {
		meta.Name += ":" + user // one of several in a namespace
	}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	if namespace == ClusterWide {
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}
		objects = append(objects, role, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref})
	} else {
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}
		objects = append(objects, &rbacv1.Role{ObjectMeta: meta, Rules: restricted.Rules},
			&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref})
	}
	for _, obj := range objects {
		if err := Client(t).Create(t.Context(), obj); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatalf("create %s: %v", obj.GetName(), err)
		}
	}
}

// SimulateDeployments has every Deployment of the namespace reported as rolled out until the test ends.
func SimulateDeployments(t testing.TB, namespace string) {
	t.Helper()
	api, err := client.NewWithWatch(RESTConfig(t, "simulator"), client.Options{Scheme: Scheme(t)})
	if err != nil {
		t.Fatalf("make the simulator's client: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- simulator.Deployments(ctx, api, namespace) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("simulator: %v", err)
		}
	})
}

// readyTimeout is generous: what takes milliseconds on an idle machine takes seconds beside a compiler.
const readyTimeout = time.Minute

// AwaitReady waits until a graph is Ready in its latest generation.
func AwaitReady(t testing.TB, namespace, name string) *v1alpha1.DynamoGraphDeployment {
	t.Helper()
	g := &v1alpha1.DynamoGraphDeployment{}
	Eventually(t, readyTimeout, "graph "+name+" ready", func() (bool, string) {
		if err := Client(t).Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, g); err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil {
			return false, "no Ready condition"
		}
		return c.Status == metav1.ConditionTrue && c.ObservedGeneration == g.Generation, c.Reason + ": " + c.Message
	})
	return g
}

// Change edits a graph as a user does: on the latest version, again if somebody else was faster.
func Change(t testing.TB, key client.ObjectKey, edit func(*v1alpha1.DynamoGraphDeployment)) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		g := &v1alpha1.DynamoGraphDeployment{}
		if err := Client(t).Get(t.Context(), key, g); err != nil {
			return err
		}
		edit(g)
		return Client(t).Update(t.Context(), g)
	})
	if err != nil {
		t.Fatalf("change graph %s: %v", key, err)
	}
}

// Scale sets the replicas of a scaling adapter through its scale subresource, as an autoscaler does. The adapter may be on
// its way.
func Scale(t testing.TB, namespace, adapter string, replicas int32) {
	t.Helper()
	a := &v1alpha1.DynamoGraphDeploymentScalingAdapter{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: adapter}}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	Eventually(t, readyTimeout, "adapter "+adapter+" scaled", func() (bool, string) {
		if err := Client(t).SubResource("scale").Patch(t.Context(), a, patch); err != nil {
			return false, err.Error()
		}
		return true, ""
	})
}
