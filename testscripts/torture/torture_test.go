package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/all"
	"flockd/testscripts/torture/trace"
)

// store is what the arena is built on.
type store struct {
	name   string
	ways   []string // URLs that lead to it
	direct string   // one that no fault is on
	faults []fault
	heal   func() // what a fault may have left; may be nil
}

// lastsFor is how long faults are applied for: with what comes after, a store takes a
// minute. FLOCKD_TORTURE is another time.
func lastsFor(t *testing.T) time.Duration {
	text := os.Getenv("FLOCKD_TORTURE")
	if text == "" {
		return 40 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// seedOf is drawn, unless FLOCKD_TORTURE_SEED names one. The same seed gives the
// same faults in the same order; what they hit depends on the host's scheduling too.
func seedOf(t testing.TB) uint64 {
	text := os.Getenv("FLOCKD_TORTURE_SEED")
	if text == "" {
		return rand.Uint64() >> 32
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

// storm has flocks of contenders fight for the keys of a store, under faults, for a
// while. When it returns nobody fights any more.
func (a *arena) storm(ctx context.Context) {
	var faults, fights sync.WaitGroup
	for n := range contenders {
		fights.Go(func() { a.contend(ctx, a.random(uint64(n))) })
	}
	for n, list := range [][]fault{a.processFaults(), a.processFaults(), a.store.faults} {
		faults.Go(func() { a.torment(ctx, a.random(1000+uint64(n)), list) })
	}
	faults.Wait()
	if a.store.heal != nil {
		a.store.heal()
	}
	fights.Wait()
}

// place is how long a waiter that died is in the way.
const place = 15 * time.Second

// serve wants everybody to be served now that all is well: nobody is in line any
// more but the dead, and not for longer than their time.
func (a *arena) serve(ctx context.Context) {
	var all sync.WaitGroup
	for _, key := range a.recent() {
		all.Go(func() {
			if e := a.run(a.store.direct, key, "", "5ms", "--wait", "30s", "--ttl", "4s"); e.code != 0 {
				a.t.Errorf("%q isn't served after all faults: %d: %s", key, e.code, e.stderr)
			}
		})
	}
	all.Wait()
	if err := a.empty(ctx); err != nil {
		a.t.Error(err)
	}
}

// recent are the keys that somebody was after lately.
func (a *arena) recent() (found []string) {
	since := trace.Now() - int64(2*place)
	for _, r := range a.history.all() {
		if r.At > since && !slices.Contains(found, r.Key) {
			found = append(found, r.Key)
		}
	}
	return found
}

// empty wants all lines to become empty by themselves.
func (a *arena) empty(ctx context.Context) error {
	u, err := backends.ParseURL(a.store.direct)
	if err != nil {
		return err
	}
	b, err := all.Open(ctx, u)
	if err != nil {
		return err
	}
	defer b.Close()
	for end := time.Now().Add(place + 5*time.Second); ; lasts(ctx, 200*time.Millisecond) {
		var left []string
		for status, err := range b.List(ctx, "") {
			if err != nil {
				return err
			}
			if len(status.Line) > 0 {
				left = append(left, fmt.Sprintf("%s: %+v", status.Key, status.Line))
			}
		}
		switch {
		case len(left) == 0:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("left in line past its time, as of %v: %s", time.Now(), strings.Join(left, "; "))
		}
	}
}

// check judges all that was seen.
func (a *arena) check() {
	if err := a.history.catchUp(); err != nil {
		a.t.Error(err)
	}
	requests := a.history.all()
	lives, ops := livesOf(requests), operations(requests)
	spans, err := spansIn(a.folder)
	closest, err2 := checkDeadlines(spans, lives)
	for _, err := range []error{
		err, err2, checkOracle(a.folder), checkSpans(spans), checkTokens(grantsOf(lives)), checkModel(ops), a.checkExits(lives, spans),
	} {
		if err != nil {
			a.t.Error(err)
		}
	}
	a.t.Log(a.summary(lives, len(ops), closest))
	if a.t.Failed() {
		a.keep()
	}
}
