package runner

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"flockd/backends"
	"flockd/backends/mem"
	"flockd/runner/proof"
)

// renewals is a store that counts them, and does what it is told with each.
type renewals struct {
	faulty
	mu sync.Mutex
	n  int
}

func tallied(b *mem.Store, renew func(n int, renew func() (backends.Renewal, error)) (backends.Renewal, error)) *renewals {
	r := &renewals{}
	r.faulty = faulty{Backend: b, renew: func(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
		r.mu.Lock()
		r.n++
		n := r.n
		r.mu.Unlock()
		return renew(n, func() (backends.Renewal, error) { return b.Renew(ctx, l) })
	}}
	return r
}

func (r *renewals) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// ask asks a keeper as the socket does.
func (k kept) ask(least time.Duration) proof.Answer {
	q := proof.Question{Key: k.lease.Key, ID: k.lease.ID, Token: int64(k.lease.Token), Least: least}
	return k.answer(context.Background(), q, nil)
}

func (k kept) want(t *testing.T, state proof.State, why string) {
	t.Helper()
	if a := k.ask(0); a.State != state || a.Why != why {
		t.Errorf("got %+v, want %s: %s", a, state, why)
	}
}

func asIs(_ int, renew func() (backends.Renewal, error)) (backends.Renewal, error) { return renew() }

func breaks(t *testing.T, b *mem.Store, n backends.Notice) {
	t.Helper()
	n.Kind, n.By = backends.Break, backends.Owner{User: "root", Host: "web2"}
	if err := b.Ask(t.Context(), "k", "us", n); err != nil {
		t.Error(err)
	}
}

func TestProofIsARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		r := tallied(b, asIs)
		k := keepMinute(t, r)
		time.Sleep(sec)
		want := proof.Answer{State: proof.Held, Lasts: 59_400 * time.Millisecond, Monotonic: true, TTL: time.Minute}
		if a := k.ask(0); a != want || r.count() != 1 || k.clock.now() != sec {
			t.Errorf("%+v after %d renewals at %v", a, r.count(), k.clock.now())
		}
		if a := k.ask(54 * sec); a != want {
			t.Errorf("asked for what an answer that takes its time leaves: %+v", a)
		}
		want.Fits = 65 * sec
		if a := k.ask(59 * sec); a != want {
			t.Errorf("asked for what a late answer doesn't leave: %+v", a)
		}
		want.Never, want.Fits = true, 66*sec
		if a := k.ask(60 * sec); a != want {
			t.Errorf("asked for more than can be left: %+v", a)
		}
		if a := k.answer(t.Context(), proof.Question{Key: "k", ID: "us", Token: 7}, nil); a != (proof.Answer{State: proof.Other}) {
			t.Errorf("asked with another's token: %+v", a)
		}
		if r.count() != 4 {
			t.Errorf("%d renewals", r.count())
		}
		breaks(t, b, backends.Notice{Force: true, Reason: "burnt down"})
		k.want(t, proof.Lost, "broken by root@web2: burnt down")
		k.want(t, proof.Lost, "broken by root@web2: burnt down")
		if r.count() != 5 {
			t.Errorf("the store was asked again for a hold that is gone: %d renewals", r.count())
		}
	})
}

// What a renewal shows that was sent before the question is the past: here the hold is gone.
func TestProofIsNoRenewalInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		hang := deaf(t)
		r := tallied(b, func(n int, renew func() (backends.Renewal, error)) (backends.Renewal, error) {
			defer hang(2 * sec)
			return renew()
		})
		k := keepMinute(t, r)
		for r.count() == 0 {
			time.Sleep(sec)
		}
		synctest.Wait()
		breaks(t, b, backends.Notice{Force: true})
		k.want(t, proof.Lost, "broken by root@web2")
		if r.count() != 2 {
			t.Errorf("%d renewals", r.count())
		}
	})
}

