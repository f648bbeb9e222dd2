package backendtest

import (
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"flockd/backends"
)

// Compare makes the same calls, drawn at random, to a store that can do all but be a
// register and to the model of one, and wants the same answers, lines and runs after each
// call, larger tokens, and those woken who have something to hear. Nothing expires
// meanwhile. Each of a few fixed seeds is one script; FLOCKD_FUZZ=DURATION goes on with
// others for so long. A failure says how it is repeated.
func Compare(t *testing.T, h Harness, model backends.Backend) {
	if h.Bubble == nil {
		t.Parallel()
	}
	c := &comparison{T: t, bubble: h.Bubble, patience: 20 * h.TTL, model: model}
	for range scriptClients {
		c.store = append(c.store, h.Open(t))
	}
	for seed, steps := range scripts(t) {
		if c.run(steps) == "" {
			continue
		}
		steps = c.shrink(steps)
		t.Fatalf("repeat it by FLOCKD_FUZZ_REPLAY=%d:%s\n%s", seed, numbers(steps), c.run(steps))
	}
}

// fuzzSeeds is how many scripts a test run tries: some 3 s of calls to a store on a disk.
const fuzzSeeds = 24

// scripts are those that the environment asks for, by seed.
func scripts(t *testing.T) iter.Seq2[uint64, []step] {
	return func(yield func(uint64, []step) bool) {
		if seed, steps := replayed(t); steps != nil {
			yield(seed, steps)
			return
		}
		var end time.Time
		if d := os.Getenv("FLOCKD_FUZZ"); d != "" {
			more, err := time.ParseDuration(d)
			if err != nil {
				t.Fatal(err)
			}
			end = time.Now().Add(more)
		}
		for seed := uint64(0); seed < fuzzSeeds || time.Now().Before(end); seed++ {
			if !yield(seed, script(seed)) {
				return
			}
		}
	}
}

// replayed is the script that FLOCKD_FUZZ_REPLAY=SEED:NUMBER,… names, nil without it.
func replayed(t *testing.T) (seed uint64, steps []step) {
	text := os.Getenv("FLOCKD_FUZZ_REPLAY")
	if text == "" {
		return 0, nil
	}
	name, list, _ := strings.Cut(text, ":")
	seed, err := strconv.ParseUint(name, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	all := script(seed)
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n >= len(all) {
			t.Fatalf("seed %d has no step %q", seed, text)
		}
		steps = append(steps, all[n])
	}
	return seed, steps
}

func numbers(steps []step) string {
	var list []string
	for _, s := range steps {
		list = append(list, strconv.Itoa(s.number))
	}
	return strings.Join(list, ",")
}

// comparison is a store beside its model.
type comparison struct {
	*testing.T
	bubble   func(*testing.T, func(*testing.T))
	patience time.Duration // how long a wake-up may take
	store    []backends.Backend
	model    backends.Backend
}

// run takes the steps with a fresh key, and tells them up to the first that differs; "":
// none does.
func (c *comparison) run(steps []step) (tale string) {
	if c.bubble == nil {
		return c.take(c.T, steps)
	}
	c.bubble(c.T, func(t *testing.T) { tale = c.take(t, steps) })
	return tale
}

func (c *comparison) take(t *testing.T, steps []step) string {
	ids := make([]string, scriptClaims)
	for i := range ids {
		ids[i] = backends.NewID()
	}
	key := "fuzz-" + backends.NewID()
	store, model := newSide(t, c.store, key, ids), newSide(t, []backends.Backend{c.model}, key, ids)
	defer store.leaveAll()
	var tale strings.Builder
	for _, s := range steps {
		got, want := store.take(s), model.take(s)
		fmt.Fprintf(&tale, "%v: %s\n", s, want)
		if got == want {
			got, want = store.state(), model.state()
		}
		if got == want {
			got, want = store.asleep(model, c.patience), ""
		}
		if got != want {
			return fmt.Sprintf("%s  the store: %s\n  the model: %s", &tale, got, want)
		}
	}
	return ""
}

// shrinkAtMost is how long a failing script is made shorter for; a wake-up that doesn't
// come within shrinkPatience has failed meanwhile.
const (
	shrinkAtMost   = 30 * time.Second
	shrinkPatience = time.Second
)

// shrink leaves out what a failure doesn't need: halves, quarters and so on, down to steps.
func (c *comparison) shrink(steps []step) []step {
	all, patience, end := steps, c.patience, time.Now().Add(shrinkAtMost)
	c.patience = min(patience, shrinkPatience)
	for size := len(steps) / 2; size > 0; size /= 2 {
		for i := 0; i+size <= len(steps) && time.Now().Before(end); {
			if less := slices.Delete(slices.Clone(steps), i, i+size); c.run(less) != "" {
				steps = less
			} else {
				i += size
			}
		}
	}
	if c.patience = patience; c.run(steps) == "" {
		return all // it was only late
	}
	return steps
}
