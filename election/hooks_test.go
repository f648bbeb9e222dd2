package election

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"flockd/backends"
	"flockd/runner"
)

func TestHowATermEnds(t *testing.T) {
	for want, results := range map[Deposed][]runner.Result{
		Asked: {{Class: runner.Lost, Err: &runner.LostError{Notice: backends.Notice{Kind: backends.Resign}}}},
		Lost: {
			{Class: runner.Lost, Err: &runner.LostError{Err: runner.ErrExpiring}},
			{Class: runner.Lost, Err: &runner.LostError{Err: backends.ErrLost, Notice: backends.Notice{Kind: backends.Break, Force: true}}},
		},
		Resigned: {{Class: runner.Interrupted}},
		Ended:    {{Class: runner.Finished}, {Class: runner.Finished, Exit: runner.Exit{Code: 3}}},
	} {
		for _, res := range results {
			if got := deposed(res); got != want {
				t.Errorf("%+v: %s, want %s", res, got, want)
			}
		}
	}
}

// A term's OnDeposed doesn't hold up the next term, whose OnElected waits for it, and so does
// the next OnDeposed. Campaign waits for the last one.
func TestHooksDoNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.command = takes(sec, 1)
		var said []string
		var mu sync.Mutex
		say := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, time.Since(s.began).Truncate(sec).String()+" "+what)
		}
		c := s.candidate(OnFailure)
		var log bytes.Buffer
		c.o.Term.Log = slog.New(slog.NewTextHandler(&log, nil))
		c.o.OnElected, c.o.OnDeposed = &Hook{Limit: sec}, &Hook{Limit: 10 * sec}
		c.hooks.aside = func(_ runner.Command, env []string, h *Hook) error {
			how := env[len(env)-1]
			say(how)
			time.Sleep(h.Limit)
			say("after " + how)
			return errors.New("killed after 10s")
		}
		// Terms from 0 s, 2 s and 5 s on, each of 1 s.
		c.run = func(ctx context.Context, o runner.Options) runner.Result {
			if o.Beside.Limit != sec || (o.Beside.After == nil) != (s.terms == 0) || o.Beside.After != c.hooks.last {
				t.Errorf("term %d: beside the command: %+v", s.terms+1, o.Beside)
			}
			return s.run(ctx, o)
		}
		s.after(5500*time.Millisecond, func() { s.signals <- syscall.SIGTERM })
		s.after(6*sec, func() {
			if got := c.hooks.longest(); got != 3*10*sec+given {
				t.Errorf("three hooks have yet to end, which takes %v", got)
			}
		})
		if r := c.campaign(t.Context()); !r.Resigned || s.terms != 3 {
			t.Errorf("%+v, %d terms", r, s.terms)
		}
		if want := []string{
			"1s FLOCKD_DEPOSED=ended", "11s after FLOCKD_DEPOSED=ended", "11s FLOCKD_DEPOSED=ended",
			"21s after FLOCKD_DEPOSED=ended", "21s FLOCKD_DEPOSED=resigned", "31s after FLOCKD_DEPOSED=resigned",
		}; !slices.Equal(said, want) {
			t.Errorf("%q", said)
		}
		if got := strings.Count(log.String(), "hook=on-deposed"); got != 3 {
			t.Errorf("%d warnings: %s", got, log.String())
		}
	})
}

// Nobody is deposed who never led.
func TestNoTermNoHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.fails = func(int) runner.Result { return runner.Result{Class: runner.NotStarted, Err: os.ErrNotExist} }
		c := s.candidate(Never)
		c.o.OnDeposed = &Hook{Limit: sec}
		c.hooks.aside = func(runner.Command, []string, *Hook) error { t.Error("it was called"); return nil }
		if r := c.campaign(t.Context()); r.Class != runner.NotStarted {
			t.Errorf("%+v", r)
		}
	})
}

// How a term came out is told before its hook has anything to say.
func TestGoneBeforeTheHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.command = obedient
		c := s.candidate(Always)
		var order []string
		c.o.Gone = func(res runner.Result) { order = append(order, fmt.Sprint("gone ", res.Exit.Code)) }
		c.o.OnDeposed = &Hook{Limit: 10 * sec}
		c.hooks.aside = func(runner.Command, []string, *Hook) error {
			order = append(order, "hook")
			return nil
		}
		s.after(sec, func() { s.signals <- syscall.SIGTERM })
		c.campaign(t.Context())
		if want := []string{"gone 143", "hook"}; !slices.Equal(order, want) {
			t.Errorf("%q, want %q", order, want)
		}
	})
}
