// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

var (
	onlyScenario = flag.String("faults.scenario", "", "run this story only")
	onlyFault    = flag.String("faults.kind", "", "inject this kind of fault only")
	onlyAt       = flag.String("faults.at", "", "hit the write of this name only, such as 'PATCH services/chat-frontend #1'")
	full         = flag.Bool("faults.full", false, "inject every fault, and not only a part of each kind")
	shard        = flag.String("faults.shard", "1/1", "run part i of n, as i/n")
	results      = flag.String("faults.results", "", "file to keep results in; what passed there is not run again")
	commit       = flag.String("faults.commit", "", "commit that results are kept for")
	run          = flag.String("faults.run", "", "kind of run that results are kept for: full or soak")
	binary       = flag.String("faults.binary", "", "operator to drive as a black box, instead of the one of this tree in this process")
	soak         = flag.Duration("faults.soak", 10*time.Second, "how long faults happen at random")
	soakGraphs   = flag.Int("faults.graphs", 8, "how many graphs come and go meanwhile")
	seed         = flag.Uint64("faults.seed", 1, "seed of the dice")
	fighting     = flag.Int("faults.fighting", 5, "how many graphs are fought over in a full run")
	fightFor     = flag.Duration("faults.fight", 80*time.Second, "how long they are")
	crowd        = flag.Int("faults.crowd", 200, "how many graphs a crowd has in a full run")
	idle         = flag.Duration("faults.idle", time.Minute, "how long nothing must happen in a crowd at rest in a full run")
	rolling      = flag.Duration("faults.rolling", 0, "how long replicas are restarted one after another; not at all by default, because test/e2e/production does it once")
	beside       = flag.Duration("faults.beside", 0, "how long neighbours are changed beside graphs that fail; by default once each")
	arguments    = flag.String("faults.args", "", "its arguments; {namespace}, {health} and {metrics} are replaced")
)

// The garbage collector runs, because half of what an operator relies on when something goes is its work.
func TestMain(m *testing.M) {
	harness.Main(m, harness.WithLooseTopology(), harness.WithControllerManagerArgs(
		"--controllers=garbage-collector-controller,namespace-controller,serviceaccount-controller,persistentvolumeclaim-protection-controller"),
		harness.WithLastWord(lastWord), harness.WithKeptNamespaces(), harness.WithGrove(), harness.WithVolcano(),
		harness.WithModuleCRDs("sigs.k8s.io/lws@v0.8.0", "config/crd/bases/*.yaml"),
		harness.WithModuleCRDs("sigs.k8s.io/gateway-api-inference-extension@v1.3.0", "config/crd/bases/inference.networking.k8s.io_*.yaml"),
		harness.WithModuleCRDs("istio.io/api@v1.27.0", "kubernetes/customresourcedefinitions.gen.yaml"))
}

// matched tells whether any fault was among those that the flags name.
var matched atomic.Bool

// lastWord is what is left to do when all tests are over.
func lastWord() error {
	if b, err := shared(); err == nil && b.diary != nil {
		b.closeDiary()
	}
	return somethingMatched()
}

// somethingMatched is what is left to check: flags that name nothing must not pass for a success.
func somethingMatched() error {
	if matched.Load() || !isSelective() {
		return nil
	}
	return fmt.Errorf("there is no fault with -faults.scenario=%q -faults.kind=%q -faults.at=%q", *onlyScenario, *onlyFault, *onlyAt)
}

// bed is what all runs share.
type bed struct {
	world  *World
	diary  *Diary
	ledger *Ledger
	// closeDiary ends the diary.
	closeDiary context.CancelFunc

	// opening is held by the fight that begins.
	opening sync.Mutex

	mu         sync.Mutex
	references map[string]*reference
}

// reference is how a story ends that several runs are compared with.
type reference struct {
	once  sync.Once
	told  bool
	ended ending
}

// reference tells a story once, however many runs are compared with it.
func (b *bed) reference(t *testing.T, name string, tell func() ending) ending {
	t.Helper()
	b.mu.Lock()
	r := b.references[name]
	if r == nil {
		r = &reference{}
		b.references[name] = r
	}
	b.mu.Unlock()
	r.once.Do(func() { r.ended, r.told = tell(), true })
	if !r.told {
		t.Fatalf("%s: the undisturbed run failed in another test", name)
	}
	return r.ended
}

