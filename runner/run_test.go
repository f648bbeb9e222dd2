package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"flockd/backends"
	"flockd/backends/mem"
	"flockd/runner/proof"
	"flockd/runner/tree"
	"flockd/runner/tty"
)

// runFake runs a fake command for as long as it is told, and as long as nothing ends it.
func runFake(t *testing.T, o Options, fake *fakeProcess, takes time.Duration) (Result, *since) {
	t.Helper()
	clock := newClock()
	if fake != nil {
		fake.now = clock.now
	}
	if o.Log == nil {
		o.Log = quiet
	}
	if o.Request.ID == "" {
		o.Request = request("us")
	}
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	r := &run{o: o.withDefaults(), clock: clock.now, tick: tick, plant: nobody, serve: unasked, start: func(launch) (process, error) {
		if fake == nil {
			return nil, &fs.PathError{Op: "fork/exec", Path: "/nothing", Err: syscall.ENOENT}
		}
		time.AfterFunc(takes, func() { fake.end(Exit{Started: time.Now()}) })
		return fake, nil
	}}
	return r.run(t.Context()), clock
}

func TestRunReleasesAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		fake := newFake()
		var outcome backends.Outcome
		f := &faulty{Backend: b, release: func(ctx context.Context, key, id string, o backends.Outcome) error {
			if !fake.ended() {
				t.Error("released while the command runs")
			}
			outcome = o
			return b.Release(ctx, key, id, o)
		}}
		granted, started := backends.Lease{}, false
		o := Options{Backend: f, OnStart: func(backends.Lease) { started = true }, OnGrant: func(l backends.Lease) error { granted = l; return nil }}
		r, clock := runFake(t, o, fake, time.Hour)
		if r.Class != Finished || r.Err != nil || r.Lease.ID != "us" || r.Lease != granted || !started || clock.now() != time.Hour {
			t.Errorf("got %+v, granted %+v, started %v", r, granted, started)
		}
		if outcome != (backends.Outcome{Class: "finished", Success: true}) || len(holders(t, b)) != 0 {
			t.Errorf("outcome %+v, left %v", outcome, holders(t, b))
		}
	})
}

// The whole way of a lost lease: TERM, KILL, and the release only when nothing is
// left of a tree that outlives the KILL, renewed until then.
func TestRunRenewsUntilTheTreeIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		clock := newClock()
		fake := newFake()
		fake.tough = true
		renewed := time.Duration(0)
		f := &faulty{Backend: b,
			renew: func(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
				if clock.now() < 49*sec {
					return backends.Renewal{}, errors.New("down")
				}
				renewed = clock.now()
				return b.Renew(ctx, l)
			},
			release: func(ctx context.Context, key, id string, o backends.Outcome) error {
				if fake.live() {
					t.Error("released while the tree lives")
				}
				return b.Release(ctx, key, id, o)
			}}
		after(5*time.Minute, fake.bury)
		r, _ := runFake(t, Options{Backend: f}, fake, never)
		if r.Class != Lost || !errors.Is(r.Err, ErrExpiring) || r.Exit.Code != 137 {
			t.Errorf("got %+v", r)
		}
		if renewed < 5*time.Minute-20*sec {
			t.Errorf("last renewed at %v", renewed)
		}
		if want := []string{"terminated 48.8s", "continued 48.8s", "killed 58.8s"}; !slices.Equal(fake.signals()[:3], want) {
			t.Errorf("signals %q", fake.signals()[:3])
		}
	})
}

func TestRunIsLostByAForcedBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		fake := newFake(syscall.SIGTERM)
		after(sec, func() {
			if err := b.Ask(context.Background(), "k", "us", backends.Notice{Kind: backends.Break, Force: true}); err != nil {
				t.Error(err)
			}
		})
		r, clock := runFake(t, Options{Backend: b}, fake, time.Hour)
		if r.Class != Lost || clock.now() > 20*sec || !errors.Is(r.Err, backends.ErrLost) {
			t.Errorf("got %+v after %v", r, clock.now())
		}
	})
}

