package backendtest_test

import (
	"os"
	"regexp"
	"testing"
	"testing/synctest"

	"flockd/backends"
	"flockd/backends/backendtest"
	"flockd/backends/mem"
)

// TestCompareCatches: broken stores differ from the model, whatever it is that they break.
func TestCompareCatches(t *testing.T) {
	if name := os.Getenv(brokenVar); name != "" {
		compare(t, faults[name])
		return
	}
	for _, name := range []string{
		"lets a newcomer pass the line", "serves the last first", "forgets what was given up", "releases twice",
		"gives a new token when asked again", "makes tokens of the places", "counts anew after a removal",
		"mixes numbers of slots", "gives a slot that cools", "lets nobody in beside a cooling shared", "shared tells all who hold",
		"completes for whoever holds next", "takes any run for the last success", "records no removal",
		"tells a removed hold nothing by its renewal", "passes over a place that was asked to leave",
		"hears of no end of the last shared", "hears of no slot that was removed", "wakes no place by a notice",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if faults[name].caught == "" {
				t.Fatal("there is no such fault")
			}
			if out := broken(t, "TestCompareCatches", name); !differs.Match(out) {
				t.Errorf("it went unseen: %s", out)
			}
		})
	}
}

// differs is what tells that a store isn't as its model.
var differs = regexp.MustCompile(`FLOCKD_FUZZ_REPLAY=\d+:\d[\s\S]*the model: `)

// TestCompareAcceptsASoundStore: without a fault nothing differs.
func TestCompareAcceptsASoundStore(t *testing.T) { compare(t, fault{}) }

func compare(t *testing.T, f fault) {
	w := newWorld(f)
	backendtest.Compare(t, backendtest.Harness{
		Open:   func(testing.TB) backends.Backend { return w.open() },
		TTL:    TTL,
		Bubble: synctest.Test,
	}, mem.New())
}
