package runner

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"flockd/backends"
	"flockd/backends/mem"
)

// kept is a keeper over a store, started at the beginning of a bubble.
type kept struct {
	*keeper
	clock *since
	end   func()
}

func keepMinute(t *testing.T, b backends.Backend) kept { return keepFor(t, b, time.Minute) }

func keepFor(t *testing.T, b backends.Backend, ttl time.Duration, change ...func(*keeper)) kept {
	t.Helper()
	clock := newClock()
	req := request("us")
	req.TTL = ttl
	l, err := b.Acquire(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	timing, err := NewTiming(ttl, DefaultGrace)
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{backend: b, lease: l, grace: DefaultGrace, clock: clock.now, tick: tick, log: quiet, guard: unguarded}
	for _, f := range change {
		f(k)
	}
	end := keep(t.Context(), k, timing, 0)
	t.Cleanup(end)
	return kept{k, clock, end}
}

func TestKeeperRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		k := keepMinute(t, b)
		time.Sleep(24 * time.Hour)
		if err := k.standing(); err != nil || len(k.stops) != 0 {
			t.Errorf("after a day: %v, %d stops", err, len(k.stops))
		}
		if got := holders(t, b); !slices.Equal(got, []string{"us"}) {
			t.Errorf("the store has %v", got)
		}
	})
}

func TestKeeperStopsInTimeWhenTheStoreIsOut(t *testing.T) {
	for name, renew := range map[string]func(t *testing.T) func(context.Context, backends.Lease) (backends.Renewal, error){
		"errors": func(*testing.T) func(context.Context, backends.Lease) (backends.Renewal, error) {
			return func(context.Context, backends.Lease) (backends.Renewal, error) {
				return backends.Renewal{}, errors.New("connection refused")
			}
		},
		"refuses": func(*testing.T) func(context.Context, backends.Lease) (backends.Renewal, error) {
			return func(context.Context, backends.Lease) (backends.Renewal, error) {
				return backends.Renewal{}, backends.Refuse("", "no permission")
			}
		},
		"hangs": func(t *testing.T) func(context.Context, backends.Lease) (backends.Renewal, error) {
			hang := deaf(t)
			return func(context.Context, backends.Lease) (backends.Renewal, error) {
				hang(never)
				return backends.Renewal{TTL: time.Minute}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := keepMinute(t, &faulty{Backend: mem.New(), renew: renew(t)})
				s := <-k.stops
				if at := k.clock.now(); at != minuteTerm || s.kill != minuteKill || !errors.Is(s.why, ErrExpiring) {
					t.Errorf("told at %v: %+v", at, s)
				}
				var lost *LostError
				if !errors.As(s.why, &lost) || !errors.Is(s.why, backends.ErrLost) || lost.Key != "k" || lost.Token == 0 {
					t.Errorf("cause = %#v", s.why)
				}
				if !errors.Is(k.standing(), ErrExpiring) {
					t.Errorf("standing = %v", k.standing())
				}
			})
		})
	}
}

func TestKeeperStopsAtOnceByTheStoresWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		asked := 0
		k := keepMinute(t, &faulty{Backend: b, renew: func(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
			asked++
			return b.Renew(ctx, l)
		}})
		if err := b.Ask(t.Context(), "k", "us", backends.Notice{Kind: backends.Break, Force: true}); err != nil {
			t.Fatal(err)
		}
		s := <-k.stops
		if at := k.clock.now(); at > 20*sec || s.kill != at+2*sec || !errors.Is(s.why, backends.ErrLost) {
			t.Errorf("told at %v: %+v", at, s)
		}
		time.Sleep(time.Hour)
		if asked != 1 || k.left() != 0 {
			t.Errorf("asked %d times, %v left", asked, k.left())
		}
	})
}