func TestRunThatEndsAfterAnUnseenBreakIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		after(sec, func() {
			if err := b.Ask(context.Background(), "k", "us", backends.Notice{Kind: backends.Break, Force: true}); err != nil {
				t.Error(err)
			}
		})
		r, _ := runFake(t, Options{Backend: b}, newFake(), 2*sec) // before the next renewal
		var lost *LostError
		if r.Class != Lost || !errors.Is(r.Err, backends.ErrLost) || !errors.As(r.Err, &lost) || lost.Notice.Kind != backends.Break {
			t.Errorf("got %+v", r)
		}
	})
}

// A command isn't started under a hold that was lost meanwhile, and the store is blamed
// for that only if it had failed.
func TestHoldThatIsLostBeforeTheStart(t *testing.T) {
	down := errors.New("down")
	for name, tc := range map[string]struct {
		renewal error
		between func(*mem.Store, *since)
		says    string
	}{
		"paused":  {nil, func(_ *mem.Store, clock *since) { clock.sleep(time.Hour) }, ErrPaused.Error()},
		"silent":  {down, func(*mem.Store, *since) { time.Sleep(50 * sec) }, ErrExpiring.Error() + ": down"},
		"removed": {nil, func(b *mem.Store, _ *since) { breakIt(t, b, "us", true); time.Sleep(sec) }, "broken by ops@desk: stuck"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, clock := mem.New(), newClock()
				f := &faulty{Backend: b, renew: func(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
					if tc.renewal != nil {
						return backends.Renewal{}, tc.renewal
					}
					return b.Renew(ctx, l)
				}}
				o := Options{Backend: f, Request: request("us"), Grace: DefaultGrace, Log: quiet, OnGrant: func(backends.Lease) error {
					tc.between(b, clock)
					return nil
				}}
				r := &run{o: o.withDefaults(), clock: clock.now, tick: tick, plant: nobody, serve: unasked, start: func(launch) (process, error) {
					t.Error("it runs")
					return nil, errors.New("no")
				}}
				if res := r.run(t.Context()); res.Class != Unavailable || res.Err == nil || res.Err.Error() != tc.says {
					t.Errorf("got %+v", res)
				}
			})
		})
	}
}

// Woken after the lease, the end of the command may be seen first.
func TestRunLooksAtTheClockBeforeItBelievesTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		fake := newFake()
		clock := newClock()
		o := Options{Backend: b, Request: request("us"), Grace: DefaultGrace, Log: quiet}
		r := &run{o: o.withDefaults(), clock: clock.now, tick: tick, plant: nobody, serve: unasked, start: func(launch) (process, error) {
			after(sec/2, func() {
				clock.sleep(time.Hour)
				fake.end(Exit{Code: 137, Signal: syscall.SIGKILL, Started: time.Now()})
			})
			return fake, nil
		}}
		if res := r.run(t.Context()); res.Class != Lost || !errors.Is(res.Err, ErrExpiring) {
			t.Errorf("got %+v", res)
		}
	})
}

func TestRunThatEndsWhileTheStoreIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		var log records
		tried := 0
		f := &faulty{Backend: b,
			renew: func(context.Context, backends.Lease) (backends.Renewal, error) {
				return backends.Renewal{}, errors.New("down")
			},
			release: func(context.Context, string, string, backends.Outcome) error { tried++; return errors.New("down") }}
		r, clock := runFake(t, Options{Backend: f, Log: log.logger()}, newFake(), 40*sec)
		if r.Class != Finished || clock.now() != 45*sec || tried < 5 {
			t.Errorf("got %+v after %v, %d releases", r, clock.now(), tried)
		}
		if log.count("could not give the key back") != 1 {
			t.Error(log.String())
		}
	})
}

func TestReleaseWhoseReplyWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		tried := 0
		f := &faulty{Backend: b, release: func(ctx context.Context, key, id string, o backends.Outcome) error {
			err := b.Release(ctx, key, id, o)
			if tried++; tried == 1 {
				return errors.New("connection reset")
			}
			return err
		}}
		if r, _ := runFake(t, Options{Backend: f}, newFake(), sec); r.Class != Finished || tried != 2 {
			t.Errorf("got %+v, %d releases", r, tried)
		}
	})
}

