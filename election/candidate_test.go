package election

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"flockd/backends"
	"flockd/backends/mem"
	"flockd/runner"
)

const sec = time.Second

// patience is how long an event may take on a busy machine.
const patience = 30 * time.Second

// play is a command without processes, and the rest of a term under it: a runner that stands in
// line, leads and gives the key back, all in a bubble.
type play struct {
	store *mem.Store
	// command runs until it returns its exit code, or until told ends, which is when it is told to
	// end; killed ends when it is killed.
	command func(term int, told, killed <-chan struct{}, passed <-chan os.Signal) int
	terms   int
	ids     []string
	// fails is what comes of a term instead; nil or a zero Class: nothing.
	fails func(term int) runner.Result
}

func (p *play) run(ctx context.Context, o runner.Options) runner.Result {
	p.terms++
	p.ids = append(p.ids, o.Request.ID)
	if p.fails != nil {
		if res := p.fails(p.terms); res.Class != "" {
			return res
		}
	}
	lease, ok := p.stand(ctx, o)
	if !ok {
		p.store.Release(context.WithoutCancel(ctx), o.Request.Key, o.Request.ID, backends.Outcome{})
		return runner.Result{Class: runner.Interrupted, Err: context.Cause(ctx)}
	}
	res := p.lead(ctx, o, lease)
	o.OnGone(res)
	p.store.Release(context.WithoutCancel(ctx), lease.Key, lease.ID, backends.Outcome{})
	return res
}

func (p *play) stand(ctx context.Context, o runner.Options) (backends.Lease, bool) {
	for {
		req := o.Request
		req.Place = 15 * sec
		lease, err := p.store.Acquire(ctx, req)
		if err == nil {
			o.OnRenew(lease.TTL)
			return lease, true
		}
		held, _ := err.(*backends.HeldError)
		if held != nil {
			o.OnWait(held)
		}
		ask, cancel := context.WithTimeout(ctx, 5*sec)
		p.store.Wait(ask, held)
		cancel()
		if ctx.Err() != nil {
			return lease, false
		}
	}
}

// lead leads, until the command has ended.
func (p *play) lead(ctx context.Context, o runner.Options, lease backends.Lease) runner.Result {
	o.OnStart(lease)
	told, killed, code := make(chan struct{}), make(chan struct{}), make(chan int, 1)
	go func() { code <- p.command(p.terms, told, killed, o.Signals) }()
	res := runner.Result{Class: runner.Finished, Lease: lease}
	stop := func(class runner.Class, why error) {
		if res.Class == runner.Finished {
			close(told)
		}
		res.Class, res.Err = class, why
		o.OnStop(why, o.Grace)
	}
	done, hurry := ctx.Done(), o.Hurry
	for tick := time.Tick(lease.TTL / 3); ; {
		select {
		case <-tick:
			r, err := p.store.Renew(context.WithoutCancel(ctx), lease)
			switch {
			case err != nil:
				stop(runner.Lost, &runner.LostError{Err: err, Notice: err.(*backends.RemovedError).Notice})
			case r.Notice != (backends.Notice{}):
				stop(runner.Lost, &runner.LostError{Notice: r.Notice})
			default:
				o.OnRenew(lease.TTL)
			}
		case <-done:
			done = nil
			stop(runner.Interrupted, context.Cause(ctx))
		case <-hurry:
			hurry = nil
			close(killed)
		case res.Exit.Code = <-code:
			return res
		}
	}
}

// stage is a candidate in a bubble.
type stage struct {
	*play
	signals chan os.Signal
	asks    chan chan<- error
	states  []string
	began   time.Time
}

func newStage() *stage {
	return &stage{play: &play{store: mem.New()}, signals: make(chan os.Signal, 8), asks: make(chan chan<- error), began: time.Now()}
}

func (s *stage) campaign(ctx context.Context, restart Restart) Result {
	return s.candidate(restart).campaign(ctx)
}

func (s *stage) candidate(restart Restart) *candidate {
	c := newCandidate(Options{
		Term: runner.Options{Backend: s.store, Grace: 10 * sec, Request: backends.Request{
			Key: "svc", Owner: backends.Owner{Host: "web1"}, Mode: backends.Exclusive, TTL: 15 * sec,
		}},
		Restart: restart, Signals: s.signals, Changed: s.changed, Asks: s.asks,
	})
	c.run = s.run
	return c
}

