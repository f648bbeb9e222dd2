package backendtest

import (
	"flockd/backends"
)

var statusProperties = []property{
	{name: "UnusedKeyIsEmpty", test: unusedKey},
	{name: "LineIsShownInOrder", test: lineShown},
	{name: "EndedClaimsAreNotShown", test: endedNotShown},
	{name: "ReleaseRecordsTheRun", test: recordsRun},
	{name: "FailureKeepsTheLastSuccess", test: failureKeeps},
	{name: "ReleaseWithoutOutcomeRecordsNothing", test: zeroOutcome},
	{name: "LostReleaseRecordsNothing", test: lostRecordsNothing},
	{name: "ReleaseOfAPlaceRecordsNothing", test: placeNoRun},
	{name: "RunSaysWhoAskedForTheKey", test: runSaysWhoAsked},
}

func unusedKey(e *env) {
	a := e.client()
	s := a.status()
	if s.Key != e.key || len(s.Line) > 0 || s.Last != nil || s.LastSuccess != nil {
		e.Errorf("%+v", s)
	}
}

func lineShown(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.request())
	second, third := b.queue(), c.queue()
	b.held(second)
	c.held(third)
	want := []backends.Claim{
		{ID: lease.ID, State: backends.Holding, Mode: backends.Exclusive, Token: lease.Token, Owner: a.owner},
		{ID: second.ID, State: backends.Waiting, Mode: backends.Exclusive, Owner: b.owner},
		{ID: third.ID, State: backends.Waiting, Mode: backends.Exclusive, Owner: c.owner},
	}
	line := c.status().Line
	if len(line) != len(want) {
		e.Fatalf("line %+v, want %d claims", line, len(want))
	}
	for i, got := range line {
		if e.h.Has&Dates != 0 && (got.Asked.IsZero() || got.Expires.IsZero() || got.Granted.IsZero() != (i > 0)) {
			e.Errorf("claim %d lacks a date: %+v", i, got)
		}
		if got = undated(got); got != want[i] {
			e.Errorf("claim %d is %+v, want %+v", i, got, want[i])
		}
	}
}

// undated is the claim without its times.
func undated(c backends.Claim) backends.Claim {
	return backends.Claim{
		ID: c.ID, State: c.State, Mode: c.Mode, Slots: c.Slots, Slot: c.Slot, Token: c.Token, Owner: c.Owner, Notice: c.Notice,
	}
}

func endedNotShown(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.brief())
	req := b.queue()
	req.Place = e.h.TTL
	b.held(req)
	c.untilGone(lease.ID)
	c.untilGone(req.ID)
}

// run ends a run of a client of its own.
func (e *env) run(outcome backends.Outcome) (client, backends.Lease) {
	c := e.client()
	lease := c.grant(c.request())
	c.releaseWith(lease, outcome)
	return c, lease
}

// isRun compares a record with the run it must be of.
func (e *env) isRun(name string, run *backends.Run, c client, lease backends.Lease, outcome backends.Outcome) {
	e.Helper()
	if run == nil {
		e.Errorf("%s is missing", name)
		return
	}
	want := backends.Run{
		Owner: c.owner, Token: lease.Token, Start: run.Start, End: run.End,
		Class: outcome.Class, Exit: outcome.Exit, Notice: outcome.Notice,
	}
	if *run != want {
		e.Errorf("%s is %+v, want %+v", name, *run, want)
	}
	if e.h.Has&Dates != 0 && (run.Start.IsZero() || run.End.Before(run.Start)) {
		e.Errorf("%s has the dates %v to %v", name, run.Start, run.End)
	}
}

var (
	succeeded = backends.Outcome{Class: "finished", Success: true}
	failed    = backends.Outcome{Class: "finished", Exit: 143}
)

func recordsRun(e *env) {
	c, lease := e.run(succeeded)
	s := c.status()
	e.isRun("last run", s.Last, c, lease, succeeded)
	e.isRun("last success", s.LastSuccess, c, lease, succeeded)
}

func failureKeeps(e *env) {
	first, lease1 := e.run(succeeded)
	second, lease2 := e.run(failed)
	s := first.status()
	e.isRun("last run", s.Last, second, lease2, failed)
	e.isRun("last success", s.LastSuccess, first, lease1, succeeded)
}

func zeroOutcome(e *env) {
	first, lease := e.run(failed)
	e.run(backends.Outcome{})
	s := first.status()
	e.isRun("last run", s.Last, first, lease, failed)
	if s.LastSuccess != nil {
		e.Errorf("last success %+v of a run that failed", s.LastSuccess)
	}
}

func lostRecordsNothing(e *env) {
	first, lease := e.run(failed)
	first.Release(e.Context(), e.key, lease.ID, succeeded)
	first.Release(e.Context(), e.key, backends.NewID(), succeeded)
	e.isRun("last run", first.status().Last, first, lease, failed)
}

func placeNoRun(e *env) {
	a, b, _ := e.trio()
	a.grant(a.request())
	req := b.queue()
	b.held(req)
	b.Release(e.Context(), e.key, req.ID, succeeded)
	if s := a.status(); s.Last != nil || s.LastSuccess != nil {
		e.Errorf("last run %+v, last success %+v of a claim that never held", s.Last, s.LastSuccess)
	}
}

// A run that had time to succeed though it was asked to stop is the last success too.
func runSaysWhoAsked(e *env) {
	for _, kind := range []backends.NoticeKind{backends.Break, backends.Resign} {
		a, b, _ := e.trio()
		lease := a.grant(a.request())
		b.ask(lease.ID, b.notice(kind))
		outcome := succeeded
		outcome.Notice = a.renew(lease).Notice
		a.releaseWith(lease, outcome)
		s := b.status()
		e.isRun("last run", s.Last, a, lease, outcome)
		e.isRun("last success", s.LastSuccess, a, lease, outcome)
		if outcome.Notice != b.notice(kind) {
			e.Errorf("notice %+v", outcome.Notice)
		}
	}
}
