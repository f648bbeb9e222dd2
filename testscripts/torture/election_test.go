//go:build linux

package torture

import (
	"os"
	"strconv"
	"sync"
	"testing"

	"flockd/testscripts/torture/trace"
)

// TestElections has candidates fight for the lead on each store, while whoever leads is deposed
// by all means, one after the other: TERM, flockd resign and break, SIGKILL of flockd alone or of all
// that there is of its host, a flockd that stands still, a cut line, a store that stands still or
// ends, and a command that does. It runs by itself: a busy host loses leases, which is no fault, but
// changes nothing by the means that are asked about.
func TestElections(t *testing.T) {
	seed, program := seedOf(t), flockd(t)
	held := make([]*election, len(grounds))
	var all sync.WaitGroup
	for n, row := range grounds {
		all.Go(func() {
			t.Run(row.name, func(t *testing.T) {
				held[n] = newElection(t, row.make, program, seed, uint64(n))
				held[n].hold(t)
			})
		})
	}
	all.Go(func() { t.Run("zombie", func(t *testing.T) { zombie(t, program, program) }) })
	all.Go(func() { t.Run("unfenced zombie", func(t *testing.T) { zombie(t, program, trace.Unfenced) }) })
	all.Wait()
	t.Log(summaryOf(held, seed, t.Failed()))
}

// hold holds an election until there were enough changes, and judges it.
func (e *election) hold(t *testing.T) {
	e.open(t.Context())
	if err := e.depose(t.Context(), e.wanted(t)); err != nil {
		t.Error(err)
	}
	e.end()
	if err := e.empty(t.Context()); err != nil {
		t.Error(err)
	}
	if err := e.history.catchUp(); err != nil {
		t.Error(err)
	}
	e.check()
	if t.Failed() {
		e.keep()
	}
}

// wanted is how many changes there are to be: one by each means, which makes more than 50 on all
// stores. FLOCKD_ELECTIONS is another number for all of them.
func (e *election) wanted(t *testing.T) int {
	text := os.Getenv("FLOCKD_ELECTIONS")
	if text == "" {
		return len(e.means())
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return (n + len(grounds) - 1) / len(grounds)
}
