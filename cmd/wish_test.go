package cmd

import (
	"errors"
	"strings"
	"testing"
	"time"

	"flockd/backends"
	"flockd/runner"
)

// has is a claim on a key as holder is, in another mode.
func has(mode backends.Mode, slots int, state backends.State) backends.Claim {
	c := holder()
	c.Mode, c.Slots, c.State = mode, slots, state
	c.Granted, c.Renewed = time.Time{}, time.Time{}
	return c
}

// A skip says why the run can't have the key beside those who hold it.
func TestSkipLineOfEachFamily(t *testing.T) {
	inZone(t)
	const who = " by root@web2 (pid 4711, report.sh)"
	exclusive, shared, slot := has(backends.Exclusive, 0, backends.Holding), has(backends.Shared, 0, backends.Holding), has(backends.Slots, 3, backends.Holding)
	cooling := has(backends.Shared, 0, backends.Cooling)
	cooling.Expires = time.Time{}
	next := has(backends.Shared, 0, backends.Waiting)
	next.Asked = time.Time{}
	alone, sharing, three, five := wish{mode: backends.Exclusive}, wish{mode: backends.Shared}, wish{backends.Slots, 3}, wish{backends.Slots, 5}
	for _, c := range []struct {
		wish    wish
		holders []backends.Claim
		want    string
	}{
		{alone, []backends.Claim{exclusive}, "held" + who},
		{alone, []backends.Claim{shared, shared, shared, shared}, "held shared" + who + " and 3 more; this run wants it alone"},
		{alone, []backends.Claim{slot}, "held in slots of 3" + who + "; this run wants it alone"},
		{sharing, []backends.Claim{exclusive}, "held exclusively" + who},
		{sharing, []backends.Claim{shared, shared}, "held shared" + who + " and 1 more; others are in line in front of this run"},
		{sharing, []backends.Claim{slot}, "held in slots of 3" + who + "; this run wants to share it"},
		{three, []backends.Claim{exclusive}, "held exclusively" + who},
		{three, []backends.Claim{shared}, "held shared" + who + "; this run wants slots of 3"},
		{three, []backends.Claim{slot, slot, slot}, "3 of 3 slots held" + who + " and 2 more"},
		{three, []backends.Claim{slot, slot}, "2 of 3 slots held" + who + " and 1 more; others are in line in front of this run"},
		{five, []backends.Claim{slot}, "held in slots of 3" + who + "; this run wants slots of 5"},
		{alone, []backends.Claim{cooling, shared}, "held shared" + who + " and 1 more; this run wants it alone"},
		{sharing, []backends.Claim{has(backends.Exclusive, 0, backends.Cooling)}, "cooling for another 1m, until 2026-11-29 04:01:02 +0800, after root@web2 (pid 4711, report.sh)"},
		{onlooker, []backends.Claim{exclusive}, "held" + who},
		{onlooker, []backends.Claim{shared, shared}, "held shared" + who + " and 1 more"},
		{onlooker, []backends.Claim{slot}, "held in slots of 3" + who},
		{sharing, nil, "nobody holds it, next in line is root@web2 (pid 4711, report.sh)"},
	} {
		held := &backends.HeldError{AsOf: asOf, Holders: c.holders}
		if c.holders == nil {
			held.Next = &next
		}
		if got := heldText(held, c.wish); got != c.want {
			t.Errorf("%+v:\n got %s\nwant %s", c.wish, got, c.want)
		}
	}
}

