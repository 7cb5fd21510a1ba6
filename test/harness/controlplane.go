// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package harness gives tests a real Kubernetes control plane.
//
// A test package has one control plane, started by [Main] from its TestMain, and each test has a namespace of its own.
// The control plane dies with the test binary, however that ends.
package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	grovev1alpha1 "github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/config/crd"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/leaks"
)

// statePrefix begins the name of every state directory of a test run.
const statePrefix = "dynamo-test-"

// Option adds something to the control plane of a test package.
type Option func(*settings)

// settings are what options change.
type settings struct {
	localcluster.Options

	// moduleCRDs are patterns of files by the module they lie in.
	moduleCRDs map[string]string
	// ownCRDs are those that come with the tests.
	ownCRDs []definition
	// looseTopology drops the rules from our own definitions.
	looseTopology bool
	// undefined leaves our own definitions out.
	undefined bool
	// grove says that Grove's admission is wanted.
	grove bool
	// lastWord is asked when all tests are over.
	lastWord func() error
	// keptNamespaces says that nobody cleans up.
	keptNamespaces bool
}

// WithLooseTopology installs our definitions without their rules, as they were before there were any: for tests of what
// happens to objects that such a definition let through, by what they say or by what was changed.
func WithLooseTopology() Option {
	return func(o *settings) { o.looseTopology = true }
}

// WithoutDefinitions leaves our definitions out, for tests that install them as users do.
func WithoutDefinitions() Option {
	return func(o *settings) { o.undefined = true }
}

// WithControllerManager runs the controllers of Kubernetes: Deployments, Jobs, garbage collection and so on.
func WithControllerManager() Option {
	return func(o *settings) { o.ControllerManager = true }
}

// WithScheduler runs the scheduler.
func WithScheduler() Option {
	return func(o *settings) { o.Scheduler = true }
}

// WithNodes simulates nodes with gpus graphics cards each. Pods can only get there with the help of the controller
// manager and the scheduler, so these run too.
func WithNodes(nodes, gpus int) Option {
	return func(o *settings) {
		o.Nodes, o.GPUs = nodes, gpus
		o.ControllerManager, o.Scheduler = true, true
	}
}

// WithLWS runs the LeaderWorkerSet controller and what it needs.
func WithLWS() Option {
	return func(o *settings) { o.LWS, o.ControllerManager = true, true }
}

// WithOldLWS runs the oldest release of the LeaderWorkerSet controller that is supported.
func WithOldLWS() Option {
	return func(o *settings) { o.LWS, o.OldLWS, o.ControllerManager = true, true, true }
}

// WithOldAPIServer runs the API server of the oldest minor of Kubernetes that is tested.
func WithOldAPIServer() Option {
	return func(o *settings) { o.OldAPIServer = true }
}

// WithKeptNamespaces leaves the namespaces of tests to the end of the control plane, for packages with so many that to delete them
// would be most of the work.
func WithKeptNamespaces() Option {
	return func(o *settings) { o.keptNamespaces = true }
}

// WithLastWord has a package fail by an error that only shows when all its tests are over.
func WithLastWord(check func() error) Option {
	return func(o *settings) { o.lastWord = check }
}

// WithAudit records every request; see AuditLog.
func WithAudit() Option {
	return func(o *settings) { o.Audit = true }
}

// WithAPIServerArgs passes further arguments to the API server.
func WithAPIServerArgs(args ...string) Option {
	return func(o *settings) { o.APIServerArgs = append(o.APIServerArgs, args...) }
}

// WithControllerManagerArgs passes further arguments to the controller manager, for example a shorter sync period.
func WithControllerManagerArgs(args ...string) Option {
	return func(o *settings) {
		o.ControllerManager = true
		o.ControllerManagerArgs = append(o.ControllerManagerArgs, args...)
	}
}

// WithModuleCRDs installs CRDs that lie inside a Go module, such as "example.com/project@v1.2.3", in files that match the
// pattern. They are the real ones, of the version that is named.
func WithModuleCRDs(module, pattern string) Option {
	return func(o *settings) { o.moduleCRDs[module] = pattern }
}

// controlPlane is what the tests of a package share.
type controlPlane struct {
	cluster *localcluster.Cluster
	options localcluster.Options
	scheme  *runtime.Scheme
	admin   client.Client
	// lastWord is asked when all tests are over, nil for nothing.
	lastWord func() error
	// keptNamespaces says that namespaces are not deleted one by one.
	keptNamespaces bool
}

// current is the control plane of this test binary. The testing package offers no way to hand a value from TestMain to
// the tests, so there has to be one variable; it is set before the first test, and later by Fresh alone.
var current atomic.Pointer[controlPlane]

// Main runs the tests of a package against a control plane of their own and exits. It belongs in TestMain.
func Main(m *testing.M, opts ...Option) {
	os.Exit(run(m, opts))
}

func run(m *testing.M, opts []Option) int {
	flag.Parse()
	// The client library complains after half a minute when nobody has told it where to log. A manager under test gets
	// its logger by its own options.
	log.SetLogger(logger())
	plane, err := start(context.Background(), opts)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the control plane for the tests:", err)
		return 1
	}
	current.Store(plane)
	code := m.Run()
	if plane.lastWord != nil {
		if err := plane.lastWord(); err != nil {
			fmt.Fprintln(os.Stderr, "FAIL:", err)
			code = max(code, 1)
		}
	}
	if err := writeAsked(plane); err != nil {
		fmt.Fprintln(os.Stderr, "fold the audit log of the tests:", err)
		code = max(code, 1)
	}
	if err := plane.cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the control plane of the tests:", err)
	}
	// Connections to the API server end with it, so that whatever is left now was to be ended by a test.
	return leaks.Checked(code)
}