// A hold that was gone before its release isn't taken for one that the release has
// ended because its first try came to nothing.
func TestReleaseOfALostHoldThatIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		tried := 0
		f := &faulty{Backend: b, release: func(ctx context.Context, key, id string, o backends.Outcome) error {
			if tried++; tried == 1 {
				if err := b.Ask(ctx, key, id, backends.Notice{Kind: backends.Break, Force: true}); err != nil {
					t.Error(err)
				}
				return errors.New("connection refused")
			}
			return b.Release(ctx, key, id, o)
		}}
		if r, _ := runFake(t, Options{Backend: f}, newFake(), sec); r.Class != Lost || tried != 2 {
			t.Errorf("got %+v, %d releases", r, tried)
		}
	})
}

// A release that was applied, and after which another has run before it was answered,
// isn't taken for a loss.
func TestReleaseWhoseReplyWasLostBeforeAnotherRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		tried := 0
		f := &faulty{Backend: b, release: func(ctx context.Context, key, id string, o backends.Outcome) error {
			err := b.Release(ctx, key, id, o)
			if tried++; tried == 1 {
				next := hold(t, b, "next")
				if err := b.Release(ctx, next.Key, next.ID, o); err != nil {
					t.Error(err)
				}
				return errors.New("connection reset")
			}
			return err
		}}
		if r, _ := runFake(t, Options{Backend: f}, newFake(), sec); r.Class != Finished || tried != 2 {
			t.Errorf("got %+v, %d releases", r, tried)
		}
	})
}

func TestReleaseThatHangsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		hang := deaf(t)
		var tried atomic.Int64
		f := &faulty{Backend: b, release: func(ctx context.Context, key, id string, o backends.Outcome) error {
			if tried.Add(1) == 1 {
				hang(never)
			}
			return b.Release(ctx, key, id, o)
		}}
		r, clock := runFake(t, Options{Backend: f}, newFake(), sec)
		if r.Class != Finished || clock.now() > 3*sec+backoffMin || len(holders(t, b)) != 0 {
			t.Errorf("got %+v after %v", r, clock.now())
		}
	})
}

func TestReleaseOfAHungStoreIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := deaf(t)
		f := &faulty{Backend: mem.New(), release: func(context.Context, string, string, backends.Outcome) error { hang(never); return nil }}
		if r, clock := runFake(t, Options{Backend: f}, newFake(), sec); r.Class != Finished || clock.now() != 6*sec {
			t.Errorf("got %+v after %v", r, clock.now())
		}
	})
}

func TestCommandThatCannotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		r, _ := runFake(t, Options{Backend: b}, nil, 0)
		if r.Class != NotStarted || !errors.Is(r.Err, fs.ErrNotExist) || len(holders(t, b)) != 0 {
			t.Errorf("got %+v, left %v", r, holders(t, b))
		}
		if s, _ := b.Inspect(t.Context(), "k"); s.Last != nil {
			t.Errorf("last run %+v", s.Last)
		}
	})
}

func TestGrantHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		no := errors.New("no space left")
		r, _ := runFake(t, Options{Backend: b, OnGrant: func(backends.Lease) error { return no }}, newFake(), sec)
		if r.Class != Internal || r.Err != no || r.Exit != (Exit{}) || len(holders(t, b)) != 0 {
			t.Errorf("got %+v", r)
		}
	})
	synctest.Test(t, func(t *testing.T) { // one that takes so long that the lease is lost meanwhile
		b := mem.New()
		f := &faulty{Backend: b, renew: func(context.Context, backends.Lease) (backends.Renewal, error) {
			return backends.Renewal{}, errors.New("down")
		}}
		started := false
		o := Options{Backend: f, OnStart: func(backends.Lease) { started = true }, OnGrant: func(backends.Lease) error { time.Sleep(50 * sec); return nil }}
		r, _ := runFake(t, o, newFake(), sec)
		if r.Class != Unavailable || started || !errors.Is(r.Err, ErrExpiring) {
			t.Errorf("got %+v", r)
		}
	})
}

