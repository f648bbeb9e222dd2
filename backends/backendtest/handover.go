package backendtest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"flockd/backends"
)

// HandOverCosts holds a store to rule 8: what it takes to release a key, and to grant it to
// whose turn has come, is the same whatever the number of those who wait, but for a factor.
// measure is given what does so, on any client of the store, and returns what that cost.
func HandOverCosts(t *testing.T, b backends.Backend, factor float64, measure func(handOver func(by backends.Backend)) map[string]float64) {
	t.Helper()
	for _, mode := range []backends.Mode{backends.Exclusive, backends.Shared, backends.Slots} {
		costs := map[string][]float64{}
		lines := []int{1, 2, 20, 200}
		for _, n := range lines {
			steps, handOver := HandOver(t, b, mode, n)
			for what, cost := range measure(handOver) {
				costs[what] = append(costs[what], cost/float64(steps))
			}
		}
		for what, all := range costs {
			t.Logf("%s: %s %.1f for each step with lines of %d", mode, what, all, lines)
			all = all[1:] // the server may learn with the first one
			if least, most := slices.Min(all), slices.Max(all); least == 0 || most > factor*least {
				t.Errorf("%s: %.1f to %.1f %s", mode, least, most, what)
			}
		}
	}
}

// HandOver makes a key that is held, by two where there are slots, and for which n wait. What
// it returns hands it over, in so many steps.
func HandOver(t *testing.T, b backends.Backend, mode backends.Mode, n int) (steps int, do func(by backends.Backend)) {
	t.Helper()
	key := backends.NewID()
	asks := func(mode backends.Mode, n int) (all []backends.Request) {
		for range n {
			r := backends.Request{Key: key, ID: backends.NewID(), Mode: mode, TTL: time.Minute, Place: time.Minute}
			if mode == backends.Slots {
				r.Slots = 2
			}
			if _, err := b.Acquire(t.Context(), r); err != nil && !errors.Is(err, backends.ErrHeld) {
				t.Fatal(err)
			}
			all = append(all, r)
		}
		return all
	}
	first, beside := mode, 0
	switch mode {
	case backends.Shared:
		first = backends.Exclusive
	case backends.Slots:
		beside = 1
	}
	holder := asks(first, 1)[0]
	asks(first, beside)
	next := asks(mode, n)
	if mode != backends.Shared {
		next = next[:1]
	}
	return 1 + len(next), func(by backends.Backend) {
		if err := by.Release(t.Context(), key, holder.ID, backends.Outcome{Class: "finished", Success: true}); err != nil {
			t.Fatal(err)
		}
		for _, r := range next {
			mustAcquire(t, by, r)
		}
	}
}