func TestReportsOfTheLine(t *testing.T) {
	inZone(t)
	inner, outer := has(backends.Shared, 0, backends.Holding), has(backends.Shared, 0, backends.Holding)
	outer.ID, outer.Owner.PID = "outer", 1
	held := func(ahead int, n backends.Notice) runner.Result {
		return runner.Result{Class: runner.Skipped, Held: &backends.HeldError{
			AsOf: asOf, Holders: []backends.Claim{has(backends.Exclusive, 0, backends.Holding)}, Ahead: ahead, Waiters: ahead, Notice: n,
		}}
	}
	by := backends.Owner{User: "root", Host: "web2", PID: 1, Command: "deploy.sh"}
	won := backends.Lease{Token: 42, Run: "2026-11-29"}
	broken := &runner.LostError{Notice: backends.Notice{Kind: backends.Break, By: by, Reason: "stuck\x1b[2J", Force: true}, Err: backends.ErrLost}
	const taken = "flockd: skipped nightly: held by root@web2 (pid 4711, report.sh)"
	for _, c := range []struct {
		o    runOptions
		res  runner.Result
		want string
	}{
		{runOptions{maxWaiters: 2, wait: time.Hour}, held(2, backends.Notice{}), taken + "; 2 waiting; no more than 2 may wait\n"},
		{runOptions{maxWaiters: 2, wait: time.Hour}, held(1, backends.Notice{}), taken + "; 1 waiting; gave up after 1h\n"},
		{runOptions{maxWaiters: runner.Nobody, wait: time.Hour}, held(0, backends.Notice{}), taken + "; nobody may wait\n"},
		{runOptions{}, held(1, backends.Notice{Kind: backends.Supersede, By: by}), "flockd: skipped nightly: superseded by root@web2 (pid 1, deploy.sh)\n"},
		{runOptions{wait: time.Hour}, held(1, backends.Notice{Kind: backends.Break, By: by, Reason: "a\nb"}),
			"flockd: skipped nightly: asked to leave the line by root@web2 (pid 1, deploy.sh): a b\n"},
		{runOptions{}, runner.Result{Class: runner.Skipped, Err: &backends.RemovedError{Notice: broken.Notice}},
			"flockd: skipped nightly: its place in line was removed by root@web2 (pid 1, deploy.sh): stuck[2J\n"},
		{runOptions{}, runner.Result{Class: runner.Skipped, Err: runner.ErrLapsed}, "flockd: skipped nightly: its place in line, or what it was granted, has run out\n"},
		{runOptions{}, runner.Result{Class: runner.Unavailable, Err: &runner.LostError{Err: runner.ErrPaused}},
			"flockd: no lock on nightly: flockd, or its host, was stopped until the lease had run out; the command did not run\n"},
		{runOptions{}, runner.Result{Class: runner.Lost, Lease: won, Unrecorded: true, Err: errors.New("read-only")},
			"flockd: nightly has succeeded as 2026-11-29 (token 42), unrecorded: read-only; the next run may not know of it\n"},
		{runOptions{}, runner.Result{Class: runner.Lost, Lease: won, Unrecorded: true, Exit: runner.Exit{Ended: asOf}, Err: broken},
			"flockd: lost the lock on nightly (token 42): broken by root@web2: stuck[2J; the command exited with 0, unrecorded: the next run may not know of it\n"},
		{runOptions{chain: []string{"outer"}, mode: backends.Exclusive}, runner.Result{Class: runner.Nested, Held: &backends.HeldError{AsOf: asOf, Holders: []backends.Claim{inner, outer}}},
			"flockd: nightly is held shared by root@web2 (pid 1, report.sh); this run wants it alone; the holder encloses this run: the wait would never end\n" +
				"flockd: hint: leave the inner flockd run out, or give it another key\n"},
	} {
		if got := said(c.o, c.res); got != c.want {
			t.Errorf("\n got %s\nwant %s", got, c.want)
		}
		c.o.json = true
		got := said(c.o, c.res)
		if n := noticeOf(c.res); (n != backends.Notice{}) != strings.Contains(got, `"notice":{"kind":"`) {
			t.Errorf("JSON: %s", got)
		}
		if c.res.Unrecorded != strings.Contains(got, `"run":"2026-11-29","unrecorded":true`) {
			t.Errorf("JSON: %s", got)
		}
	}
}

func TestDoneText(t *testing.T) {
	inZone(t)
	done := &backends.DoneError{Entry: backends.Entry{Run: "2026-11-29", At: asOf, Owner: holder().Owner}}
	want := "nightly: 2026-11-29 has succeeded already: by root@web2 (pid 4711, report.sh), 2h ago, at 2026-11-29 04:00:02 +0800"
	if got := doneText("nightly", done, asOf.Add(2*time.Hour)); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestResultOfTheLine(t *testing.T) {
	for name, c := range map[string]struct {
		res  runner.Result
		want string
	}{
		"slot 0":     {runner.Result{Class: runner.Finished, Lease: backends.Lease{Mode: backends.Slots}}, `"slot":0`},
		"slot 2":     {runner.Result{Class: runner.Finished, Lease: backends.Lease{Mode: backends.Slots, Slot: 2}}, `"slot":2`},
		"run":        {runner.Result{Class: runner.Finished, Lease: backends.Lease{Run: "v42"}}, `"run":"v42"`},
		"done":       {runner.Result{Class: runner.Done, Err: &backends.DoneError{Entry: backends.Entry{Run: "v42"}}}, `"run":"v42"`},
		"unrecorded": {runner.Result{Class: runner.Lost, Unrecorded: true, Err: errors.New("x")}, `"unrecorded":true`},
		"superseded": {runner.Result{Class: runner.Skipped, Held: &backends.HeldError{Notice: backends.Notice{Kind: backends.Supersede}}}, `"notice":{"kind":"supersede"`},
		"broken":     {runner.Result{Class: runner.Lost, Err: &runner.LostError{Notice: backends.Notice{Kind: backends.Break, Reason: "r"}}}, `"reason":"r"`},
	} {
		path := t.TempDir() + "/result"
		f, err := openResultFile(path, record{Key: "k", ID: "id", Mode: backends.Slots, Slots: 3})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.end(c.res, 0, clean); err != nil {
			t.Fatal(err)
		}
		text := readText(t, path)
		if !strings.Contains(text, c.want) || !strings.Contains(text, `"mode":"slots","slots":3`) {
			t.Errorf("%s: %s", name, text)
		}
		if absent := !strings.Contains(c.want, `"slot"`); absent && strings.Contains(text, `"slot":`) {
			t.Errorf("%s has a slot: %s", name, text)
		}
	}
}