func TestOnUnavailable(t *testing.T) {
	for _, tc := range []struct {
		what     OnUnavailable
		want     Class
		unlocked bool
	}{{Fail, Unavailable, false}, {Skip, Skipped, false}, {RunUnlocked, Finished, true}} {
		synctest.Test(t, func(t *testing.T) {
			b := mem.New()
			f := &faulty{Backend: b, acquire: func(ctx context.Context, r backends.Request) (backends.Lease, error) {
				b.Acquire(ctx, r) // applied, but the reply is lost
				return backends.Lease{}, errors.New("no route to host")
			}}
			r, _ := runFake(t, Options{Backend: f, OnUnavailable: tc.what}, newFake(), sec)
			if r.Class != tc.want || r.Unlocked != tc.unlocked || r.Err == nil || r.Held != nil || r.Lease.Token != 0 {
				t.Errorf("%s: %+v", tc.what, r)
			}
			if got := holders(t, b); len(got) != 0 {
				t.Errorf("%s: left %v", tc.what, got)
			}
		})
	}
}

func TestWarnedRunIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		clock := newClock()
		f := &faulty{Backend: b, renew: func(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
			if clock.now() < 50*sec {
				return backends.Renewal{}, errors.New("down")
			}
			return b.Renew(ctx, l)
		}}
		fake := newFake()
		r, _ := runFake(t, Options{Backend: f, OnLost: Warn, WarnSignal: syscall.SIGUSR2}, fake, time.Hour)
		want := []string{"pass user defined signal 2 48.8s"}
		if r.Class != Lost || r.Exit.Code != 0 || !slices.Equal(fake.signals(), want) || clock.now() != time.Hour {
			t.Errorf("got %+v after %v, signals %q", r, clock.now(), fake.signals())
		}
	})
}

func TestAnotherTTLIsSaidOnce(t *testing.T) {
	for granted, line := range map[time.Duration]string{
		2 * time.Minute: `level=INFO msg="the store granted another TTL"`,
		40 * sec:        `level=WARN msg="the store granted another TTL"`,
	} {
		synctest.Test(t, func(t *testing.T) {
			b := mem.New()
			f := &faulty{Backend: b, acquire: func(ctx context.Context, r backends.Request) (backends.Lease, error) {
				r.TTL = granted
				return b.Acquire(ctx, r)
			}}
			var log records
			r, _ := runFake(t, Options{Backend: f, Log: log.logger()}, newFake(), time.Hour)
			if r.Class != Finished || r.Lease.TTL != granted || log.count("TTL") != 1 || log.count(line) != 1 {
				t.Errorf("%v: %+v\n%s", granted, r, log.String())
			}
		})
	}
}

// shaky loses every fourth request before it reaches the store, and every fourth answer.
type shaky struct {
	*mem.Store
	rand func(n int) int
}

var errShaky = errors.New("connection reset")

func shake[T any](s *shaky, f func() (T, error)) (v T, err error) {
	switch s.rand(4) {
	case 0:
		return v, errShaky
	case 1:
		f()
		return v, errShaky
	}
	return f()
}

func (s *shaky) Acquire(ctx context.Context, r backends.Request) (backends.Lease, error) {
	return shake(s, func() (backends.Lease, error) { return s.Store.Acquire(ctx, r) })
}

func (s *shaky) Renew(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
	return shake(s, func() (backends.Renewal, error) { return s.Store.Renew(ctx, l) })
}

func (s *shaky) Release(ctx context.Context, key, id string, o backends.Outcome) error {
	_, err := shake(s, func() (struct{}, error) { return struct{}{}, s.Store.Release(ctx, key, id, o) })
	return err
}