// changed notes a state, and when it came.
func (s *stage) changed(st State) {
	text := fmt.Sprint(st.Phase)
	switch {
	case st.Held != nil && len(st.Held.Holders) > 0:
		text += " behind " + st.Held.Holders[0].Owner.Host
	case st.Held != nil:
		text += " behind nobody"
	case st.Pause != 0:
		text += " for " + st.Pause.String()
	case st.Err != nil:
		text += ": " + st.Err.Error()
	}
	s.states = append(s.states, fmt.Sprint(time.Since(s.began).Truncate(time.Second), " ", text))
}

func (s *stage) saw(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(s.states, want) {
		t.Errorf("it saw\n%q, want\n%q", s.states, want)
	}
}

// free reports whether nobody holds the key or stands in line.
func (s *stage) free(t *testing.T) bool {
	t.Helper()
	status, err := s.store.Inspect(context.Background(), "svc")
	if err != nil {
		t.Fatal(err)
	}
	return len(status.Line) == 0
}

func (s *stage) after(d time.Duration, f func()) { time.AfterFunc(d, f) }

// obedient ends when it is told to.
func obedient(_ int, told, _ <-chan struct{}, _ <-chan os.Signal) int { <-told; return 143 }

func takes(d time.Duration, code int) func(int, <-chan struct{}, <-chan struct{}, <-chan os.Signal) int {
	return func(_ int, told, _ <-chan struct{}, _ <-chan os.Signal) int {
		select {
		case <-time.After(d):
			return code
		case <-told:
			return 143
		}
	}
}

func TestTermResigns(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage()
			s.command = obedient
			s.after(40*sec, func() { s.signals <- sig })
			r := s.campaign(t.Context(), Always)
			if !r.Resigned || r.Signal != sig || r.Class != runner.Interrupted || r.Exit.Code != 143 || r.Lease.Token == 0 || !s.free(t) {
				t.Errorf("%+v", r)
			}
			s.saw(t, "0s campaigning", "0s leading", fmt.Sprintf("40s stopping: told to resign by signal %d", sig))
		})
	}
}

func TestContextResigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.command = obedient
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		s.after(sec, func() { cancel(why) })
		if r := s.campaign(ctx, Always); r.Resigned || r.Class != runner.Interrupted || r.Err != why || !s.free(t) {
			t.Errorf("%+v", r)
		}
	})
}

// A second signal kills at once, and not one that comes to nothing.
func TestSecondSignalKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.command = func(_ int, _, killed <-chan struct{}, _ <-chan os.Signal) int { <-killed; return 137 }
		for i, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
			s.after(time.Duration(i+1)*sec, func() { s.signals <- sig })
		}
		r := s.campaign(t.Context(), Always)
		if took := time.Since(s.began); !r.Resigned || r.Signal != syscall.SIGTERM || r.Exit.Code != 137 || took != 3*sec {
			t.Errorf("%+v after %v", r, took)
		}
	})
}

// In line and at rest nobody runs who would have to be stopped.
func TestResignsWithoutACommand(t *testing.T) {
	t.Run("in line", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStage()
			other := backends.Request{Key: "svc", ID: backends.NewID(), Owner: backends.Owner{Host: "web2"}, Mode: backends.Exclusive, TTL: time.Hour}
			if _, err := s.store.Acquire(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			s.after(20*sec, func() { s.signals <- syscall.SIGTERM })
			r := s.campaign(t.Context(), Always)
			status, _ := s.store.Inspect(t.Context(), "svc")
			if !r.Resigned || r.Signal != syscall.SIGTERM || r.Lease.Token != 0 || len(status.Line) != 1 || time.Since(s.began) != 20*sec {
				t.Errorf("%+v after %v, left %v", r, time.Since(s.began), status.Line)
			}
			s.saw(t, "0s campaigning", "0s campaigning behind web2")
		})
	})
	t.Run("at rest", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStage()
			s.command = takes(sec, 1)
			s.after(1500*time.Millisecond, func() { s.signals <- syscall.SIGINT })
			r := s.campaign(t.Context(), Always)
			if !r.Resigned || r.Signal != syscall.SIGINT || r.Class != runner.Interrupted || time.Since(s.began) != 1500*time.Millisecond {
				t.Errorf("%+v after %v", r, time.Since(s.began))
			}
			s.saw(t, "0s campaigning", "0s leading", "1s resting for 1s")
		})
	})
}