// logger shows what operators in the test process say, if the reader asked for much.
func logger() logr.Logger {
	if !testing.Verbose() {
		return logr.Discard()
	}
	return zap.New(zap.WriteTo(os.Stderr))
}

func start(ctx context.Context, opts []Option) (*controlPlane, error) {
	if err := localcluster.SweepAbandoned(filepath.Join(os.TempDir(), statePrefix+"*")); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", statePrefix)
	if err != nil {
		return nil, fmt.Errorf("make state directory: %w", err)
	}
	options := settings{
		Options:    localcluster.Options{Name: "test", StateDir: dir, Throwaway: true, Progress: os.Stderr},
		moduleCRDs: map[string]string{},
	}
	for _, opt := range opts {
		opt(&options)
	}
	options.Audit = options.Audit || wantsAudit()
	cluster, err := localcluster.Start(ctx, options.Options)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	plane, err := prepare(ctx, cluster, options)
	if err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	return plane, nil
}

// prepare installs the CRDs and makes the client that most tests use.
func prepare(ctx context.Context, cluster *localcluster.Cluster, options settings) (*controlPlane, error) {
	config, err := cluster.RESTConfig(localcluster.UserAdmin)
	if err != nil {
		return nil, err
	}
	crds, err := crd.All()
	if err != nil {
		return nil, err
	}
	if options.looseTopology {
		DropRules(crds...)
	}
	if options.undefined {
		crds = nil
	}
	for module, pattern := range options.moduleCRDs {
		more, err := localcluster.ModuleCRDs(ctx, module, pattern)
		if err != nil {
			return nil, err
		}
		crds = append(crds, more...)
	}
	for _, read := range options.ownCRDs {
		own, err := read()
		if err != nil {
			return nil, err
		}
		crds = append(crds, own)
	}
	if err := localcluster.InstallCRDs(ctx, config, crds); err != nil {
		return nil, err
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	admin, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	if options.grove {
		if err := installGroveAdmission(ctx, config, admin); err != nil {
			return nil, err
		}
	}
	return &controlPlane{
		cluster: cluster, options: options.Options, scheme: scheme, admin: admin,
		lastWord: options.lastWord, keptNamespaces: options.keptNamespaces,
	}, nil
}

// DropRules takes the rules out of definitions. Types and limits stay.
func DropRules(definitions ...*apiextensionsv1.CustomResourceDefinition) {
	for _, d := range definitions {
		for _, version := range d.Spec.Versions {
			dropRules(version.Schema.OpenAPIV3Schema)
		}
	}
}

func dropRules(schema *apiextensionsv1.JSONSchemaProps) {
	schema.XValidations = nil
	for name, member := range schema.Properties {
		dropRules(&member)
		schema.Properties[name] = member
	}
	if items := schema.Items; items != nil && items.Schema != nil {
		dropRules(items.Schema)
	}
	if values := schema.AdditionalProperties; values != nil && values.Schema != nil {
		dropRules(values.Schema)
	}
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme,
		grovev1alpha1.AddToScheme, lwsv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register types: %w", err)
		}
	}
	return scheme, nil
}

func plane(t testing.TB) *controlPlane {
	t.Helper()
	p := current.Load()
	if p == nil {
		t.Fatal("this test package has no control plane; call harness.Main from its TestMain")
	}
	return p
}

// Cluster returns the control plane itself, for tests that kill and restart its parts.
func Cluster(t testing.TB) *localcluster.Cluster {
	t.Helper()
	return plane(t).cluster
}

// Client returns the administrator's client. It reads from the API server, never from a cache, and knows the types of
// Kubernetes, of CRDs, of Grove and of our API.
func Client(t testing.TB) client.Client {
	t.Helper()
	return plane(t).admin
}

// Scheme returns the scheme that Client uses.
func Scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	return plane(t).scheme
}

// RESTConfig returns a configuration that acts as user. A user the cluster does not know yet is added, without any
// group and so without any right.
func RESTConfig(t testing.TB, user string) *rest.Config {
	t.Helper()
	cluster := plane(t).cluster
	if _, err := cluster.Kubeconfig(user); err != nil {
		if _, err := cluster.AddUser(user); err != nil {
			t.Fatalf("add user %s: %v", user, err)
		}
	}
	config, err := cluster.RESTConfig(user)
	if err != nil {
		t.Fatalf("configuration of user %s: %v", user, err)
	}
	return config
}

// AuditLog returns the path of the audit log; read it with localcluster.ReadAudit.
func AuditLog(t testing.TB) string {
	t.Helper()
	p := plane(t)
	if !p.options.Audit {
		t.Fatal("this test package records no requests; pass harness.WithAudit() to harness.Main")
	}
	return p.cluster.AuditLogPath()
}

// pollInterval is short: a test that waits should wait for the cluster and not for itself.
const pollInterval = 20 * time.Millisecond

// Eventually asks cond until it agrees, and fails the test with its last message when timeout has passed.
func Eventually(t testing.TB, timeout time.Duration, what string, cond func() (bool, string)) {
	t.Helper()
	deadline := time.After(timeout)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		done, message := cond()
		if done {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s did not happen within %s: %s", what, timeout, message)
		case <-ticker.C:
		}
	}
}