// shared is made by the first test that needs it and ends with the test binary.
var shared = sync.OnceValues(func() (*bed, error) {
	ledger, err := OpenLedger(*results, Source{Commit: *commit, Run: *run})
	return &bed{ledger: ledger, references: map[string]*reference{}}, err
})

// looking guards the making of what needs a cluster, which the first test does.
var looking sync.Mutex

func theBed(t *testing.T) *bed {
	t.Helper()
	looking.Lock()
	defer looking.Unlock()
	b, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	if b.diary != nil {
		return b
	}
	config := harness.RESTConfig(t, localcluster.UserAdmin)
	if b.world, err = NewWorld(config); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:usetesting // the diary outlives the test
	if b.diary, err = KeepDiary(ctx, config, b.world); err != nil {
		cancel()
		t.Fatal(err)
	}
	b.closeDiary = cancel
	return b
}

// isWanted tells whether a cell is to be run: it is in this part, in what the flags name, and has not passed already.
func (b *bed) isWanted(t *testing.T, r Result) bool {
	t.Helper()
	if *onlyScenario != "" && *onlyScenario != r.Scenario || *onlyFault != "" && *onlyFault != r.Fault || *onlyAt != "" && *onlyAt != r.At {
		return false
	}
	matched.Store(true)
	return isInShard(t, r.Cell()) && !b.ledger.HasPassed(r)
}

func isInShard(t *testing.T, cell string) bool {
	t.Helper()
	var i, n uint32
	if _, err := fmt.Sscanf(*shard, "%d/%d", &i, &n); err != nil || i < 1 || i > n {
		t.Fatalf("-faults.shard is i/n with i from 1 to n, not %q", *shard)
	}
	return digest(cell)%n == i-1
}

func digest(text string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // it cannot fail
	return h.Sum32()
}

// isSelective tells whether the flags name some of the faults.
func isSelective() bool { return *onlyScenario != "" || *onlyFault != "" || *onlyAt != "" }

// takesLong tells whether to leave out what takes long: it is for runs of all faults, and for those that name it.
func takesLong() bool { return !*full && !isSelective() }

// isPicked tells whether a cell is in the part that runs without -faults.full: one in so many, the same ones every time.
func isPicked(cell string, oneIn uint32) bool {
	return *full || isSelective() || digest(cell)%oneIn == 0
}

// record keeps the result of a run when its test ends, and says how to repeat it when it failed.
func (b *bed) record(t *testing.T, r *Result) {
	t.Helper()
	t.Cleanup(func() {
		r.Passed = !t.Failed()
		if r.Passed && r.Faults == 0 && !r.Calm && !r.Absent {
			t.Error("nothing was injected")
			r.Passed = false
		}
		if err := b.ledger.Write(*r); err != nil {
			t.Error(err)
		}
		if !r.Passed {
			t.Log("to repeat it: " + again(t, *r))
		}
	})
}

// tellsHow says how to repeat what a test does besides single faults, when it fails.
func tellsHow(t *testing.T, r Result) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("to repeat all of it: " + again(t, r))
		}
	})
}

// again is the command that repeats a fault: with the flags that this run was given, but for those that choose among faults.
func again(t *testing.T, r Result) string {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	command := fmt.Sprintf("go test ./test/faults -count=1 -timeout 0 -parallel %s -run '^%s$' -args", flag.Lookup("test.parallel").Value, test)
	flag.Visit(func(f *flag.Flag) {
		if strings.HasPrefix(f.Name, "faults.") && !chooses[f.Name] {
			command += fmt.Sprintf(" -%s='%s'", f.Name, f.Value)
		}
	})
	for _, named := range []struct{ flag, value string }{{"scenario", r.Scenario}, {"kind", r.Fault}, {"at", r.At}} {
		if named.value != "" {
			command += fmt.Sprintf(" -faults.%s='%s'", named.flag, named.value)
		}
	}
	return command
}

// chooses are the flags that say which faults a run is about, or what becomes of its results.
var chooses = map[string]bool{
	"faults.scenario": true, "faults.kind": true, "faults.at": true, "faults.shard": true, "faults.results": true, "faults.commit": true,
	"faults.run": true,
}
