package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"flockd/backends"
	"flockd/election"
	"flockd/runner"
)

// accounts are what a candidate with these options says of its states, and of its end, and what it
// has shown.
func accounts(o runOptions, states []election.State, end *election.Result) (said string, shown []string) {
	var b bytes.Buffer
	o.key = "svc"
	o.backend, _ = backends.ParseURL("redis://u:hunter2@h/0")
	o.argv = []string{"daemon"}
	a := &app{print: newPrinter(&b, o.json, o.quiet, o.verbose)}
	a.print.secrets = secretsOf(o.backend)
	r := &lockedRun{app: a, runOptions: &o, file: &resultFile{}}
	c := &candidate{lockedRun: r, account: &account{key: "svc", say: r.say, status: func(text string) { shown = append(shown, text) }}}
	for _, s := range states {
		c.account.changed(s)
	}
	if end != nil {
		c.report(*end)
	}
	return b.String(), slices.Compact(shown)
}

// leader is a claim that leads.
func leader(id string, term backends.Token) backends.Claim {
	c := holder()
	c.ID, c.Token, c.Mode, c.Owner.Command = id, term, backends.Exclusive, "daemon"
	return c
}

func campaigning(held *backends.HeldError) election.State {
	return election.State{Phase: election.Campaigning, Held: held}
}

var (
	leading  = election.State{Phase: election.Leading, Lease: backends.Lease{Token: 13}}
	resigns  = &election.ResignedError{Signal: syscall.SIGTERM}
	stopping = func(why error) election.State {
		return election.State{Phase: election.Stopping, Lease: leading.Lease, Err: why}
	}
	endedWith = func(code int) runner.Exit { return runner.Exit{Code: code, Started: asOf, Ended: asOf} }
	termed    = runner.Exit{Code: 143, Signal: syscall.SIGTERM, Started: asOf, Ended: asOf}
)

