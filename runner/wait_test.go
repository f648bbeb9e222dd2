package runner

import (
	"context"
	"errors"
	"fmt"
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
)

func waitFor(b backends.Backend, wait time.Duration) *Options {
	o := Options{Backend: b, Request: request("us"), Wait: wait, Grace: DefaultGrace, Log: quiet}
	return o.withDefaults()
}

// released counts the releases that a store sees.
func released(f *faulty) *[]string {
	var ids []string
	f.release = func(ctx context.Context, key, id string, o backends.Outcome) error {
		ids = append(ids, id)
		return f.Backend.Release(ctx, key, id, o)
	}
	return &ids
}

func TestSkipAsksOnceAndLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		hold(t, b, "other")
		asked := 0
		f := &faulty{Backend: b, acquire: func(ctx context.Context, r backends.Request) (backends.Lease, error) {
			asked++
			return b.Acquire(ctx, r)
		}}
		ids := released(f)
		_, r := acquire(t.Context(), waitFor(f, 0), newClock().now)
		if r.Class != Skipped || r.Held == nil || r.Held.Holders[0].ID != "other" {
			t.Errorf("got %+v", r)
		}
		if got := holders(t, b); asked != 1 || len(*ids) != 0 || !slices.Equal(got, []string{"other"}) {
			t.Errorf("asked %d times, released %v, left %v", asked, *ids, got)
		}
	})
}

func TestWaitRunsOut(t *testing.T) {
	for wait, want := range map[time.Duration]int{time.Millisecond: 2, sec: 2, 5 * sec: 2, 10 * sec: 3, 32 * sec: 8} {
		synctest.Test(t, func(t *testing.T) {
			b := mem.New()
			b.Acquire(t.Context(), backends.Request{Key: "k", ID: "other", Mode: backends.Exclusive, TTL: time.Hour})
			clock := newClock()
			asked, answers := 0, 0
			f := &faulty{Backend: b, acquire: func(ctx context.Context, r backends.Request) (backends.Lease, error) {
				asked++
				return b.Acquire(ctx, r)
			}}
			o := waitFor(f, wait)
			o.OnWait = func(*backends.HeldError) { answers++ }
			_, r := acquire(t.Context(), o, clock.now)
			if r.Class != Skipped || r.Held == nil || clock.now() != wait {
				t.Errorf("%v: %+v after %v", wait, r, clock.now())
			}
			if got := holders(t, b); asked != want || answers != want-1 || !slices.Equal(got, []string{"other"}) {
				t.Errorf("%v: asked %d times, want %d, %d answers, left %v", wait, asked, want, answers, got)
			}
		})
	}
}

// A waiter keeps its place: it is granted before one that came later, with hints and without.
func TestWaitersAreGrantedInTheirOrder(t *testing.T) {
	for name, wait := range map[string]func(context.Context, *backends.HeldError) error{
		"with hints":    nil,
		"without hints": func(ctx context.Context, _ *backends.HeldError) error { <-ctx.Done(); return ctx.Err() },
		"broken hints":  func(context.Context, *backends.HeldError) error { return errors.New("no listener") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := mem.New()
				f := &faulty{Backend: b, wait: wait}
				b.Acquire(t.Context(), backends.Request{Key: "k", ID: "first", Mode: backends.Exclusive, TTL: time.Hour})
				var order []string
				var wg sync.WaitGroup
				for i := range 20 {
					time.Sleep(time.Millisecond)
					wg.Go(func() {
						o := waitFor(f, Forever)
						o.Request.ID = fmt.Sprintf("w%02d", i)
						g, r := acquire(t.Context(), o, newClock().now)
						if r.Class != "" {
							t.Errorf("%s: %+v", o.Request.ID, r)
						}
						order = append(order, g.lease.ID)
						b.Release(t.Context(), "k", g.lease.ID, backends.Outcome{})
					})
				}
				time.Sleep(time.Minute)
				b.Release(t.Context(), "k", "first", backends.Outcome{})
				wg.Wait()
				if !slices.IsSorted(order) || len(order) != 20 {
					t.Errorf("order %v", order)
				}
			})
		})
	}
}

func TestHintIsActedOnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		hold(t, b, "other")
		time.AfterFunc(3*sec, func() { b.Release(context.Background(), "k", "other", backends.Outcome{}) })
		clock := newClock()
		g, r := acquire(t.Context(), waitFor(b, time.Minute), clock.now)
		if r.Class != "" || g.sent != 3*sec || g.lease.ID != "us" {
			t.Errorf("got %+v, %+v", g, r)
		}
	})
}

func TestExpiryIsAskedForInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		req := request("crashed")
		req.TTL = 7 * sec
		b.Acquire(t.Context(), req)
		clock := newClock()
		deafened := &faulty{Backend: b, wait: func(ctx context.Context, _ *backends.HeldError) error { <-ctx.Done(); return ctx.Err() }}
		_, r := acquire(t.Context(), waitFor(deafened, time.Minute), clock.now)
		if r.Class != "" || clock.now() > 7*sec+10*time.Millisecond {
			t.Errorf("granted after %v: %+v", clock.now(), r)
		}
	})
}

// Who learns of the holder by asking alone does so before a lease as short as its own can end.
func TestShortLeasesAreAskedForMoreOften(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		500 * time.Millisecond: sec, 2 * sec: 2 * sec, 5 * sec: 5 * sec, time.Minute: 5 * sec,
	} {
		t.Run(ttl.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := mem.New()
				b.Acquire(t.Context(), backends.Request{Key: "k", ID: "other", Mode: backends.Exclusive, TTL: time.Hour})
				clock := newClock()
				var asked []time.Duration
				f := &faulty{Backend: b,
					wait: func(ctx context.Context, _ *backends.HeldError) error { <-ctx.Done(); return ctx.Err() },
					acquire: func(ctx context.Context, r backends.Request) (backends.Lease, error) {
						asked = append(asked, clock.now())
						return b.Acquire(ctx, r)
					}}
				o := waitFor(f, 12*sec)
				o.Request.TTL, o.Grace = ttl, ttl/10
				acquire(t.Context(), o, clock.now)
				if len(asked) < 3 || asked[1] != want || asked[2] != 2*want {
					t.Errorf("asked at %v, want every %v", asked, want)
				}
			})
		})
	}
}

func TestHintsForNothingMakeNoBusyLoop(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		most int // questions in a minute
	}{
		"for nothing": {nil, 80},
		"broken":      {errors.New("no listener"), 13},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := mem.New()
				b.Acquire(t.Context(), backends.Request{Key: "k", ID: "other", Mode: backends.Exclusive, TTL: time.Hour})
				asked := 0
				f := &faulty{Backend: b,
					wait: func(context.Context, *backends.HeldError) error { return tc.err },
					acquire: func(ctx context.Context, r backends.Request) (backends.Lease, error) {
						asked++
						return b.Acquire(ctx, r)
					}}
				_, r := acquire(t.Context(), waitFor(f, time.Minute), newClock().now)
				if r.Class != Skipped || asked > tc.most {
					t.Errorf("asked %d times in a minute: %+v", asked, r)
				}
			})
		})
	}
}

