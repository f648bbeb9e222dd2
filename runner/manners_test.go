package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"flockd/backends"
	"flockd/backends/mem"
)

// stands gives id a place in line.
func stands(t *testing.T, b backends.Backend, id string, mode backends.Mode) {
	t.Helper()
	r := request(id)
	r.Mode, r.Place = mode, time.Hour
	if _, err := b.Acquire(t.Context(), r); !errors.Is(err, backends.ErrHeld) {
		t.Fatalf("%s: %v", id, err)
	}
}

var operator = backends.Owner{User: "ops", Host: "desk", PID: 7, Command: "flockd"}

// breakIt asks the claim id to stop, or removes it.
func breakIt(t *testing.T, b backends.Backend, id string, force bool) {
	err := b.Ask(context.Background(), "k", id, backends.Notice{Kind: backends.Break, By: operator, Reason: "stuck", Force: force})
	if err != nil {
		t.Error(err)
	}
}

func TestCrowdedLineIsLeft(t *testing.T) {
	for _, tc := range []struct {
		most, inLine int
		stays        bool
	}{
		{0, 3, true}, {4, 3, true}, {3, 3, false}, {1, 3, false}, {1, 0, true}, {Nobody, 0, false}, {Nobody, 3, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := mem.New()
			hold(t, b, "other")
			for i := range tc.inLine {
				stands(t, b, fmt.Sprint("w", i), backends.Exclusive)
			}
			clock, o := newClock(), waitFor(b, sec)
			o.MaxWaiters = tc.most
			_, r := acquire(t.Context(), o, clock.now)
			if r.Class != Skipped || r.Held == nil || (clock.now() > 0) != tc.stays || len(holders(t, b)) != 1+tc.inLine {
				t.Errorf("%+v: got %+v after %v, left %v", tc, r, clock.now(), holders(t, b))
			}
		})
	}
}

// Of those that come at once as many stay as may, and these are the first.
func TestCrowdThatComesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		hold(t, b, "other")
		var mu sync.Mutex
		var stayed []string
		var wg sync.WaitGroup
		for i := range 10 {
			time.Sleep(time.Microsecond)
			wg.Go(func() {
				o := waitFor(b, sec)
				o.Request.ID, o.MaxWaiters = fmt.Sprint("w", i), 3
				clock := newClock()
				if acquire(t.Context(), o, clock.now); clock.now() > 0 {
					mu.Lock()
					stayed = append(stayed, o.Request.ID)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if slices.Sort(stayed); !slices.Equal(stayed, []string{"w0", "w1", "w2"}) {
			t.Errorf("%v stayed", stayed)
		}
	})
}

// The newest waiter takes the place of the others, who say by whom, and leaves the
// holder alone.
func TestSupersede(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		lease := hold(t, b, "other")
		asked := 0
		f := &faulty{Backend: b, ask: func(ctx context.Context, key, id string, n backends.Notice) error {
			asked++
			return b.Ask(ctx, key, id, n)
		}}
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				o := waitFor(f, time.Minute)
				o.Request.ID, o.Request.Owner.PID, o.Supersede = fmt.Sprint("w", i), 100+i, true
				clock := newClock()
				g, r := acquire(t.Context(), o, clock.now)
				switch {
				case i < 4 && (r.Class != Skipped || r.Held.Notice.Kind != backends.Supersede || r.Held.Notice.By.PID != 101+i || clock.now() != sec):
					t.Errorf("%d: got %+v after %v", i, r, clock.now())
				case i == 4 && (r.Class != "" || g.sent != 6*sec):
					t.Errorf("the newest: %+v, granted at %v", r, g.sent)
				}
			})
			time.Sleep(sec)
		}
		if r, err := b.Renew(t.Context(), lease); err != nil || r.Notice != (backends.Notice{}) {
			t.Errorf("the holder hears %+v, %v", r, err)
		}
		time.Sleep(5 * sec)
		b.Release(t.Context(), "k", "other", backends.Outcome{})
		wg.Wait()
		if asked != 4 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// A dead waiter is asked once, and so is one that is granted the key just then.
func TestSupersededOnceEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		hold(t, b, "other")
		stands(t, b, "dead", backends.Exclusive)
		stands(t, b, "gone", backends.Exclusive)
		var asked []string
		f := &faulty{Backend: b, ask: func(ctx context.Context, key, id string, n backends.Notice) error {
			asked = append(asked, id)
			if id == "gone" {
				return backends.ErrNotFound
			}
			return b.Ask(ctx, key, id, n)
		}}
		o := waitFor(f, 4*sec)
		o.Supersede = true
		if _, r := acquire(t.Context(), o, newClock().now); r.Class != Skipped || !slices.Equal(asked, []string{"dead", "gone"}) {
			t.Errorf("%+v, asked %v", r, asked)
		}
	})
}

func TestStoreThatRefusesToSupersede(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		b.Acquire(t.Context(), backends.Request{Key: "k", ID: "other", Mode: backends.Exclusive, TTL: time.Hour})
		stands(t, b, "older", backends.Exclusive)
		f := &faulty{Backend: b, ask: func(context.Context, string, string, backends.Notice) error {
			return backends.Refuse("", "no right")
		}}
		var log records
		o := waitFor(f, time.Minute)
		o.Supersede, o.Log = true, log.logger()
		clock := newClock()
		if _, r := acquire(t.Context(), o, clock.now); r.Class != Skipped || clock.now() != time.Minute || log.count("can't be asked") != 1 {
			t.Errorf("%+v after %v, said\n%s", r, clock.now(), log.String())
		}
	})
}

// Who is asked to leave the line, or whose place is removed, leaves at once, and runs nothing.
func TestPlaceThatIsBroken(t *testing.T) {
	for name, force := range map[string]bool{"asked": false, "removed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := mem.New()
				hold(t, b, "other")
				after(sec, func() { breakIt(t, b, "us", force) })
				o := Options{Backend: b, Wait: Forever, OnUnavailable: RunUnlocked, OnStart: func(backends.Lease) { t.Error("it runs") }}
				r, clock := runFake(t, o, newFake(), sec)
				if r.Class != Skipped || clock.now() != sec || !slices.Equal(holders(t, b), []string{"other"}) {
					t.Errorf("got %+v after %v, left %v", r, clock.now(), holders(t, b))
				}
				notice := removal(r.Err)
				if !force {
					notice = r.Held.Notice
				}
				if notice.By != operator || notice.Reason != "stuck" || notice.Force != force {
					t.Errorf("got %+v", r)
				}
			})
		})
	}
}

// Who was asked to leave while the store was out of its reach hears of it when its place
// has long ended.
func TestPlaceThatWasBrokenLongAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, clock := mem.New(), newClock()
		hold(t, b, "other")
		after(sec, func() { breakIt(t, b, "us", false) })
		f := &faulty{Backend: b, acquire: func(ctx context.Context, r backends.Request) (backends.Lease, error) {
			if at := clock.now(); at > 0 && at < 30*sec {
				return backends.Lease{}, errors.New("no route")
			}
			return b.Acquire(ctx, r)
		}}
		_, r := acquire(t.Context(), waitFor(f, Forever), clock.now)
		if n := removal(r.Err); r.Class != Skipped || n.By != operator || n.Reason != "stuck" || n.Force {
			t.Errorf("got %+v", r)
		}
	})
}

// Nobody is blamed for a claim that has run out.
func TestClaimThatHasRunOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		f := &faulty{Backend: mem.New(), acquire: func(context.Context, backends.Request) (backends.Lease, error) {
			if asked++; asked == 1 {
				return backends.Lease{}, errors.New("no answer")
			}
			return backends.Lease{}, backends.ErrLost
		}}
		if _, r := acquire(t.Context(), waitFor(f, Forever), newClock().now); r.Class != Skipped || r.Err != ErrLapsed {
			t.Errorf("got %+v", r)
		}
	})
}