func TestOneAtATimeOverAShakyStore(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			var mu sync.Mutex
			b := &shaky{mem.New(), func(n int) int { mu.Lock(); defer mu.Unlock(); return rnd.IntN(n) }}
			var alive, most, ran atomic.Int64
			var tokens []backends.Token
			var wg sync.WaitGroup
			for range 20 {
				takes := time.Duration(b.rand(100)) * sec
				wg.Go(func() {
					o := Options{
						Backend: b, Request: request(backends.NewID()), Wait: Forever, Grace: DefaultGrace,
						OnGrant: func(l backends.Lease) error { tokens = append(tokens, l.Token); return nil },
					}
					o.Request.TTL = 5 * sec // so short that some are lost
					r := &run{o: o.withDefaults(), clock: newClock().now, tick: tick, plant: nobody, serve: unasked, start: func(launch) (process, error) {
						most.Store(max(most.Load(), alive.Add(1)))
						ran.Add(1)
						fake := newFake(syscall.SIGTERM)
						fake.onEnd = func() { alive.Add(-1) }
						after(takes, func() { fake.end(Exit{Started: time.Now()}) })
						return fake, nil
					}}
					if res := r.run(t.Context()); res.Class != Finished && res.Class != Lost && res.Class != Unavailable {
						t.Errorf("got %+v", res)
					}
				})
			}
			wg.Wait()
			if most.Load() != 1 || ran.Load() < 18 || !slices.IsSorted(tokens) {
				t.Errorf("seed %d: %d at once, %d ran, tokens %v", seed, most.Load(), ran.Load(), tokens)
			}
		})
	}
}

// A lease lasts from before the question that was granted, however late the
// answer came.
func TestRunCountsFromTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		fake := newFake(syscall.SIGTERM)
		f := &faulty{Backend: b,
			acquire: func(ctx context.Context, r backends.Request) (backends.Lease, error) {
				lease, err := b.Acquire(ctx, r)
				time.Sleep(1500 * time.Millisecond) // the answer's way
				return lease, err
			},
			renew: func(context.Context, backends.Lease) (backends.Renewal, error) {
				return backends.Renewal{}, errors.New("down")
			}}
		r, _ := runFake(t, Options{Backend: f}, fake, never)
		if want := "terminated 48.8s"; r.Class != Lost || fake.signals()[0] != want {
			t.Errorf("%v, signals %q, want %q", r.Class, fake.signals(), want)
		}
	})
}

// A warned command is warned once, whatever the store says later.
func TestRunWarnsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFake()
		clock := newClock()
		f := &faulty{Backend: mem.New(), renew: func(context.Context, backends.Lease) (backends.Renewal, error) {
			if clock.now() < 70*sec {
				return backends.Renewal{}, errors.New("down")
			}
			return backends.Renewal{}, backends.ErrLost
		}}
		r, _ := runFake(t, Options{Backend: f, OnLost: Warn, WarnSignal: syscall.SIGURG}, fake, 2*time.Minute)
		if got := fake.signals(); r.Class != Lost || len(got) != 1 {
			t.Errorf("%v, signals %q, want one", r.Class, got)
		}
	})
}

func TestTickOf(t *testing.T) {
	for clock, want := range map[backends.Clock]time.Duration{backends.Boottime: tick, backends.Monotonic: never} {
		if got := tickOf(clock); got != want {
			t.Errorf("tickOf(%v) = %v, want %v", clock, got, want)
		}
	}
}

// Where the store says that the hold is gone, and can't say whose work that was, the run
// isn't called finished.
func TestReleaseThatCannotBeExplainedIsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		tried := 0
		f := blind{&faulty{Backend: b, release: func(context.Context, string, string, backends.Outcome) error {
			if tried++; tried == 1 {
				return errors.New("connection reset")
			}
			return backends.ErrLost
		}}}
		if r, _ := runFake(t, Options{Backend: f}, newFake(), sec); r.Class != Lost {
			t.Errorf("got %+v, %d releases", r, tried)
		}
	})
}

// blind is a store that shows no key.
type blind struct{ *faulty }

func (blind) Inspect(context.Context, string) (backends.Status, error) {
	return backends.Status{}, errors.New("timeout")
}