func TestCandidateSays(t *testing.T) {
	inZone(t)
	next := leader("c", 0)
	asked := backends.Notice{Kind: backends.Resign, By: backends.Owner{User: "ops", Host: "h"}, Reason: "update"}
	lost := func(n backends.Notice, err error) *runner.LostError {
		return &runner.LostError{Key: "svc", Token: 13, Notice: n, Err: err}
	}
	after := func(p election.Phase, res runner.Result) election.State {
		return election.State{Phase: p, Last: &res, Pause: 4 * time.Second}
	}
	for name, c := range map[string]struct {
		states []election.State
		end    *election.Result
		want   string
		quiet  string // with -q
	}{
		"each leader once, and nobody in between": {
			states: []election.State{
				campaigning(nil), campaigning(taken(1, 1, leader("a", 12))), campaigning(taken(0, 0, leader("a", 12))),
				campaigning(&backends.HeldError{AsOf: asOf, Next: &next}), campaigning(taken(0, 1, leader("b", 13))),
			},
			want: "flockd: campaigning for svc: led by root@web2 (pid 4711, daemon), term 12, since 2026-11-27 01:00:02 +0800 (2d3h ago); place 2 of 2\n" +
				"flockd: campaigning for svc: led by root@web2 (pid 4711, daemon), term 13, since 2026-11-27 01:00:02 +0800 (2d3h ago); place 1 of 2\n",
		},
		"nobody leads": {
			states: []election.State{campaigning(&backends.HeldError{AsOf: asOf, Next: &next, Waiters: 1, Ahead: 1}), leading},
			want:   "flockd: campaigning for svc: nobody leads; place 2 of 2\nflockd: elected: leads svc, term 13\n",
		},
		"behind one that cools": {
			states: []election.State{campaigning(taken(0, 0, cools(leader("a", 12))))},
			want: "flockd: campaigning for svc: cooling for another 1m, until 2026-11-29 04:01:02 +0800, after root@web2 (pid 4711, daemon) " +
				"for 2d3h, since 2026-11-27 01:00:02 +0800; place 1 of 1\n",
		},
		"it fails": {
			states: []election.State{leading, after(election.Resting, runner.Result{Class: runner.Finished, Exit: endedWith(3)})},
			want: "flockd: elected: leads svc, term 13\nflockd: deposed as leader of svc, term 13: the command exited with 3\n" +
				"flockd: campaigning for svc again in 4s\n",
			quiet: "flockd: deposed as leader of svc, term 13: the command exited with 3\n",
		},
		"it ends well, for good": {
			states: []election.State{leading},
			end:    &election.Result{Result: runner.Result{Class: runner.Finished, Exit: endedWith(0)}},
			want:   "flockd: elected: leads svc, term 13\nflockd: deposed as leader of svc, term 13: the command exited with 0\n",
		},
		"it resigns": {
			states: []election.State{leading, stopping(resigns)},
			end:    &election.Result{Result: runner.Result{Class: runner.Interrupted, Exit: termed, Err: resigns, Signal: syscall.SIGTERM}, Resigned: true},
			want: "flockd: elected: leads svc, term 13\nflockd: stopping the command of svc, term 13: signal TERM\n" +
				"flockd: deposed as leader of svc, term 13: the command was ended by signal TERM\n",
		},
		"it resigns in line": {
			states: []election.State{campaigning(taken(0, 0, leader("a", 12)))},
			end:    &election.Result{Result: runner.Result{Class: runner.Interrupted, Err: resigns, Signal: syscall.SIGTERM}, Resigned: true},
			want: "flockd: campaigning for svc: led by root@web2 (pid 4711, daemon), term 12, since 2026-11-27 01:00:02 +0800 (2d3h ago); place 1 of 1\n" +
				"flockd: no longer a candidate for svc: signal TERM\n",
		},
		"its lease is lost": {
			states: []election.State{leading, stopping(lost(backends.Notice{}, backends.ErrLost)),
				after(election.Campaigning, runner.Result{Class: runner.Lost, Err: lost(backends.Notice{}, backends.ErrLost), Exit: termed})},
			want: "flockd: elected: leads svc, term 13\n" +
				"flockd: deposed as leader of svc, term 13: the lease was lost: the hold is gone; the command was ended by signal TERM\n",
			quiet: "flockd: deposed as leader of svc, term 13: the lease was lost: the hold is gone; the command was ended by signal TERM\n",
		},
		"somebody asks": {
			states: []election.State{leading, stopping(lost(asked, nil)),
				after(election.Campaigning, runner.Result{Class: runner.Lost, Err: lost(asked, nil), Exit: termed})},
			want: "flockd: elected: leads svc, term 13\n" +
				"flockd: deposed as leader of svc, term 13: asked to resign by ops@h: update; the command was ended by signal TERM\n",
		},
		"somebody takes it away": {
			states: []election.State{leading, after(election.Campaigning, runner.Result{Class: runner.Lost, Err: lost(backends.Notice{Force: true, By: asked.By}, backends.ErrLost), Exit: termed})},
			want: "flockd: elected: leads svc, term 13\n" +
				"flockd: deposed as leader of svc, term 13: the lease was lost: broken by ops@h; the command was ended by signal TERM\n",
			quiet: "flockd: deposed as leader of svc, term 13: the lease was lost: broken by ops@h; the command was ended by signal TERM\n",
		},
		"its place is taken away": {
			states: []election.State{campaigning(nil), after(election.Campaigning, runner.Result{Class: runner.Skipped, Err: &backends.RemovedError{Notice: backends.Notice{Kind: backends.Break, Force: true, By: holder().Owner}}})},
			want:   "flockd: no longer in line for svc: its place in line was removed by root@web2 (pid 4711, report.sh)\n",
		},
		"it is refused later": {
			states: []election.State{campaigning(nil), after(election.Resting, runner.Result{Class: runner.Unavailable, Err: backends.Refuse("", "wrong password hunter2")})},
			want:   "flockd: no term of svc: wrong password ***\nflockd: campaigning for svc again in 4s\n",
			quiet:  "flockd: no term of svc: wrong password ***\n",
		},
		"it is refused": {
			states: []election.State{campaigning(nil)},
			end:    &election.Result{Result: runner.Result{Class: runner.Unavailable, Err: backends.Refuse("fix it", "wrong password")}},
			want:   "flockd: can't campaign for svc: the store redis://u:***@h/0 is unavailable: wrong password\nflockd: hint: fix it\n",
			quiet:  "flockd: can't campaign for svc: the store redis://u:***@h/0 is unavailable: wrong password\nflockd: hint: fix it\n",
		},
		"it is enclosed": {
			states: []election.State{campaigning(nil)},
			end:    &election.Result{Result: runner.Result{Class: runner.Nested, Held: taken(0, 0, holder())}},
			want: "flockd: svc is held by root@web2 (pid 4711, report.sh) for 2d3h, since 2026-11-27 01:00:02 +0800; renewed 12s ago; " +
				"the holder encloses this candidate, which would never be elected\nflockd: hint: leave the inner flockd elect out, or give it another key\n",
			quiet: "flockd: svc is held by root@web2 (pid 4711, report.sh) for 2d3h, since 2026-11-27 01:00:02 +0800; renewed 12s ago; " +
				"the holder encloses this candidate, which would never be elected\nflockd: hint: leave the inner flockd elect out, or give it another key\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := accounts(runOptions{}, c.states, c.end); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
			if got, _ := accounts(runOptions{quiet: true}, c.states, c.end); got != c.quiet {
				t.Errorf("with -q\n got %s\nwant %s", got, c.quiet)
			}
			got, _ := accounts(runOptions{json: true}, c.states, c.end)
			for line := range strings.Lines(got) {
				var record map[string]any
				if err := json.Unmarshal([]byte(line), &record); err != nil || strings.Contains(line, "hunter2") {
					t.Errorf("%v: %s", err, line)
				}
			}
		})
	}
}

