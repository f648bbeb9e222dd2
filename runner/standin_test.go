package runner

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"flockd/backends"
	"flockd/backends/mem"
	"flockd/runner/guard"
)

// counted is a store that counts renewals.
func counted(b backends.Backend) (*faulty, *atomic.Int32) {
	var n atomic.Int32
	return &faulty{Backend: b, renew: func(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
		n.Add(1)
		return b.Renew(ctx, l)
	}}, &n
}

func TestKeeperStandsStillWhileAnotherRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, n := counted(mem.New())
		k := keepMinute(t, f)
		back := k.yield()
		lease := k.lease
		for range 60 {
			time.Sleep(time.Minute / 2)
			if _, err := f.Backend.Renew(t.Context(), lease); err != nil {
				t.Fatal(err)
			}
		}
		if n.Load() != 0 {
			t.Errorf("it has renewed %d times", n.Load())
		}
		back(report{Sent: k.clock.now() - sec, TTL: time.Minute})
		synctest.Wait()
		if err := k.standing(); err != nil || n.Load() != 1 || len(k.stops) != 0 {
			t.Errorf("%v, %d renewals, %d stops", err, n.Load(), len(k.stops))
		}
		time.Sleep(time.Hour)
		if err := k.standing(); err != nil {
			t.Error(err)
		}
	})
}

// Where nobody has renewed in time, the command is stopped before anything is asked.
func TestKeeperWhoseStandInHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, n := counted(mem.New())
		k := keepMinute(t, f)
		back := k.yield()
		time.Sleep(minuteTerm)
		back(report{})
		if s := <-k.stops; s.kill != minuteKill || n.Load() != 0 {
			t.Errorf("%+v after %d renewals", s, n.Load())
		}
	})
}

func TestKeeperHearsOfAnotherTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := counted(mem.New())
		f.renew = func(context.Context, backends.Lease) (backends.Renewal, error) {
			return backends.Renewal{TTL: 10 * sec}, nil
		}
		k := keepMinute(t, f)
		back := k.yield()
		sent := k.clock.now()
		back(report{Sent: sent, TTL: 10 * sec})
		synctest.Wait()
		if got := k.read(); got.timing.Trusted != 10*sec || got.ttl != 10*sec {
			t.Errorf("%+v", got)
		}
	})
}

// standing is a stand-in at work in a bubble.
type stoodIn struct {
	*standIn
	released chan struct{}
	ready    chan struct{}
	said     chan report
}

func standInFor(t *testing.T, b backends.Backend, halted *atomic.Bool) stoodIn {
	t.Helper()
	clock := newClock()
	timing, err := NewTiming(time.Minute, DefaultGrace)
	if err != nil {
		t.Fatal(err)
	}
	d := duty{Kept: true, Lease: hold(t, b, "us"), TTL: time.Minute, Timing: timing, Grace: DefaultGrace, Orders: guard.Orders{Kill: minuteKill}}
	s := stoodIn{newStandIn(d, b, clock.now), make(chan struct{}), make(chan struct{}), make(chan report, 1)}
	s.standIn.halted = func(int) bool { return halted.Load() }
	go func() { s.said <- s.run(s.released, func() { close(s.ready) }) }()
	return s
}

func TestStandInRenewsAtOnceAndThenOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var halted atomic.Bool
		halted.Store(true)
		s := standInFor(t, mem.New(), &halted)
		<-s.ready
		if now := s.clock(); now != 0 {
			t.Errorf("ready after %v", now)
		}
		time.Sleep(time.Hour)
		close(s.released)
		said := <-s.said
		if age := s.clock() - said.Sent; age > 20*sec || said.Kill != said.Sent+minuteKill || said.TTL != time.Minute || said.Acted || said.Woken {
			t.Errorf("%v old: %+v", age, said)
		}
	})
}

func TestStandInWakesFlockd(t *testing.T) {
	for name, happens := range map[string]func(b *mem.Store, halted *atomic.Bool) error{
		"the command goes on": func(_ *mem.Store, halted *atomic.Bool) error { halted.Store(false); return nil },
		"the hold is removed": func(b *mem.Store, _ *atomic.Bool) error {
			return b.Ask(context.Background(), "k", "us", backends.Notice{Kind: backends.Break})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := mem.New()
				var halted atomic.Bool
				halted.Store(true)
				s := standInFor(t, b, &halted)
				<-s.ready
				time.Sleep(10 * time.Minute)
				before := s.clock()
				if err := happens(b, &halted); err != nil {
					t.Fatal(err)
				}
				if said := <-s.said; !said.Woken || s.clock()-before > 20*sec {
					t.Errorf("after %v: %+v", s.clock()-before, said)
				}
			})
		})
	}
}

// A store that doesn't answer any more is what flockd has to be woken for in time: it
// gives the command its grace.
func TestStandInWakesFlockdBeforeTheLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		silent := deaf(t)
		f := &faulty{Backend: b, renew: func(context.Context, backends.Lease) (backends.Renewal, error) {
			silent(time.Hour)
			return backends.Renewal{}, context.DeadlineExceeded
		}}
		var halted atomic.Bool
		halted.Store(true)
		s := standInFor(t, f, &halted)
		if said := <-s.said; !said.Woken || s.clock() != minuteTerm || said.Kill != minuteKill || said.Sent != 0 {
			t.Errorf("after %v: %+v", s.clock(), said)
		}
	})
}