// What a user is told of a loss: the store's word, or that flockd went on too late.
func TestVerdict(t *testing.T) {
	refused := errors.New("connection refused")
	for _, tc := range []struct {
		name string
		late bool  // a deadline has passed that the guard went by
		told error // by the keeper
		want error // nil: it stood
	}{
		{"all is well", false, nil, nil},
		{"renewed when it went on", true, nil, ErrPaused},
		{"went on too late", true, ErrExpiring, ErrPaused},
		{"a store that is down, and no grace", true, fmt.Errorf("%w: %w", ErrExpiring, refused), refused},
		{"the hold is gone, and no grace", true, backends.ErrLost, backends.ErrLost},
		{"a store that is down", false, fmt.Errorf("%w: %w", ErrExpiring, refused), refused},
	} {
		timing, err := NewTiming(time.Minute, DefaultGrace)
		if err != nil {
			t.Fatal(err)
		}
		now := func() time.Duration { return sec }
		r := &run{guard: newGuardian("k", backends.Boottime, nil, quiet)}
		r.guard.clock = now
		if tc.late {
			r.guard.told = sec
		}
		k := &keeper{clock: now, term: term{timing: timing}.renewed(0, 0)}
		var lost error
		if tc.told != nil {
			lost = k.lost(tc.told)
		}
		got := r.verdict(k, lost)
		var named *LostError
		if !errors.Is(got, tc.want) || got != nil && !errors.As(got, &named) || tc.want != ErrPaused && errors.Is(got, ErrPaused) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// nobody is a tree without a process and without a guard.
func nobody(string, *guardian, chan<- os.Signal) (*tree.Tree, *tty.Terminal) {
	return tree.Known(tree.Identity{}, -1), nil
}

// unasked is a run of which nobody asks whether its hold stands: a bubble has no sockets.
func unasked(string, func(context.Context, proof.Question) proof.Answer) (*proof.Server, error) {
	return nil, nil
}

// A signal that came before the command, while nobody stood in line, is passed to it:
// also where it runs unlocked.
func TestRunPassesOnWhatCameBefore(t *testing.T) {
	for name, fault := range map[string]error{"locked": nil, "unlocked": backends.Refuse("", "no such user")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, signals := mem.New(), make(chan os.Signal)
				f := &faulty{Backend: b, acquire: func(ctx context.Context, r backends.Request) (backends.Lease, error) {
					signals <- syscall.SIGUSR1
					if fault != nil {
						return backends.Lease{}, fault
					}
					return b.Acquire(ctx, r)
				}}
				fake := newFake(syscall.SIGUSR1)
				r, _ := runFake(t, Options{Backend: f, Signals: signals, OnUnavailable: RunUnlocked}, fake, time.Hour)
				if r.Class != Finished || r.Signal != syscall.SIGUSR1 || !slices.Equal(fake.signals(), []string{"pass user defined signal 1 0s"}) {
					t.Errorf("%+v, signals %q", r, fake.signals())
				}
			})
		})
	}
}

// What a run tells of its lease: how long it may be trusted, why the command is stopped, and
// when nothing is left that it was for.
func TestRunTellsOfItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		fake := newFake(syscall.SIGTERM)
		clock := newClock()
		var left []time.Duration
		var said []string
		at := map[time.Duration]bool{}
		say := func(what string) { said, at[clock.now()] = append(said, what), true }
		f := &faulty{Backend: b,
			renew: func(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
				if clock.now() > 30*sec {
					return backends.Renewal{}, errors.New("down")
				}
				return b.Renew(ctx, l)
			},
			release: func(ctx context.Context, key, id string, o backends.Outcome) error {
				say("released")
				return b.Release(ctx, key, id, o)
			}}
		o := Options{Backend: f,
			OnRenew: func(d time.Duration) { left = append(left, d) },
			OnStop:  func(why error, d time.Duration) { say("stop " + why.Error() + ", " + d.String()) },
			OnGone:  func(r Result) { say("gone " + string(r.Class)) },
		}
		r, _ := runFake(t, o, fake, time.Hour)
		if r.Class != Lost || len(left) != 2 || left[0] != 59400*time.Millisecond || left[1] != left[0] {
			t.Errorf("got %+v, told %v", r, left)
		}
		if want := []string{"stop no renewal succeeded in time: down, 10s", "gone lost", "released"}; !slices.Equal(said, want) || len(at) != 1 {
			t.Errorf("said %q at %v", said, at)
		}
	})
}
