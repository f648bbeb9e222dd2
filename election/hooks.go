package election

import (
	"log/slog"
	"sync/atomic"
	"time"

	"flockd/backends"
	"flockd/runner"
)

// Deposed is how a term came to its end, as FLOCKD_DEPOSED says in the environment of Options.OnDeposed.
type Deposed string

const (
	Resigned Deposed = "resigned" // a signal to the candidate, or the end of its context
	Asked    Deposed = "asked"    // a notice: somebody has asked the leader to go
	Lost     Deposed = "lost"     // the lease
	Ended    Deposed = "ended"    // the command, by itself
)

// deposed is how a term came to its end in which a command ran.
func deposed(res runner.Result) Deposed {
	switch {
	case res.Class == runner.Lost && runner.WasAsked(res.Err):
		return Asked
	case res.Class == runner.Lost:
		return Lost
	case res.Class == runner.Interrupted:
		return Resigned
	}
	return Ended
}

// hooks are the hooks of a candidate, of which none overlaps another.
type hooks struct {
	o     *Options
	aside func(runner.Command, []string, *Hook) error
	last  chan struct{} // closed when the last OnDeposed has ended; nil: there was none
	left  atomic.Int32  // of OnDeposed, those that run or have yet to
}

func newHooks(o *Options) *hooks {
	return &hooks{o: o, aside: func(c runner.Command, env []string, h *Hook) error { return runner.RunAside(c, env, h.Limit) }}
}

// elected is OnElected for the runner. It waits for the OnDeposed of an earlier term.
func (h *hooks) elected() *runner.Beside {
	hook := h.o.OnElected
	if hook == nil {
		return nil
	}
	return &runner.Beside{Command: hook.Command, Limit: hook.Limit, After: h.last, OnEnd: func(why error) { h.failed("on-elected", why) }}
}

// deposed starts OnDeposed, after that of an earlier term.
func (h *hooks) deposed(lease backends.Lease, how Deposed) {
	hook := h.o.OnDeposed
	if hook == nil {
		return
	}
	env := append(runner.Environ(&h.o.Term, hook.Command, lease), "FLOCKD_DEPOSED="+string(how))
	before, ended := h.last, make(chan struct{})
	h.last = ended
	h.left.Add(1)
	go func() {
		defer close(ended)
		defer h.left.Add(-1)
		if before != nil {
			<-before
		}
		if err := h.aside(hook.Command, env, hook); err != nil {
			h.failed("on-deposed", err)
		}
	}()
}

// longest is how long wait may take: where terms are short several stand behind the one that runs.
func (h *hooks) longest() time.Duration {
	if h.o.OnDeposed == nil {
		return given
	}
	return time.Duration(h.left.Load())*h.o.OnDeposed.Limit + given
}

// wait returns when none runs.
func (h *hooks) wait() {
	if h.last != nil {
		<-h.last
	}
}

func (h *hooks) failed(which string, why error) {
	if h.o.Term.Log != nil {
		h.o.Term.Log.Warn("a hook has failed", slog.String("hook", which), slog.String("key", h.o.Term.Request.Key), slog.Any("err", why))
	}
}