func TestSilentStoreIsGivenUp(t *testing.T) {
	for _, tc := range []struct {
		wait, want time.Duration
	}{{0, 5 * sec}, {3 * sec, 5 * sec}, {20 * sec, 20 * sec}} {
		for name, hang := range map[string]bool{"errors": false, "hangs": true} {
			t.Run(fmt.Sprint(tc.wait, " ", name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					wait := deaf(t)
					var asked atomic.Int64
					f := &faulty{Backend: mem.New(), acquire: func(_ context.Context, r backends.Request) (backends.Lease, error) {
						asked.Add(1)
						if r.ID != "us" {
							t.Errorf("asked as %s", r.ID)
						}
						if hang {
							wait(never)
						}
						return backends.Lease{}, errors.New("connection refused")
					}}
					ids := released(f)
					clock := newClock()
					_, r := acquire(t.Context(), waitFor(f, tc.wait), clock.now)
					if r.Class != Unavailable || r.Err == nil {
						t.Errorf("got %+v", r)
					}
					if at := clock.now(); at > tc.want || at < tc.want-attemptFloor-backoffMax {
						t.Errorf("given up after %v, want %v", at, tc.want)
					}
					if asked.Load() < 3 || !slices.Equal(*ids, []string{"us"}) {
						t.Errorf("asked %d times, released %v", asked.Load(), *ids)
					}
				})
			})
		}
	}
}

// The longer a store is silent, the longer a question waits for its answer, until one
// comes: within what patience and the lease leave.
func TestSilentStoreIsGivenTime(t *testing.T) {
	for name, tc := range map[string]struct {
		wait, ttl time.Duration
		limits    []time.Duration // of the first questions
	}{
		"long":      {time.Hour, time.Hour, []time.Duration{2 * sec, 4 * sec, 8 * sec, 8 * sec, 0, 2 * sec, 4 * sec}},
		"at once":   {0, time.Hour, []time.Duration{2 * sec, 2 * sec, 1100 * time.Millisecond}},
		"20 s":      {20 * sec, time.Hour, []time.Duration{2 * sec, 4 * sec, 7 * sec, 3500 * time.Millisecond}},
		"short TTL": {time.Hour, 4 * sec, []time.Duration{2 * sec, 2700 * time.Millisecond, 2700 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, clock := mem.New(), newClock()
				b.Acquire(t.Context(), backends.Request{Key: "k", ID: "other", Mode: backends.Exclusive, TTL: time.Hour})
				var limits []time.Duration
				ctx, cancel := context.WithCancel(t.Context())
				f := &faulty{Backend: b, acquire: func(ctx context.Context, r backends.Request) (backends.Lease, error) {
					if len(limits) == len(tc.limits) {
						cancel()
						return backends.Lease{}, ctx.Err()
					}
					sent := clock.now()
					if tc.limits[len(limits)] == 0 {
						limits = append(limits, 0)
						return b.Acquire(ctx, r)
					}
					<-ctx.Done()
					limits = append(limits, clock.now()-sent)
					return backends.Lease{}, ctx.Err()
				}}
				o := waitFor(f, tc.wait)
				o.Request.TTL = tc.ttl
				acquire(ctx, o, clock.now)
				for i, got := range limits {
					if want := tc.limits[i]; got > want || got < want*8/10-words {
						t.Errorf("question %d lasted %v, want %v: %v", i+1, got, want, limits)
					}
				}
				if len(limits) < len(tc.limits) {
					t.Errorf("%d questions: %v", len(limits), limits)
				}
			})
		})
	}
}

// One error after nine minutes in line must not cost the place.
func TestAnErrorInLineKeepsThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		b.Acquire(t.Context(), backends.Request{Key: "k", ID: "other", Mode: backends.Exclusive, TTL: time.Hour})
		clock := newClock()
		f := &faulty{Backend: b, acquire: func(ctx context.Context, r backends.Request) (backends.Lease, error) {
			if at := clock.now(); at > 30*sec && at < 40*sec {
				return backends.Lease{}, errors.New("failover")
			}
			return b.Acquire(ctx, r)
		}}
		ids := released(f)
		time.AfterFunc(time.Minute, func() { b.Release(context.Background(), "k", "other", backends.Outcome{}) })
		g, r := acquire(t.Context(), waitFor(f, Forever), clock.now)
		if r.Class != "" || g.sent != time.Minute || len(*ids) != 0 {
			t.Errorf("got %+v, %+v, released %v", g, r, *ids)
		}
	})
}

func TestLostReplyIsRepairedByAskingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		lost := 0
		clock := newClock()
		f := &faulty{Backend: b, acquire: func(ctx context.Context, r backends.Request) (backends.Lease, error) {
			l, err := b.Acquire(ctx, r)
			if lost++; lost == 1 {
				return backends.Lease{}, errors.New("connection reset")
			}
			return l, err
		}}
		g, r := acquire(t.Context(), waitFor(f, 0), clock.now)
		if r.Class != "" || g.lease.ID != "us" || g.sent == 0 {
			t.Errorf("got %+v, %+v", g, r)
		}
	})
}

func TestLateGrantIsNotTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		clock := newClock()
		asked := 0
		f := &faulty{Backend: b, acquire: func(ctx context.Context, r backends.Request) (backends.Lease, error) {
			l, err := b.Acquire(context.WithoutCancel(ctx), r)
			if asked++; asked == 1 {
				clock.sleep(time.Hour) // the host sleeps while the answer is on its way
			}
			return l, err
		}}
		g, r := acquire(t.Context(), waitFor(f, Forever), clock.now)
		if r.Class != "" || asked != 2 || g.sent < time.Hour {
			t.Errorf("asked %d times: %+v, %+v", asked, g, r)
		}
	})
}

func TestFinalAnswersEndTheWait(t *testing.T) {
	done := &backends.DoneError{Key: "k", Entry: backends.Entry{Run: "v42"}}
	for _, tc := range []struct {
		err  error
		want Class
	}{
		{backends.Refuse("check the password", "no such user"), Unavailable},
		{backends.ErrLost, Unavailable},
		{done, Done},
	} {
		synctest.Test(t, func(t *testing.T) {
			clock := newClock()
			f := &faulty{Backend: mem.New(), acquire: func(context.Context, backends.Request) (backends.Lease, error) {
				return backends.Lease{}, tc.err
			}}
			_, r := acquire(t.Context(), waitFor(f, Forever), clock.now)
			if r.Class != tc.want || r.Err != tc.err || clock.now() != 0 {
				t.Errorf("%v: %+v after %v", tc.err, r, clock.now())
			}
		})
	}
}

func TestGraceThatDoesNotFitTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		f := &faulty{Backend: b, acquire: func(ctx context.Context, r backends.Request) (backends.Lease, error) {
			r.TTL = 40 * sec // the store's maximum
			return b.Acquire(ctx, r)
		}}
		o := waitFor(f, 0)
		o.Grace = 20 * sec
		_, r := acquire(t.Context(), o, newClock().now)
		var grace *GraceError
		if r.Class != BadGrace || !errors.As(r.Err, &grace) || grace.TTL != 40*sec {
			t.Errorf("got %+v", r)
		}
		if got := holders(t, b); len(got) != 0 {
			t.Errorf("left %v", got)
		}
	})
}

func TestOwnChainIsNotWaitedFor(t *testing.T) {
	for _, tc := range []struct {
		wait  time.Duration
		chain []string
		want  Class
	}{
		{time.Minute, []string{"outer", "outermost"}, Nested},
		{0, []string{"outer"}, Skipped},
		{sec, []string{"another"}, Skipped},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := mem.New()
			hold(t, b, "outer")
			o := waitFor(b, tc.wait)
			o.Chain = tc.chain
			_, r := acquire(t.Context(), o, newClock().now)
			if r.Class != tc.want || r.Held == nil {
				t.Errorf("%+v: got %+v", tc, r)
			}
			if got := holders(t, b); !slices.Equal(got, []string{"outer"}) {
				t.Errorf("left %v", got)
			}
		})
	}
}