// A candidate without a terminal hands HUP and QUIT on; with one they are the terminal's end, or
// a key.
func TestSignalsThatPass(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		for sig, passes := range map[syscall.Signal]bool{
			syscall.SIGUSR1: true, syscall.SIGUSR2: true, syscall.SIGWINCH: true, syscall.SIGCONT: true,
			syscall.SIGHUP: !terminal, syscall.SIGQUIT: !terminal, syscall.SIGTERM: false, syscall.SIGINT: false,
		} {
			if resigns(sig, terminal) != !passes {
				t.Errorf("terminal %v: %v resigns: %v", terminal, sig, passes)
			}
		}
	}
}

func TestSignalsReachTheCommandThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		var got []string
		s.command = func(term int, told, _ <-chan struct{}, passed <-chan os.Signal) int {
			if term == 1 {
				got = append(got, (<-passed).String())
				return 1
			}
			for {
				select {
				case sig := <-passed:
					got = append(got, sig.String())
				case <-told:
					return 143
				}
			}
		}
		s.after(sec, func() { s.signals <- syscall.SIGHUP })
		s.after(1500*time.Millisecond, func() { s.signals <- syscall.SIGHUP; s.signals <- syscall.SIGUSR1 }) // it rests
		s.after(3*sec, func() { s.signals <- syscall.SIGUSR2 })
		s.after(4*sec, func() { s.signals <- syscall.SIGTERM })
		if r := s.campaign(t.Context(), Always); !r.Resigned {
			t.Errorf("%+v", r)
		}
		if want := []string{"hangup", "user defined signal 2"}; !slices.Equal(got, want) {
			t.Errorf("it got %q", got)
		}
	})
}

// A signal that comes when its command has been started is passed to it, though that was not yet
// followed.
func TestSignalAtTheStart(t *testing.T) {
	for range 50 { // chance decides what is looked at first
		s := newStage()
		c := s.candidate(Always)
		passed, done := make(chan os.Signal, passedKept), make(chan struct{})
		c.options(passed).OnStart(backends.Lease{})
		s.signals <- syscall.SIGHUP
		go func() {
			<-passed
			close(done)
		}()
		c.attend(time.After(patience), done)
		select {
		case <-done:
		default:
			t.Fatal("it is dropped")
		}
	}
}

// A command that ends gives the key away, and the pause before it is asked for again doubles.
func TestRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.command = takes(0, 7)
		s.after(4*sec+sec/2, func() {
			if !s.free(t) {
				t.Error("it rests in line")
			}
			s.signals <- syscall.SIGTERM
		})
		s.campaign(t.Context(), Always)
		s.saw(t, "0s campaigning", "0s leading", "0s resting for 1s", "1s campaigning", "1s leading", "1s resting for 2s",
			"3s campaigning", "3s leading", "3s resting for 4s")
		slices.Sort(s.ids)
		if ids := slices.Compact(s.ids); len(ids) != 3 {
			t.Errorf("the terms' IDs: %q", ids)
		}
	})
}

func TestEndsWithItsCommand(t *testing.T) {
	for _, tc := range []struct {
		restart Restart
		code    int
	}{{Never, 0}, {Never, 9}, {OnFailure, 0}} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage()
			s.command = takes(sec, tc.code)
			r := s.campaign(t.Context(), tc.restart)
			if r.Resigned || r.Class != runner.Finished || r.Exit.Code != tc.code || s.terms != 1 || !s.free(t) {
				t.Errorf("%s, %d: %+v, %d terms", tc.restart, tc.code, r, s.terms)
			}
		})
	}
}