// How a term came out is said when its command is gone, and then not again.
func TestDeposedIsSaidOnce(t *testing.T) {
	var said []string
	a := &account{key: "svc", status: func(string) {}, say: func(_ slog.Level, text string, _ ...slog.Attr) { said = append(said, text) }}
	res := runner.Result{Class: runner.Interrupted, Exit: termed, Err: resigns, Signal: syscall.SIGTERM}
	a.changed(leading)
	a.gone(res)
	want := []string{"elected: leads svc, term 13", "deposed as leader of svc, term 13: the command was ended by signal TERM"}
	if !slices.Equal(said, want) {
		t.Errorf("when it is gone: %q", said)
	}
	again := res
	a.changed(election.State{Phase: election.Campaigning, Last: &again})
	a.changed(leading)
	a.gone(res)
	if !a.ended(election.Result{Result: res, Resigned: true}) {
		t.Error("something is left to say")
	}
	if want := append(want, want...); !slices.Equal(said, want) {
		t.Errorf("at the end: %q", said)
	}
}

// cools is a claim that isn't held any more.
func cools(c backends.Claim) backends.Claim {
	c.State = backends.Cooling
	return c
}

func TestCandidateShows(t *testing.T) {
	inZone(t)
	noted := leader("a", 12)
	noted.Owner.Note = "a note"
	lost := &runner.LostError{Key: "svc", Token: 13, Err: backends.ErrLost}
	_, got := accounts(runOptions{}, []election.State{
		campaigning(nil), {Phase: election.Campaigning, Err: errors.New("no route")}, campaigning(taken(1, 1, noted)),
		leading, stopping(lost), {Phase: election.Resting, Pause: time.Second}, leading, stopping(resigns),
	}, nil)
	want := []string{
		"campaigning", "campaigning; no answer from the store: no route",
		"campaigning; led by root@web2 (pid 4711, daemon), term 12, since 2026-11-27 01:00:02 +0800",
		"leading, term 13", "stopping: the hold is gone", "resting for 1s", "leading, term 13", "stopping: signal TERM",
	}
	if !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
}

func TestCandidateExitCodes(t *testing.T) {
	for want, res := range map[string]election.Result{
		"0":          {Result: runner.Result{Class: runner.Interrupted, Signal: syscall.SIGTERM, Exit: termed}, Resigned: true},
		"0 or else":  {Result: runner.Result{Class: runner.Interrupted, Signal: syscall.SIGTERM}, Resigned: true},
		"130 INT":    {Result: runner.Result{Class: runner.Interrupted, Signal: syscall.SIGINT}, Resigned: true},
		"79":         {Result: runner.Result{Class: runner.Lost, Signal: syscall.SIGTERM, Err: &runner.LostError{Err: backends.ErrLost}}, Resigned: true},
		"0 or asked": {Result: runner.Result{Class: runner.Lost, Signal: syscall.SIGTERM, Err: &runner.LostError{Notice: backends.Notice{Kind: backends.Resign}}}, Resigned: true},
		"7":          {Result: runner.Result{Class: runner.Finished, Exit: endedWith(7)}},
		"126":        {Result: runner.Result{Class: runner.NotStarted}},
		"69":         {Result: runner.Result{Class: runner.Unavailable}},
		"64":         {Result: runner.Result{Class: runner.Nested}},
	} {
		e := &ended{endOf(res), nil}
		got := fmt.Sprint(e.code())
		if sig := e.signal(); sig != 0 {
			got += " " + signalName(sig)
		}
		if w, _, _ := strings.Cut(want, " or"); got != w {
			t.Errorf("%+v: %s, want %s", res, got, want)
		}
	}
}