func TestSignalLeavesTheLineWithinASecond(t *testing.T) {
	for name, hang := range map[string]bool{"while waiting": false, "while the store hangs": true} {
		for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
			t.Run(name+" "+sig.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := mem.New()
					hold(t, b, "other")
					wait := deaf(t)
					f := &faulty{Backend: b}
					if hang {
						f.acquire = func(ctx context.Context, r backends.Request) (backends.Lease, error) {
							_, err := b.Acquire(ctx, r)
							wait(never)
							return backends.Lease{}, err
						}
						f.release = func(ctx context.Context, key, id string, o backends.Outcome) error {
							err := b.Release(ctx, key, id, o)
							wait(never)
							return err
						}
					}
					signals := make(chan os.Signal, 2)
					o := waitFor(f, Forever)
					o.Signals = signals
					clock := newClock()
					time.AfterFunc(sec, func() { signals <- syscall.SIGUSR1 })
					time.AfterFunc(1500*time.Millisecond, func() { signals <- sig })
					_, r := acquire(t.Context(), o, clock.now)
					if r.Class != Interrupted || r.Signal != sig {
						t.Errorf("got %+v", r)
					}
					if at := clock.now(); at < 1500*time.Millisecond || at >= 2500*time.Millisecond {
						t.Errorf("left after %v", at)
					}
					if got := holders(t, b); !slices.Equal(got, []string{"other"}) {
						t.Errorf("left %v", got)
					}
				})
			})
		}
	}
}

// A signal that comes with the grant is not lost: once taken it ends the wait.
func TestSignalWithTheGrant(t *testing.T) {
	for range 50 { // the answer and the signal are seen in either order
		synctest.Test(t, func(t *testing.T) {
			b := mem.New()
			signals := make(chan os.Signal)
			f := &faulty{Backend: b, acquire: func(_ context.Context, r backends.Request) (backends.Lease, error) {
				signals <- syscall.SIGTERM
				return b.Acquire(context.Background(), r)
			}}
			o := waitFor(f, 0)
			o.Signals = signals
			_, r := acquire(t.Context(), o, newClock().now)
			synctest.Wait()
			if got := holders(t, b); r.Class != Interrupted || len(got) != 0 {
				t.Errorf("%+v, %v in line", r, got)
			}
		})
	}
}

// One that comes after it is left for the command.
func TestSignalAfterTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 1)
		o := waitFor(mem.New(), 0)
		o.Signals = signals
		_, r := acquire(t.Context(), o, newClock().now)
		signals <- syscall.SIGTERM
		synctest.Wait()
		if r.Class != "" || len(signals) != 1 {
			t.Errorf("%+v, %d signals left", r, len(signals))
		}
	})
}

// What comes while the store is asked, and ends nobody, is for the command; who has
// stood in line was told himself.
func TestOtherSignalsBeforeTheGrant(t *testing.T) {
	for name, inLine := range map[string]bool{"at once": false, "in line": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, signals := mem.New(), make(chan os.Signal)
				if inLine {
					hold(t, b, "other")
					time.AfterFunc(sec, func() { b.Release(context.Background(), "k", "other", backends.Outcome{}) })
				}
				f := &faulty{Backend: b, acquire: func(_ context.Context, r backends.Request) (backends.Lease, error) {
					for range earlyKept { // two thirds find no room
						signals <- syscall.SIGUSR1
						signals <- syscall.SIGUSR2
						signals <- syscall.SIGCONT
					}
					return b.Acquire(context.Background(), r)
				}}
				o := waitFor(f, time.Minute)
				o.Signals = signals
				g, r := acquire(t.Context(), o, newClock().now)
				want := slices.Repeat([]os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT}, earlyKept)[:earlyKept]
				if inLine {
					want = nil
				}
				if r.Class != "" || !slices.Equal(g.early, want) {
					t.Errorf("%+v, %v", r, g.early)
				}
			})
		})
	}
}