// A wait that would never end is none, also where another stands between.
func TestOwnChainInEachMode(t *testing.T) {
	for name, tc := range map[string]struct {
		outer, between, inner backends.Mode
		want                  Class
	}{
		"shared in shared":                   {backends.Shared, "", backends.Shared, ""},
		"a waiting exclusive between":        {backends.Shared, backends.Exclusive, backends.Shared, Nested},
		"a waiting slot between":             {backends.Shared, backends.Slots, backends.Shared, Nested},
		"exclusive in shared":                {backends.Shared, "", backends.Exclusive, Nested},
		"shared in exclusive":                {backends.Exclusive, "", backends.Shared, Nested},
		"a slot in slots":                    {backends.Slots, "", backends.Slots, ""},
		"a slot in slots, between exclusive": {backends.Slots, backends.Exclusive, backends.Slots, Nested},
		"a slot in shared":                   {backends.Shared, "", backends.Slots, Nested},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := mem.New()
				ask := func(id string, mode backends.Mode) backends.Request {
					r := request(id)
					if r.Mode = mode; mode == backends.Slots {
						r.Slots = 2
					}
					return r
				}
				if _, err := b.Acquire(t.Context(), ask("outer", tc.outer)); err != nil {
					t.Fatal(err)
				}
				if tc.between != "" {
					r := ask("between", tc.between)
					r.Place = time.Hour
					b.Acquire(t.Context(), r)
				}
				o := waitFor(b, Forever)
				o.Request, o.Chain = ask("us", tc.inner), []string{"outer"}
				if _, r := acquire(t.Context(), o, newClock().now); r.Class != tc.want {
					t.Errorf("got %+v", r)
				}
			})
		})
	}
}

// One runs, and those who wait for the same run hear of its success at once, though the
// key cools for an hour.
func TestSingleFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				o := Options{Backend: b, Request: once(fmt.Sprint("r", i)), Wait: Forever}
				o.Request.MinHold = time.Hour
				r, clock := runFake(t, o, newFake(), 12*sec)
				want := Done
				if i == 0 {
					want = Finished
				}
				if r.Class != want || clock.now() > 12*sec {
					t.Errorf("%d: %+v after %v", i, r, clock.now())
				}
			})
			synctest.Wait()
		}
		wg.Wait()
	})
}

// Whoever has asked for the key, or freed it, is in the record of the run.
func TestBrokenRunSaysByWhom(t *testing.T) {
	for _, tc := range []struct {
		force  bool
		onLost OnLost
		class  string
		says   string
		after  time.Duration
	}{
		{false, Kill, "lost", "asked to stop by ops@desk: stuck", sec},
		{true, Kill, "broken", "broken by ops@desk: stuck", sec},
		{false, Warn, "lost", "asked to stop by ops@desk: stuck", time.Hour},
		{true, Warn, "broken", "broken by ops@desk: stuck", time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := mem.New()
			after(sec, func() { breakIt(t, b, "us", tc.force) })
			r, clock := runFake(t, Options{Backend: b, OnLost: tc.onLost}, newFake(syscall.SIGTERM), time.Hour)
			if r.Class != Lost || r.Err == nil || r.Err.Error() != tc.says || clock.now() != tc.after {
				t.Errorf("%+v: got %+v after %v", tc, r, clock.now())
			}
			s, _ := b.Inspect(t.Context(), "k")
			if s.Last == nil || s.Last.Class != tc.class || s.Last.Notice.By != operator || s.Last.Notice.Reason != "stuck" || len(s.Line) != 0 {
				t.Errorf("%+v: left %+v", tc, s.Last)
			}
		})
	}
}

// A notice for waiters isn't minded by a holder.
func TestHolderIsNotSuperseded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		f := &faulty{Backend: b, renew: func(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
			r, err := b.Renew(ctx, l)
			r.Notice = backends.Notice{Kind: backends.Supersede, By: operator}
			return r, err
		}}
		if r, clock := runFake(t, Options{Backend: f}, newFake(syscall.SIGTERM), time.Hour); r.Class != Finished || clock.now() != time.Hour {
			t.Errorf("got %+v after %v", r, clock.now())
		}
	})
}