// TestKeeperBringsAStopForwardWhenItsLeaseRunsOut: a holder of a short lease that was asked to
// stop has its whole grace, unless the store is silent from then on.
func TestKeeperBringsAStopForwardWhenItsLeaseRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, told := mem.New(), &deadlines{}
		var out atomic.Bool
		k := keepFor(t, &faulty{Backend: b, renew: func(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
			if out.Load() {
				return backends.Renewal{}, errors.New("connection refused")
			}
			return b.Renew(ctx, l)
		}}, 9*sec, func(k *keeper) { k.guard = told })
		if err := b.Ask(t.Context(), "k", "us", backends.Notice{Kind: backends.Resign}); err != nil {
			t.Fatal(err)
		}
		asked := <-k.stops
		out.Store(true)
		lease := k.read()
		if left := asked.kill - k.clock.now(); !WasAsked(asked.why) || left != defaultKillAfter {
			t.Errorf("told %+v, in %v", asked, left)
		}
		if s := <-k.stops; s != (stop{lease.sent + lease.timing.Kill, s.why}) || !errors.Is(s.why, ErrExpiring) || s.kill >= asked.kill {
			t.Errorf("told %+v, then %+v; the lease is %+v", asked, s, lease)
		}
		if latest := told.latest.Load(); latest != int64(lease.sent+lease.timing.Kill) {
			t.Errorf("the guard was told of %v", time.Duration(latest))
		}
	})
}

// deadlines keeps the latest deadline that a guard was told.
type deadlines struct{ latest atomic.Int64 }

func (d *deadlines) deadline(kill time.Duration) { d.latest.Store(max(d.latest.Load(), int64(kill))) }

func TestKeeperPassesANoticeOnAndRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		k := keepMinute(t, b)
		if err := b.Ask(t.Context(), "k", "us", backends.Notice{Kind: backends.Resign, By: backends.Owner{User: "root", Host: "web2"}, Reason: "deploy"}); err != nil {
			t.Fatal(err)
		}
		s := <-k.stops
		var lost *LostError
		if !errors.As(s.why, &lost) || lost.Notice.Kind != backends.Resign || lost.Error() != "asked to resign by root@web2: deploy" {
			t.Errorf("told %+v", s)
		}
		if at := k.clock.now(); at > 20*sec || s.kill != at+10*sec {
			t.Errorf("told at %v: %+v", at, s)
		}
		time.Sleep(time.Hour) // a tree that can't be killed
		if err := k.standing(); err != nil || len(k.stops) != 0 {
			t.Errorf("after an hour: %v, %d more stops", err, len(k.stops))
		}
	})
}

// hinting is a store that says when a hold has something to hear.
type hinting struct {
	faulty
	watch func(context.Context) error
}

func (h *hinting) Watch(ctx context.Context, _ backends.Lease) error { return h.watch(ctx) }

func TestKeeperFollowsAHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		removed := make(chan struct{})
		k := keepMinute(t, &hinting{faulty{Backend: b}, func(ctx context.Context) error {
			select {
			case <-removed:
				removed = nil
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}})
		time.Sleep(sec)
		if err := b.Ask(t.Context(), "k", "us", backends.Notice{Kind: backends.Break, Force: true}); err != nil {
			t.Fatal(err)
		}
		close(removed)
		s := <-k.stops
		if at := k.clock.now(); at != sec || !errors.Is(s.why, backends.ErrLost) {
			t.Errorf("told at %v: %+v", at, s)
		}
	})
}

// A renewal in flight may have been answered before what the hint is about.
func TestKeeperAsksAgainAfterAHintWhileAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		asked, hint := make(chan time.Duration, 10), make(chan struct{}, 10)
		clock, hang := newClock(), deaf(t)
		keepMinute(t, &hinting{faulty{Backend: b, renew: func(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
			asked <- clock.now()
			hint <- struct{}{}
			hang(sec)
			return b.Renew(ctx, l)
		}}, func(ctx context.Context) error {
			select {
			case <-hint:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}})
		first, second := <-asked, <-asked
		if second-first != sec {
			t.Errorf("asked at %v and %v, want the second as soon as the first was answered", first, second)
		}
	})
}