// A run that leaves the line while the store is silent says that the key may yet be its
// own: the grant came with a signal, or an earlier question is on its way.
func TestLeavingASilentStoreIsTold(t *testing.T) {
	silent := func(ctx context.Context, _, _ string, _ backends.Outcome) error { <-ctx.Done(); return ctx.Err() }
	for name, tc := range map[string]struct {
		wait    time.Duration
		class   Class
		acquire func(b *mem.Store, signals chan os.Signal) func(context.Context, backends.Request) (backends.Lease, error)
	}{
		"a signal with the grant": {time.Minute, Interrupted, func(b *mem.Store, signals chan os.Signal) func(context.Context, backends.Request) (backends.Lease, error) {
			return func(ctx context.Context, r backends.Request) (backends.Lease, error) {
				defer func() { signals <- syscall.SIGTERM }()
				return b.Acquire(ctx, r)
			}
		}},
		"an earlier question": {0, Skipped, func(b *mem.Store, _ chan os.Signal) func(context.Context, backends.Request) (backends.Lease, error) {
			asked := 0
			return func(ctx context.Context, r backends.Request) (backends.Lease, error) {
				if asked++; asked == 1 {
					<-ctx.Done()
					return backends.Lease{}, ctx.Err()
				}
				return backends.Lease{}, &backends.HeldError{Key: r.Key}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, signals, said := mem.New(), make(chan os.Signal), &records{} // sent when it is heard
				o := waitFor(&faulty{Backend: b, acquire: tc.acquire(b, signals), release: silent}, tc.wait)
				o.Signals, o.Log = signals, said.logger()
				if _, r := acquire(t.Context(), o, newClock().now); r.Class != tc.class {
					t.Errorf("class %s, want %s", r.Class, tc.class)
				}
				if said.count("may yet be granted") != 1 {
					t.Errorf("it said:\n%s", said.String())
				}
			})
		})
	}
}

// Whoever shows the wait is told of each answer, of each question without one, and once
// of the end; of nothing where nobody waits.
func TestTheWaitIsTold(t *testing.T) {
	for _, c := range []struct {
		name string
		wait time.Duration
		says string // what the store says in turn: held, fault or granted
		want []string
	}{
		{"granted at once", Forever, "g", nil},
		{"skipped at once", 0, "h", nil},
		{"a fault at once", 0, "fg", nil},
		{"granted in the end", Forever, "hhg", []string{"held", "held", "end "}},
		{"a fault at the start", Forever, "fg", []string{"a fault", "end "}},
		{"a fault in line", Forever, "hffhg", []string{"held", "a fault", "a fault", "held", "end "}},
		{"given up", 7 * sec, "hhhhhhh", []string{"held", "held", "end skipped"}},
		{"refused", Forever, "hr", []string{"held", "end unavailable"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := mem.New()
			hold(t, b, "other")
			says := []byte(c.says)
			f := &faulty{Backend: b, acquire: func(ctx context.Context, r backends.Request) (backends.Lease, error) {
				now := says[0]
				says = says[1:]
				switch now {
				case 'f':
					return backends.Lease{}, errors.New("a fault")
				case 'r':
					return backends.Lease{}, backends.ErrRefused
				case 'g':
					b.Release(ctx, "k", "other", backends.Outcome{})
				}
				return b.Acquire(ctx, r)
			}, wait: func(ctx context.Context, _ *backends.HeldError) error { <-ctx.Done(); return ctx.Err() }}
			var told []string
			o := waitFor(f, c.wait)
			why := ""
			o.OnSilent = func(err error) { why = err.Error() }
			o.OnWait = func(held *backends.HeldError) {
				if held == nil {
					told = append(told, why)
					why = "nothing"
				} else {
					told = append(told, "held")
				}
			}
			o.OnWaited = func(class Class) { told = append(told, "end "+string(class)) }
			acquire(t.Context(), o, newClock().now)
			if !slices.Equal(told, c.want) {
				t.Errorf("%s: told %q, want %q", c.name, told, c.want)
			}
		})
	}
}
