package runner

import (
	"context"
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// watched is a supervision of a fake, in a bubble.
type watched struct {
	*supervision
	fake    *fakeProcess
	clock   *since
	signals chan os.Signal
	stops   chan stop
}

func watching(ends ...syscall.Signal) watched {
	w := watched{fake: newFake(ends...), clock: newClock(), signals: make(chan os.Signal, 8), stops: make(chan stop, 2)}
	w.fake.now = w.clock.now
	w.supervision = &supervision{
		process: w.fake, clock: w.clock.now, tick: tick, signals: w.signals, stops: w.stops, killAfter: 10 * sec, log: quiet,
	}
	return w
}

func after(d time.Duration, f func()) { time.AfterFunc(d, f) }

var errLease = errors.New("the lease")

func TestCommandEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching()
		after(5*sec, func() { w.fake.end(Exit{Code: 3}) })
		e := w.watch(t.Context())
		r := w.result(e)
		if r.Class != Finished || r.Exit.Code != 3 || r.Signal != 0 || len(w.fake.signals()) != 0 || w.clock.now() != 5*sec {
			t.Errorf("%+v after %v, signals %v", r, w.clock.now(), w.fake.signals())
		}
	})
}

// What becomes of those who outlive a command that ended by itself.
func TestLeftovers(t *testing.T) {
	const buried = 20 * sec
	for _, tc := range []struct {
		policy Leftovers
		signal syscall.Signal // comes to flockd at 10 s; with Name while it looks whether they end
		over   time.Duration  // at most one look later
		got    []string
		said   string
	}{
		{Name, 0, 5*sec + settle, nil, "left behind"},
		{Name, syscall.SIGTERM, 5*sec + settle, nil, "left behind"},
		{Leave, 0, 5 * sec, nil, ""},
		{Await, 0, buried, nil, "rest (7)"},
		{Await, syscall.SIGWINCH, buried, []string{"pass window changed 10s"}, "rest (7)"},
		{Await, syscall.SIGINT, buried, []string{"terminated 10s", "continued 10s", "killed 20s"}, "rest (7)"},
		{Purge, 0, buried, []string{"terminated 5s", "continued 5s", "killed 15s"}, "can't be killed"},
	} {
		t.Run(string(tc.policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said records
				w := watching()
				w.leftovers, w.log, w.fake.tough = tc.policy, said.logger(), true
				w.onLeft = func(left []Process) { w.log.Warn("left behind", "left", left) }
				after(5*sec, func() { w.fake.end(Exit{Code: 3}) })
				at := 10 * sec
				if tc.policy == Name {
					at = 5*sec + settle/2
				}
				after(at, func() {
					if tc.signal != 0 {
						w.signals <- tc.signal
					}
				})
				after(buried, w.fake.bury)
				r := w.result(w.watch(t.Context()))
				over := w.clock.now()
				if late := over - tc.over; r.Class != Finished || r.Exit.Code != 3 || late < 0 || late > lookMax || tc.policy == Name && late > 0 {
					t.Errorf("%+v after %v", r, over)
				}
				got := w.fake.signals()
				if got = got[:min(len(got), 3)]; !slices.Equal(got, tc.got) { // KILL is repeated
					t.Errorf("signals %v", got)
				}
				if want := tc.said != ""; want != (said.count("left=") == 1) || want && said.count(tc.said) != 1 {
					t.Errorf("it said %s", said.String())
				}
				time.Sleep(buried) // of the bubble: nothing is left behind
			})
		})
	}
}

func TestLeaseStopsTheCommand(t *testing.T) {
	for _, tc := range []struct {
		name string
		ends []syscall.Signal
		want []string
		exit int
	}{
		{"that takes TERM", []syscall.Signal{syscall.SIGTERM}, []string{"terminated 5s", "continued 5s"}, 143},
		{"that doesn't", nil, []string{"terminated 5s", "continued 5s", "killed 9s"}, 137},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := watching(tc.ends...)
				after(5*sec, func() { w.stops <- stop{9 * sec, errLease} })
				r := w.result(w.watch(t.Context()))
				if r.Class != Lost || r.Err != errLease || r.Exit.Code != tc.exit || !slices.Equal(w.fake.signals(), tc.want) {
					t.Errorf("%+v, signals %q", r, w.fake.signals())
				}
			})
		})
	}
}

func TestRestOfTheTreeIsKilledInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching(syscall.SIGTERM)
		w.fake.tough = true
		after(5*sec, func() { w.stops <- stop{9 * sec, errLease} })
		after(30*sec, w.fake.bury) // it sleeps where no signal reaches it
		w.watch(t.Context())
		if want := []string{"terminated 5s", "continued 5s", "killed 9s"}; len(w.fake.signals()) < 3 || !slices.Equal(w.fake.signals()[:3], want) {
			t.Errorf("signals %q, want %q first", w.fake.signals(), want)
		}
		if at := w.clock.now(); at < 30*sec || at > 30*sec+lookMax {
			t.Errorf("over after %v", at)
		}
	})
}

func TestWokenTooLateKillsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching(syscall.SIGTERM)
		after(5*sec, func() { w.stops <- stop{4 * sec, errLease} })
		w.watch(t.Context())
		if want := []string{"killed 5s"}; !slices.Equal(w.fake.signals(), want) {
			t.Errorf("signals %q, want %q", w.fake.signals(), want)
		}
	})
}

func TestSuspendBetweenTermAndKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching()
		after(5*sec, func() { w.stops <- stop{60 * sec, errLease} })
		after(10*sec, func() { w.clock.sleep(time.Hour) })
		w.watch(t.Context())
		if at := w.clock.now(); at > time.Hour+10*sec+tick {
			t.Errorf("killed after %v", at)
		}
	})
}

func TestSecondStopBringsTheFirstForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching()
		after(5*sec, func() { w.stops <- stop{15 * sec, ErrExpiring} })
		after(6*sec, func() { w.stops <- stop{8 * sec, errLease} })
		after(7*sec, func() { w.stops <- stop{80 * sec, errLease} })
		w.watch(t.Context())
		if want := []string{"terminated 5s", "continued 5s", "killed 8s"}; !slices.Equal(w.fake.signals(), want) {
			t.Errorf("signals %q, want %q", w.fake.signals(), want)
		}
	})
}

func TestWarnLetsItRunOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching()
		w.warn = syscall.SIGURG
		after(5*sec, func() { w.stops <- stop{6 * sec, errLease} })
		after(time.Hour, func() { w.fake.end(Exit{}) })
		r := w.result(w.watch(t.Context()))
		if want := []string{"pass urgent I/O condition 5s"}; r.Class != Lost || r.Exit.Code != 0 || !slices.Equal(w.fake.signals(), want) {
			t.Errorf("%+v, signals %q", r, w.fake.signals())
		}
	})
}

func TestMaxRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching()
		w.maxRuntime = time.Minute
		r := w.result(w.watch(t.Context()))
		want := []string{"terminated 1m0s", "continued 1m0s", "killed 1m10s"}
		if r.Class != MaxRuntime || !slices.Equal(w.fake.signals(), want) {
			t.Errorf("%+v, signals %q", r, w.fake.signals())
		}
	})
}

func TestLossAfterMaxRuntimeIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching()
		w.maxRuntime = time.Minute
		after(62*sec, func() { w.stops <- stop{64 * sec, errLease} })
		r := w.result(w.watch(t.Context()))
		if at := w.clock.now(); r.Class != Lost || at > 64*sec+lookMax {
			t.Errorf("%+v after %v", r, at)
		}
	})
}

func TestSignalsArePassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching(syscall.SIGINT)
		w.signals <- syscall.SIGUSR1 // between the grant and the start
		after(sec, func() { w.signals <- syscall.SIGHUP })
		after(2*sec, func() { w.signals <- syscall.SIGINT })
		r := w.result(w.watch(t.Context()))
		want := []string{"pass user defined signal 1 0s", "pass hangup 1s", "pass interrupt 2s"}
		if r.Class != Finished || r.Signal != syscall.SIGINT || !slices.Equal(w.fake.signals(), want) {
			t.Errorf("%+v, signals %q", r, w.fake.signals())
		}
	})
}

func TestEndOfTheContextStopsTheCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching()
		ctx, cancel := context.WithCancelCause(t.Context())
		after(sec, func() { cancel(errLease) })
		r := w.result(w.watch(ctx))
		want := []string{"terminated 1s", "continued 1s", "killed 11s"}
		if r.Class != Interrupted || r.Err != errLease || !slices.Equal(w.fake.signals(), want) {
			t.Errorf("%+v, signals %q", r, w.fake.signals())
		}
	})
}

// Who can't wait for a stop has the command killed, but nobody who isn't being stopped.
func TestHurry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching()
		hurry := make(chan struct{})
		w.hurry = hurry
		var told []string
		w.onTold = func(why error, left time.Duration) { told = append(told, why.Error()+" "+left.String()) }
		close(hurry)
		ctx, cancel := context.WithCancelCause(t.Context())
		after(5*sec, func() { cancel(errors.New("enough")) })
		r := w.result(w.watch(ctx))
		if want := []string{"terminated 5s", "continued 5s", "killed 5s"}; r.Class != Interrupted || !slices.Equal(w.fake.signals(), want) {
			t.Errorf("%+v, signals %q", r, w.fake.signals())
		}
		if want := []string{"enough 10s"}; !slices.Equal(told, want) {
			t.Errorf("told %q", told)
		}
	})
}