// Hints for nothing, and a store that can't watch, cost one more question in
// watchFloorMax, and a dozen until the pause between them has grown to that. The renewals
// of a minute's lease are 18 to 20 s apart.
func TestKeeperIsNotDrivenByHints(t *testing.T) {
	for name, hint := range map[string]error{"hints for nothing": nil, "can't watch": errors.New("unknown service")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := mem.New()
				asked, looked := 0, 0
				keepMinute(t, &hinting{faulty{Backend: b, renew: func(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
					asked++
					return b.Renew(ctx, l)
				}}, func(context.Context) error { looked++; return hint }})
				time.Sleep(time.Hour)
				synctest.Wait()
				extra := int(time.Hour/watchFloorMax) + 12
				if asked < 180 || asked > 200+extra || looked > extra {
					t.Errorf("renewed %d times in an hour, watched %d times", asked, looked)
				}
			})
		})
	}
}

// Two full attempts that hang fit between the first renewal and TERM, and the
// third answer, if there is time for one, or the second, if that comes just
// within its limit, keeps the hold.
func TestKeeperOutlivesAHungAttempt(t *testing.T) {
	for _, ttl := range ttls() {
		synctest.Test(t, func(t *testing.T) {
			b := mem.New()
			hang := deaf(t)
			timing, _ := NewTiming(ttl, DefaultGrace)
			var asked atomic.Int64
			k := keepFor(t, &faulty{Backend: b, renew: func(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
				switch asked.Add(1) {
				case 1:
					hang(never)
				case 2:
					hang(timing.Attempt - time.Microsecond)
				}
				return b.Renew(context.WithoutCancel(ctx), l)
			}}, ttl)
			time.Sleep(timing.Term)
			synctest.Wait()
			if err := k.standing(); err != nil || len(k.stops) != 0 || asked.Load() < 2 {
				t.Errorf("TTL %v: %v, %d stops, asked %d times", ttl, err, len(k.stops), asked.Load())
			}
		})
	}
}

func TestKeeperNoticesSuspendWithinATick(t *testing.T) {
	for name, asking := range map[string]bool{"at rest": false, "while a renewal hangs": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := mem.New()
				hang := deaf(t)
				var after atomic.Bool
				var renewed atomic.Int64
				k := keepMinute(t, &faulty{Backend: b, renew: func(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
					if asking && !after.Load() {
						hang(never)
					}
					renewed.Add(1)
					return b.Renew(ctx, l)
				}})
				at := 5 * sec
				if asking {
					at = 21 * sec
				}
				time.Sleep(at)
				after.Store(true)
				k.clock.sleep(time.Hour)
				s := <-k.stops
				if got := time.Since(k.clock.start) - at; got > tick {
					t.Errorf("noticed after %v", got)
				}
				if renewed.Load() != 0 {
					t.Error("renewed before the stop was told")
				}
				if s.kill > k.clock.now() || !errors.Is(s.why, ErrExpiring) {
					t.Errorf("told %+v at %v", s, k.clock.now())
				}
				time.Sleep(time.Minute) // and goes on renewing
				if renewed.Load() == 0 && !asking {
					t.Error("not renewed while the tree is killed")
				}
			})
		})
	}
}

func TestKeeperIgnoresALateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := deaf(t)
		k := keepMinute(t, &faulty{Backend: mem.New(), renew: func(context.Context, backends.Lease) (backends.Renewal, error) {
			slow(20 * sec)
			return backends.Renewal{TTL: time.Minute}, nil
		}})
		<-k.stops
		if at := k.clock.now(); at != minuteTerm {
			t.Errorf("told at %v", at)
		}
	})
}

func TestKeeperCountsFromTheSendTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		asked := 0
		var sent time.Duration
		clock := newClock() // reads the same as the keeper's
		k := keepMinute(t, &faulty{Backend: b, renew: func(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
			if asked++; asked > 1 {
				return backends.Renewal{}, errors.New("down")
			}
			sent = clock.now()
			time.Sleep(7 * sec) // the answer takes its time
			return b.Renew(ctx, l)
		}})
		s := <-k.stops
		if at := k.clock.now(); at != sent+minuteTerm || s.kill != sent+minuteKill {
			t.Errorf("sent at %v, told at %v to be killed at %v", sent, at, s.kill)
		}
	})
}

func TestKeeperFollowsAnotherTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		asked := 0
		var sent time.Duration
		clock := newClock() // reads the same as the keeper's
		k := keepMinute(t, &faulty{Backend: b, renew: func(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
			if asked++; asked > 1 {
				return backends.Renewal{}, errors.New("down")
			}
			sent = clock.now()
			return backends.Renewal{TTL: 10 * sec}, nil
		}})
		s := <-k.stops
		if at := k.clock.now(); at != sent+7150*time.Millisecond || s.kill != sent+9650*time.Millisecond {
			t.Errorf("sent at %v, told at %v to be killed at %v", sent, at, s.kill)
		}
	})
}

// A grace that the new TTL doesn't bear gives way, so that renewals keep their room.
func TestKeeperShortensTheGraceForAShorterTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		clock := newClock()
		asked := 0
		var sent time.Duration
		f := &faulty{Backend: b, renew: func(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
			if asked++; asked > 1 {
				return backends.Renewal{}, errors.New("down")
			}
			sent = clock.now()
			return backends.Renewal{TTL: 10 * sec}, nil
		}}
		timing, err := NewTiming(time.Minute, 20*sec)
		if err != nil {
			t.Fatal(err)
		}
		k := &keeper{backend: f, lease: hold(t, b, "us"), grace: 20 * sec, clock: clock.now, tick: never, log: quiet, guard: unguarded}
		defer keep(t.Context(), k, timing, 0)()
		s := <-k.stops // 10 s bear 9.9 − 3.333 − 2.5 − 0.25 − 0.25 = 3.567 s
		if at := (clock.now() - sent).Truncate(time.Millisecond); at != 6083*time.Millisecond || s.kill != sent+9650*time.Millisecond {
			t.Errorf("told after %v to be killed at %v, sent at %v", at, s.kill, sent)
		}
	})
}

func TestKeeperSaysOnceThatRenewalsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		asked := 0
		var log records
		clock := newClock()
		f := &faulty{Backend: b, renew: func(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
			if asked++; asked <= 5 {
				return backends.Renewal{}, errors.New("reset by peer")
			}
			return b.Renew(ctx, l)
		}}
		timing, _ := NewTiming(time.Minute, DefaultGrace)
		k := &keeper{backend: f, lease: hold(t, b, "us"), grace: DefaultGrace, clock: clock.now, tick: never, log: log.logger(), guard: unguarded}
		end := keep(t.Context(), k, timing, 0)
		time.Sleep(10 * time.Minute)
		if err := k.standing(); err != nil {
			t.Error(err)
		}
		end()
		for text, want := range map[string]int{`level=WARN msg="renewal failed"`: 1, `level=DEBUG msg="renewal failed"`: 4, `level=INFO msg="renewed again"`: 1, "left=": 5} {
			if got := log.count(text); got != want {
				t.Errorf("%q is logged %d times, want %d:\n%s", text, got, want, log.String())
			}
		}
	})
}

func TestEndOfTheKeeperIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log records
		clock := newClock()
		b := mem.New()
		f := &faulty{Backend: b, renew: func(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
			<-ctx.Done()
			return backends.Renewal{}, ctx.Err()
		}}
		timing, _ := NewTiming(time.Minute, DefaultGrace)
		k := &keeper{backend: f, lease: hold(t, b, "us"), grace: DefaultGrace, clock: clock.now, tick: never, log: log.logger(), guard: unguarded}
		end := keep(t.Context(), k, timing, 0)
		time.Sleep(21 * sec)
		end()
		if log.Len() != 0 {
			t.Error(log.String())
		}
	})
}
