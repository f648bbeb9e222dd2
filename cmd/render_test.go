package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"flockd/backends"
	"flockd/runner"
)

// asOf is the store's clock in these tests.
var asOf = time.Date(2026, 11, 29, 4, 0, 2, 0, time.FixedZone("", 8*3600))

func inZone(t *testing.T) {
	local := time.Local
	time.Local = asOf.Location()
	t.Cleanup(func() { time.Local = local })
}

func holder() backends.Claim {
	return backends.Claim{
		State: backends.Holding, Owner: backends.Owner{User: "root", Host: "web2", PID: 4711, Command: "report.sh"},
		Asked: asOf.Add(-52 * time.Hour), Granted: asOf.Add(-51 * time.Hour), Renewed: asOf.Add(-12 * time.Second), Expires: asOf.Add(time.Minute),
	}
}

func TestSkipLine(t *testing.T) {
	inZone(t)
	cooling, noted, bare := holder(), holder(), holder()
	cooling.State = backends.Cooling
	noted.Owner.Note = "release 4.2"
	bare.Granted, bare.Renewed = time.Time{}, time.Time{}
	next := holder()
	for _, c := range []struct {
		held *backends.HeldError
		want string
	}{
		{&backends.HeldError{Holders: []backends.Claim{holder()}, Waiters: 3},
			"held by root@web2 (pid 4711, report.sh) for 2d3h, since 2026-11-27 01:00:02 +0800; renewed 12s ago; 3 waiting"},
		{&backends.HeldError{Holders: []backends.Claim{noted}},
			"held by root@web2 (pid 4711, report.sh, note: release 4.2) for 2d3h, since 2026-11-27 01:00:02 +0800; renewed 12s ago"},
		{&backends.HeldError{Holders: []backends.Claim{bare}, Waiters: 1}, "held by root@web2 (pid 4711, report.sh); 1 waiting"},
		{&backends.HeldError{Holders: []backends.Claim{bare, holder()}}, "held by root@web2 (pid 4711, report.sh) and 1 more"},
		{&backends.HeldError{Holders: []backends.Claim{cooling}},
			"cooling for another 1m, until 2026-11-29 04:01:02 +0800, after root@web2 (pid 4711, report.sh) for 2d3h, since 2026-11-27 01:00:02 +0800"},
		{&backends.HeldError{Next: &next, Waiters: 2},
			"nobody holds it, next in line is root@web2 (pid 4711, report.sh) in line for 2d4h, since 2026-11-27 00:00:02 +0800; 2 waiting"},
		{&backends.HeldError{}, "taken"},
	} {
		c.held.AsOf = asOf
		if got := heldText(c.held, onlooker); got != c.want {
			t.Errorf("\n got %s\nwant %s", got, c.want)
		}
	}
}

// said is what a run with these options reports of res.
func said(o runOptions, res runner.Result) string {
	var b bytes.Buffer
	if o.backend == nil {
		o.backend, _ = backends.ParseURL("redis://u:hunter2@h/0")
	}
	o.key = "nightly"
	a := &app{print: newPrinter(&b, o.json, o.quiet, o.verbose)}
	a.print.secrets = secretsOf(o.backend)
	(&lockedRun{app: a, runOptions: &o, file: &resultFile{}}).report(res)
	return b.String()
}

func TestReports(t *testing.T) {
	inZone(t)
	held := &backends.HeldError{AsOf: asOf, Holders: []backends.Claim{holder()}, Waiters: 3}
	killed := runner.Exit{Code: 137, Signal: syscall.SIGKILL, Started: asOf, Ended: asOf}
	token := backends.Lease{Token: 42}
	for _, c := range []struct {
		res   runner.Result
		want  string
		quiet string // with -q; "=": the same
	}{
		{runner.Result{Class: runner.Finished}, "", ""},
		{runner.Result{Class: runner.Skipped, Held: held},
			"flockd: skipped nightly: held by root@web2 (pid 4711, report.sh) for 2d3h, since 2026-11-27 01:00:02 +0800; renewed 12s ago; 3 waiting\n", ""},
		{runner.Result{Class: runner.Skipped, Err: errors.New("refused")}, "flockd: skipped nightly: the store redis://u:***@h/0 is unavailable: refused\n", ""},
		{runner.Result{Class: runner.Done, Err: &backends.DoneError{Entry: backends.Entry{Run: "r1", Owner: holder().Owner}}},
			"flockd: nightly: r1 has succeeded already: by root@web2 (pid 4711, report.sh)\n", ""},
		{runner.Result{Class: runner.Lost, Lease: token, Err: backends.ErrLost, Exit: killed},
			"flockd: lost the lock on nightly (token 42): the hold is gone; the command was ended by signal KILL\n", "="},
		{runner.Result{Class: runner.MaxRuntime, Exit: killed}, "flockd: stopped nightly after --max-runtime 1h: the command was ended by signal KILL\n", "="},
		{runner.Result{Class: runner.Unavailable, Err: errors.New("dial redis://u:hunter2@h: no route")},
			"flockd: no lock on nightly: the store redis://u:***@h/0 is unavailable: dial redis://u:***@h: no route; the command did not run\n", "="},
		{runner.Result{Class: runner.Unavailable, Err: fmt.Errorf("acquire: %w", backends.Refuse("fix it", "wrong password"))},
			"flockd: no lock on nightly: the store redis://u:***@h/0 is unavailable: acquire: wrong password; the command did not run\nflockd: hint: fix it\n", "="},
		{runner.Result{Class: runner.Interrupted, Signal: syscall.SIGTERM}, "flockd: stopped waiting for nightly: signal TERM\n", ""},
		{runner.Result{Class: runner.Nested, Held: held},
			"flockd: nightly is held by root@web2 (pid 4711, report.sh) for 2d3h, since 2026-11-27 01:00:02 +0800; renewed 12s ago; 3 waiting; " +
				"the holder encloses this run: the wait would never end\nflockd: hint: leave the inner flockd run out, or give it another key\n", "="},
		{runner.Result{Class: runner.NotStarted, Err: fmt.Errorf("fork/exec x: %w", syscall.ENOEXEC)},
			"flockd: cmd: exec format error\nflockd: hint: a script needs a first line such as #!/bin/sh\n", "="},
		{runner.Result{Class: runner.BadGrace, Err: &runner.GraceError{Grace: time.Minute, TTL: time.Minute, Largest: 20 * time.Second, Fits: 3 * time.Minute}},
			"flockd: --grace 1m doesn't fit a TTL of 1m, which allows 20s at most\nflockd: hint: --ttl 3m has room for it\n", "="},
		{runner.Result{Class: runner.Internal, Err: errors.New("oh")}, "flockd: oh\n", "="},
	} {
		o := runOptions{argv: []string{"cmd"}, maxRuntime: time.Hour}
		if got := said(o, c.res); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.res.Class, got, c.want)
		}
		o.quiet = true
		if c.quiet == "=" {
			c.quiet = c.want
		}
		if got := said(o, c.res); got != c.quiet {
			t.Errorf("%s with -q: %s", c.res.Class, got)
		}
		o.quiet, o.json = false, true
		for line := range strings.Lines(said(o, c.res)) {
			var record map[string]any
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				t.Errorf("%s: %v: %s", c.res.Class, err, line)
			}
			if strings.Contains(line, "hunter2") {
				t.Errorf("the secret is shown: %s", line)
			}
		}
	}
}