// However many ask, they share what is sent after the last of them came.
func TestProofsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := deaf(t)
		r := tallied(mem.New(), func(_ int, renew func() (backends.Renewal, error)) (backends.Renewal, error) {
			hang(sec)
			return renew()
		})
		k := keepMinute(t, r)
		var all sync.WaitGroup
		for n := range 100 {
			all.Go(func() {
				time.Sleep(time.Duration(n) * 10 * time.Millisecond) // most while the first is in flight
				k.want(t, proof.Held, "")
			})
		}
		all.Wait()
		if n := r.count(); n != 2 {
			t.Errorf("%d renewals", n)
		}
	})
}

// Who asks without a pause doesn't drive the store.
func TestProofsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tallied(mem.New(), asIs)
		k := keepMinute(t, r)
		asked := 0
		for end := k.clock.now() + 10*sec; k.clock.now() < end && asked < 2000; asked++ {
			k.want(t, proof.Held, "")
		}
		if n := r.count(); n != asked || n > int(10*sec/proveFloor)+1 {
			t.Errorf("asked %d times, %d renewals in 10 s", asked, n)
		}
	})
}

// A store that can't be reached makes for an answer in time, and for nothing else: the old
// deadline stands, and is kept to the moment.
func TestProofWithoutAStore(t *testing.T) {
	for name, renew := range map[string]func(t *testing.T) func(int, func() (backends.Renewal, error)) (backends.Renewal, error){
		"errors": func(*testing.T) func(int, func() (backends.Renewal, error)) (backends.Renewal, error) {
			return func(int, func() (backends.Renewal, error)) (backends.Renewal, error) {
				return backends.Renewal{}, errors.New("connection refused")
			}
		},
		"hangs": func(t *testing.T) func(int, func() (backends.Renewal, error)) (backends.Renewal, error) {
			hang := deaf(t)
			return func(int, func() (backends.Renewal, error)) (backends.Renewal, error) {
				hang(never)
				return backends.Renewal{TTL: time.Minute}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := tallied(mem.New(), renew(t))
				k := keepMinute(t, r)
				time.Sleep(sec)
				for range 3 {
					began, a := k.clock.now(), k.ask(0)
					if a.State != proof.Unknown || a.Why == "" || k.clock.now()-began != proveWithin {
						t.Errorf("after %v: %+v", k.clock.now()-began, a)
					}
				}
				if most := 1 + int(3*proveWithin/proveAgainFloor); r.count() > most {
					t.Errorf("%d renewals, want %d at most", r.count(), most)
				}
				before := r.count()
				s := <-k.stops
				if at := k.clock.now(); at != minuteTerm || s.kill != minuteKill || !errors.Is(s.why, ErrExpiring) {
					t.Errorf("told at %v: %+v", at, s)
				}
				if n, most := r.count()-before, int(37*sec/(1500*time.Millisecond))+1; n > most {
					t.Errorf("%d renewals though nobody asked any more, want %d at most", n, most)
				}
				synctest.Wait()
				if a := k.ask(0); a.State != proof.Lost {
					t.Errorf("once the command is being stopped: %+v", a)
				}
			})
		})
	}
}

// A failure may pass: who asks gets the answer of the next attempt, which isn't put off.
func TestProofAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepFor(t, tallied(mem.New(), func(n int, renew func() (backends.Renewal, error)) (backends.Renewal, error) {
			if n == 1 {
				return backends.Renewal{}, errors.New("connection reset")
			}
			return renew()
		}), time.Hour)
		time.Sleep(sec)
		k.want(t, proof.Held, "")
		if at := k.clock.now(); at != sec+proveAgainFloor {
			t.Errorf("answered at %v", at)
		}
	})
}