// Whoever is asked to resign, or loses the key, campaigns again at once, behind those who wait,
// whatever is to become of a command that ends by itself.
func TestDeposedCampaignsAgain(t *testing.T) {
	for _, force := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage()
			s.command = obedient
			next := backends.Request{Key: "svc", ID: backends.NewID(), Owner: backends.Owner{Host: "web2"}, Mode: backends.Exclusive, TTL: time.Hour, Place: time.Hour}
			s.after(sec, func() {
				s.store.Acquire(t.Context(), next) // waits
				notice := backends.Notice{Kind: backends.Resign, By: backends.Owner{User: "ops", Host: "desk"}, Reason: "maintenance", Force: force}
				if err := s.store.Ask(t.Context(), "svc", s.ids[0], notice); err != nil {
					t.Error(err)
				}
			})
			s.after(6*sec, func() {
				if _, err := s.store.Acquire(t.Context(), next); err != nil {
					t.Error(err)
				}
			})
			s.after(30*sec, func() { s.signals <- syscall.SIGTERM })
			r := s.campaign(t.Context(), Never)
			if !r.Resigned || s.terms != 2 {
				t.Errorf("%+v, %d terms", r, s.terms)
			}
			why := "asked to resign"
			if force {
				why = "broken"
			}
			s.saw(t, "0s campaigning", "0s leading", "5s stopping: "+why+" by ops@desk: maintenance", "5s campaigning", "5s campaigning behind nobody", "10s campaigning behind web2")
		})
	}
}

// A place that was taken from it is no reason to give up, nor is a store that refuses later.
func TestCampaignsAgainWhateverHappensInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.command = takes(sec, 0)
		s.fails = func(term int) runner.Result {
			switch term {
			case 2:
				return runner.Result{Class: runner.Skipped, Err: runner.ErrLapsed}
			case 3, 4:
				return runner.Result{Class: runner.Unavailable, Err: backends.Refuse("", "wrong password")}
			}
			return runner.Result{}
		}
		s.after(30*sec, func() { s.signals <- syscall.SIGTERM })
		r := s.campaign(t.Context(), Always)
		s.saw(t, "0s campaigning", "0s leading", "1s resting for 1s", "2s campaigning", "2s campaigning", "2s resting for 2s",
			"4s campaigning", "4s resting for 4s", "8s campaigning", "8s leading", "9s resting for 8s", "17s campaigning", "17s leading", "18s resting for 16s")
		if !r.Resigned {
			t.Errorf("%+v", r)
		}
	})
}

func TestRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		no := backends.Refuse("", "wrong password")
		s.fails = func(int) runner.Result { return runner.Result{Class: runner.Unavailable, Err: no} }
		if r := s.campaign(t.Context(), Always); r.Class != runner.Unavailable || r.Err != no || s.terms != 1 {
			t.Errorf("%+v, %d terms", r, s.terms)
		}
	})
}

// A watchdog is told while all is well, and when it isn't.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		stop := make(chan struct{})
		s.fails = func(term int) runner.Result { return runner.Result{} }
		s.command = func(_ int, told, _ <-chan struct{}, _ <-chan os.Signal) int { <-told; <-stop; return 143 }
		ask := func() error {
			answer := make(chan error, 1)
			s.asks <- answer
			return <-answer
		}
		s.after(time.Hour, func() {
			if err := ask(); err != nil {
				t.Errorf("it leads: %v", err)
			}
			s.signals <- syscall.SIGTERM
		})
		s.after(time.Hour+11*sec, func() {
			if err := ask(); err != nil {
				t.Errorf("it stops: %v", err)
			}
		})
		s.after(time.Hour+13*sec, func() {
			if err := ask(); err != errLives {
				t.Errorf("its command can't be killed: %v", err)
			}
			close(stop)
		})
		s.campaign(t.Context(), Always)
	})
}

// A lease that ends while its command isn't told is what a watchdog is there for.
func TestHealthWithoutALease(t *testing.T) {
	c := newCandidate(Options{})
	c.change(State{Phase: Leading})
	c.renewed(-1)
	if err := c.health(); err != errLeads {
		t.Error(err)
	}
	c.renewed(time.Hour)
	if err := c.health(); err != nil {
		t.Error(err)
	}
	c.stops(errors.New("why"), time.Hour)
	c.renewed(-1)
	if err := c.health(); err != nil {
		t.Error(err)
	}
}
