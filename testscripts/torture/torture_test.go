//go:build linux

package torture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
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

// TestTorture has many real flockd fight for the keys of each store while all goes
// wrong that can, and judges what they did by three standards. All stores are at it at
// the same time, however few processors there are: most of it is waiting.
func TestTorture(t *testing.T) {
	storming.Add(1) // before those that are parallel go on
	t.Parallel()
	var storms sync.WaitGroup
	for _, row := range rows {
		if !row.long || givenTime() {
			storming.Add(1)
			calm := sync.OnceFunc(storming.Done)
			storms.Go(func() {
				defer calm()
				t.Run(row.name, func(t *testing.T) { torture(t, row.make(t), lastsFor(t)/time.Duration(row.part), calm) })
			})
		}
	}
	storming.Done()
	storms.Wait()
}

// storming are the storms that are not over. Other tests wait for them, though not for
// what follows, which is mostly waiting.
var storming sync.WaitGroup

// torture is a storm over a store, which it tells the end of, and what must hold during
// and after it.
func torture(t *testing.T, s *store, d time.Duration, calm func()) {
	a := newArena(t, s, flockd(t), seedOf(t))
	t.Logf("FLOCKD_TORTURE_SEED=%d", a.seed)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { defer cancel(); a.last(ctx, d) }()
	a.storm(ctx)
	calm()
	if err := a.history.catchUp(); err != nil {
		t.Error(err)
	}
	a.serve(t.Context())
	a.check()
}

// last waits until a storm has lasted for d, and on a busy host for up to two minutes more,
// until it has shown enough.
func (a *arena) last(ctx context.Context, d time.Duration) {
	end := time.Now().Add(d + 2*time.Minute)
	for lasts(ctx, d); ctx.Err() == nil && time.Now().Before(end); lasts(ctx, time.Second) {
		if lives, spans, heirs, _ := a.seen(); len(a.lacks(lives, spans, heirs)) == 0 {
			return
		}
	}
}

// seen is what has happened so far.
func (a *arena) seen() (lives map[string]*life, spans []*span, heirs inheritance, _ error) {
	err := a.history.catchUp()
	lives = livesOf(a.history.all())
	spans, err2 := spansIn(a.folder)
	return lives, spans, inherit(a.ends(), spans, lives), errors.Join(err, err2)
}

func givenTime() bool { return os.Getenv("FLOCKD_TORTURE") != "" }

// lastsFor is how long faults are applied for: with what comes after, a store takes some
// 50 s. FLOCKD_TORTURE is another time.
func lastsFor(t *testing.T) time.Duration {
	if !givenTime() {
		return 30 * time.Second
	}
	d, err := time.ParseDuration(os.Getenv("FLOCKD_TORTURE"))
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
		fights.Go(func() { a.contend(ctx, a.random(uint64(n)), n%2 == 0) })
	}
	for n, list := range append(a.processFaults(), a.store.faults...) {
		faults.Go(func() { a.torment(ctx, a.random(1000+uint64(n)), list) })
	}
	faults.Wait()
	a.settle(&fights)
}

// settled is how long those that fight may take to end by themselves once all is well: those of
// one key work for 6 s each, after the leases and the places of the dead, and the rest is for a
// busy host.
const settled = 2 * time.Minute

// settle returns when nobody fights any more. Who doesn't come to an end is shown, and killed.
func (a *arena) settle(fights *sync.WaitGroup) {
	ended := make(chan struct{})
	go func() { defer close(ended); fights.Wait() }()
	for {
		select {
		case <-ended:
			return
		case <-time.After(settled):
			a.t.Errorf("still there %v after all faults: %s", settled, a.standing())
			for _, j := range a.running() {
				a.killOff(j)
			}
		}
	}
}

// standing tells of all that runs where it stands, and what it has said and asked.
func (a *arena) standing() string {
	var text strings.Builder
	for pid, line := range a.left() {
		stat, _ := os.ReadFile(of(pid, "stat"))
		channel, _ := os.ReadFile(of(pid, "wchan"))
		fmt.Fprintf(&text, "%q in %s: %s", line, channel, stat)
	}
	for _, j := range a.running() {
		said, _ := os.ReadFile(j.stderr)
		fmt.Fprintf(&text, "%d for %q said:\n%s", j.session, j.key, said)
		for _, r := range a.history.of(int(j.session), j.began) {
			fmt.Fprintf(&text, "%+v: %+v\n", r.Event, r.answer)
		}
	}
	return text.String()
}

// place is how long a waiter that died is in the way.
const place = 15 * time.Second

// serve wants everybody to be served now that all is well: nobody is in line any
// more but the dead, and not for longer than their time.
func (a *arena) serve(ctx context.Context) {
	var all sync.WaitGroup
	for _, key := range a.recent() {
		all.Go(func() {
			if e := a.run(&job{key: key}, a.store.direct, "5ms", "--wait", (2 * place).String(), "--ttl", "4s"); e.code != 0 {
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

// empty wants all lines to become empty by themselves, within the time of a place and
// 5 s that a busy host may take.
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

// checkGone wants no process to be left, neither of a command nor of flockd, once all
// lines are empty: within 10 s, for those that still ask a store that failed.
func (a *arena) checkGone() error {
	for end := time.Now().Add(10 * time.Second); ; lasts(a.t.Context(), 100*time.Millisecond) {
		left := a.left()
		switch {
		case len(left) == 0:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("still there: %q", slices.Collect(maps.Values(left)))
		}
	}
}

// left are the processes that speak of the arena's folder, and their command lines.
func (a *arena) left() map[int]string {
	left := map[int]string{}
	for _, pid := range processes() {
		line, _ := os.ReadFile(of(pid, "cmdline"))
		env, _ := os.ReadFile(of(pid, "environ"))
		if bytes.Contains(line, []byte(a.folder)) || bytes.Contains(env, []byte(a.folder)) {
			left[pid] = string(line)
		}
	}
	return left
}

// check judges all that was seen.
func (a *arena) check() {
	lives, spans, heirs, err := a.seen()
	ops := operations(exclusive(a.history.all()))
	closest, err2 := checkDeadlines(spans, lives)
	errs := []error{
		err, err2, checkTokens(grantsOf(lives)), checkReleases(spans, lives), heirs.check(), a.checkExits(lives, spans), a.checkGone(),
	}
	if !a.store.forgets {
		errs = append(errs, checkOracle(a.folder), checkSpans(spans), checkModel(ops))
	}
	for _, err := range errs {
		if err != nil {
			a.t.Error(err)
		}
	}
	if lacks := a.lacks(lives, spans, heirs); len(lacks) > 0 {
		a.t.Errorf("too few to show anything: %s", strings.Join(lacks, ", "))
	}
	a.t.Log(a.summary(lives, spans, heirs, len(ops), closest))
	if a.t.Failed() {
		a.keep()
	}
}