// A command that is being stopped, or asked to stop, isn't told to go ahead, however often its
// lease is renewed.
func TestProofWhileStopping(t *testing.T) {
	const tooLong = "it has run for longer than 1h0m0s"
	for name, tc := range map[string]struct {
		stop  func(*testing.T, kept, *mem.Store)
		state proof.State
		why   string
	}{
		"notice":      {func(t *testing.T, _ kept, b *mem.Store) { breaks(t, b, backends.Notice{Reason: "deploy"}) }, proof.Stopping, "asked to stop by root@web2: deploy"},
		"max-runtime": {func(_ *testing.T, k kept, _ *mem.Store) { k.stopped(errors.New(tooLong)) }, proof.Stopping, tooLong},
		"paused":      {func(_ *testing.T, k kept, _ *mem.Store) { k.clock.sleep(50 * sec) }, proof.Lost, ErrExpiring.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := mem.New()
				k := keepMinute(t, b)
				time.Sleep(sec)
				tc.stop(t, k, b)
				k.want(t, tc.state, tc.why)
				time.Sleep(sec)
				k.want(t, tc.state, tc.why)
			})
		})
	}
}

// With --on-lost warn a lease that is renewed again is held as before; who is asked to stop
// is, all the same.
func TestProofAfterAWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		clock := newClock()
		f := &faulty{Backend: b, renew: func(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
			if clock.now() < 55*sec {
				return backends.Renewal{}, errors.New("down")
			}
			return b.Renew(ctx, l)
		}}
		k := keepFor(t, f, time.Minute, func(k *keeper) { k.warns = true })
		<-k.stops
		synctest.Wait()
		if a := k.ask(0); a.State != proof.Unknown || a.Why != "down" {
			t.Errorf("after the warning: %+v", a)
		}
		time.Sleep(10 * sec)
		k.want(t, proof.Held, "")
		breaks(t, b, backends.Notice{})
		k.want(t, proof.Stopping, "asked to stop by root@web2")
	})
}

// A reply that is heard when the lease has run out proves nothing.
func TestProofThatIsHeardTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k kept
		k = keepMinute(t, tallied(mem.New(), func(_ int, renew func() (backends.Renewal, error)) (backends.Renewal, error) {
			k.clock.sleep(time.Hour)
			return renew()
		}))
		time.Sleep(sec)
		k.want(t, proof.Lost, ErrExpiring.Error())
	})
}

// Whoever asks while the command runs is answered.
func TestRunIsAskedWhileItKeepsTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		fake := newFake(15)
		clock := newClock()
		fake.now = clock.now
		o := Options{Backend: b, Request: request("us"), Grace: DefaultGrace, MaxRuntime: time.Minute, Log: quiet,
			Clean: func(string) string { return "cleaned" }}
		var answer func(context.Context, proof.Question) proof.Answer
		r := &run{o: o.withDefaults(), clock: clock.now, tick: tick, plant: nobody, serve: func(id string, f func(context.Context, proof.Question) proof.Answer) (*proof.Server, error) {
			answer = f
			return nil, nil
		}, start: func(launch) (process, error) {
			if answer == nil {
				t.Error("the command starts before anybody is there to be asked")
			}
			return fake, nil
		}}
		ask := func() proof.Answer {
			s, err := b.Inspect(context.Background(), "k")
			if err != nil || len(s.Line) == 0 {
				t.Errorf("%v, %v", s, err)
				return proof.Answer{}
			}
			return answer(context.Background(), proof.Question{Key: "k", ID: "us", Token: int64(s.Line[0].Token)})
		}
		delete(fake.ends, 15)
		after(30*sec, func() {
			if a := ask(); a.State != proof.Held {
				t.Errorf("halfway: %+v", a)
			}
		})
		after(61*sec, func() {
			if a := ask(); a.State != proof.Stopping || a.Why != "cleaned" {
				t.Errorf("after --max-runtime: %+v", a)
			}
		})
		if res := r.run(t.Context()); res.Class != MaxRuntime {
			t.Errorf("%+v", res)
		}
	})
}