func TestForeignTextIsHarmless(t *testing.T) {
	evil := "x\x1b[2J\r\x00\u202e\u2066\x7f\u0085\ny\xff"
	c := holder()
	c.Owner = backends.Owner{User: evil, Host: evil, Command: evil, Note: evil}
	got := said(runOptions{}, runner.Result{Class: runner.Skipped, Held: &backends.HeldError{AsOf: asOf, Holders: []backends.Claim{c}}})
	if strings.Count(got, "\n") != 1 || strings.ContainsAny(got, "\x1b\r\x00\u202e\u2066\x7f\u0085") || !strings.Contains(got, "x[2J y") {
		t.Errorf("%q", got)
	}
	got = said(runOptions{json: true}, runner.Result{Class: runner.Skipped, Held: &backends.HeldError{AsOf: asOf, Holders: []backends.Claim{c}}})
	if strings.ContainsAny(got, "\x1b\r\x00\u202e\u2066\x7f\u0085") {
		t.Errorf("JSON: %q", got)
	}
}

func TestTextHandler(t *testing.T) {
	var b bytes.Buffer
	p := newPrinter(&b, false, false, true)
	p.secrets = []string{"hunter2"}
	log := p.log.With("key", "a b").WithGroup("g")
	log.Debug("message", "n", 3, "err", errors.New("say \x1b hunter2"), slog.Group("in", "x", ""), "d", 3*time.Second)
	want := "flockd: message key=\"a b\" g.n=3 g.in.x=\"\" g.d=3s: say  ***\n"
	if b.String() != want {
		t.Errorf("\n got %s\nwant %s", b.String(), want)
	}
	b.Reset()
	newPrinter(&b, false, false, false).log.Debug("hidden")
	newPrinter(&b, false, true, false).log.Info("hidden")
	if b.Len() != 0 {
		t.Errorf("%q", b.String())
	}
}

func TestExitCodes(t *testing.T) {
	exit := runner.Exit{Code: 7, Started: asOf, Ended: asOf}
	for _, c := range []struct {
		res  runner.Result
		want int
	}{
		{runner.Result{Class: runner.Finished, Exit: exit}, 7},
		{runner.Result{Class: runner.Skipped}, 75},
		{runner.Result{Class: runner.Done}, 0},
		{runner.Result{Class: runner.Lost, Exit: exit}, 79},
		{runner.Result{Class: runner.Unavailable}, 69},
		{runner.Result{Class: runner.MaxRuntime, Exit: exit}, 124},
		{runner.Result{Class: runner.NotStarted}, 126},
		{runner.Result{Class: classNotFound}, 127},
		{runner.Result{Class: runner.Interrupted, Signal: syscall.SIGINT}, 130},
		{runner.Result{Class: classUsage}, 64},
		{runner.Result{Class: runner.Nested}, 64},
		{runner.Result{Class: runner.BadGrace}, 64},
		{runner.Result{Class: runner.Internal}, 70},
		{runner.Result{}, 70},
	} {
		if got := exitCode(c.res, nil); got != c.want {
			t.Errorf("%s: %d, want %d", c.res.Class, got, c.want)
		}
	}
	chosen := map[runner.Class]int{}
	for i, class := range exitClasses {
		chosen[class] = 100 + i
	}
	for i, class := range exitClasses {
		if got := exitCode(runner.Result{Class: class}, chosen); got != 100+i {
			t.Errorf("--exit %s: %d", class, got)
		}
	}
}
