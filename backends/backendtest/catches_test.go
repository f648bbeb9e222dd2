package backendtest_test

import (
	"cmp"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest"
)

// faults are the broken stores, by what they do.
var faults = allFaults(
	holdFaults, lineFaults, turnFaults, sharingFaults, modeFaults, watchFaults, noticeFaults, resignFaults, removalFaults, toldFaults, recordFaults, ledgerFaults, flightFaults,
)

func allFaults(maps ...map[string]fault) map[string]fault {
	all := map[string]fault{}
	for _, m := range maps {
		for name, f := range m {
			all[name] = f
		}
	}
	return all
}

// TTL is the suite's time unit for broken stores.
const TTL = 10 * time.Minute

// brokenVar names the fault that a child process tests.
const brokenVar = "FLOCKD_TEST_FAULT"

// TestSuiteCatches runs the suite against broken stores, each in a process of
// its own, and wants the test that is named for the fault to fail, and no other.
func TestSuiteCatches(t *testing.T) {
	if name := os.Getenv(brokenVar); name != "" {
		runSuite(t, faults[name])
		return
	}
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if failed := failedTests(t, name); !slices.Equal(failed, []string{f.caught}) {
				t.Errorf("%q failed, want %q alone", failed, f.caught)
			}
		})
	}
}

// TestSoundStore: without a fault nothing fails.
func TestSoundStore(t *testing.T) { runSuite(t, fault{}) }

// runSuite gives each test a store of its own that has the fault.
func runSuite(t *testing.T, f fault) {
	var stores sync.Map // by test
	find := func(t testing.TB) *world {
		w, _ := stores.LoadOrStore(t.Name(), newWorld(f))
		return w.(*world)
	}
	backendtest.Run(t, backendtest.Harness{
		Open:   func(t testing.TB) backends.Backend { return find(t).open() },
		TTL:    TTL,
		Has:    backendtest.All &^ f.unlisted,
		Bubble: synctest.Test,
		Newer:  func(t testing.TB, key string) { find(t).newer.Store(key, true) },
	})
}

var failLine = regexp.MustCompile(`(?m)^ +--- FAIL: TestSuiteCatches/(\S+)`)

// failedTests runs the suite in a child process.
func failedTests(t *testing.T, name string) (failed []string) {
	out := broken(t, "TestSuiteCatches", name)
	for _, m := range failLine.FindAllStringSubmatch(string(out), -1) {
		failed = append(failed, m[1])
	}
	if len(failed) != 1 || strings.Contains(string(out), "panic:") || strings.Contains(string(out), "DATA RACE") {
		t.Logf("%s:\n%s", cmp.Or(name, "?"), out)
	}
	return failed
}

// broken is what a test says of a fault, in a child process.
func broken(t *testing.T, test, fault string) []byte {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), brokenVar+"="+fault, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	out, _ := cmd.CombinedOutput() // how it ended is in what it says
	return out
}
