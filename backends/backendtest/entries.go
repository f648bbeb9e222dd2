package backendtest

import (
	"errors"
	"slices"
	"time"

	"flockd/backends"
)

// entryProperties are those of the completed runs that a key has.
var entryProperties = []property{
	{name: "SuccessIsForgottenInTime", needs: Ledgers, test: forgottenInTime},
	{name: "EntrySaysWhenItIsForgotten", needs: Ledgers | Dates, test: saysWhenForgotten},
	{name: "ForgottenRunIsRepeated", needs: Ledgers, test: forgetRepeats},
	{name: "ForgottenRunIsRecordedAgain", needs: Ledgers, test: recordedAgain},
	{name: "WaiterRepeatsWhatWasForgotten", needs: Ledgers, test: forgottenWhileWaiting},
	{name: "RunsStayApart", needs: Ledgers, test: runsApart},
	{name: "EntriesAreOldestFirst", needs: Ledgers, test: oldestFirst},
}

// entries are the key's completed runs.
func (c client) entries() (runs []string) {
	c.e.Helper()
	for entry, err := range c.ledger().Entries(c.e.Context(), c.e.key) {
		if err != nil {
			c.e.Fatalf("Entries = %v", err)
		}
		runs = append(runs, entry.Run)
	}
	return runs
}

func forgottenInTime(e *env) {
	a, b, _ := e.trio()
	req, again := a.once("v42"), b.once("v42")
	req.Once.Keep = 3 * e.h.TTL / 2 // the next question must come sooner
	start := time.Now()
	a.succeeds(req)
	b.acquireIs(backends.ErrDone, b.once("v42"))
	e.until("the run is forgotten", func() bool {
		_, err := b.ledger().Completed(e.Context(), e.key, "v42")
		return errors.Is(err, backends.ErrNotFound)
	})
	e.notBefore(start, req.Once.Keep, time.Now(), "forgotten")
	b.grant(again)
}

func saysWhenForgotten(e *env) {
	a := e.client()
	req := a.once("v42")
	req.Once.Keep = e.long
	a.succeeds(req)
	for entry, err := range a.ledger().Entries(e.Context(), e.key) {
		if kept := entry.Forgets.Sub(entry.At); err != nil || kept != e.long {
			e.Errorf("kept for %v (%+v, %v), want %v", kept, entry, err, e.long)
		}
	}
}

func forgetRepeats(e *env) {
	a := e.client()
	e.is(a.ledger().Forget(e.Context(), e.key, "v42"), backends.ErrNotFound, "Forget")
	a.succeeds(a.once("v42"))
	if err := a.ledger().Forget(e.Context(), e.key, "v42"); err != nil {
		e.Errorf("Forget = %v", err)
	}
	a.succeeds(a.once("v42"))
}

// By itself, or by Forget: the next success is recorded as if it were the first.
func recordedAgain(e *env) {
	a, b, _ := e.trio()
	req := a.once("v42")
	req.Once.Keep = 2 * e.h.TTL
	a.succeeds(req)
	e.ended(req.Once.Keep)
	b.recorded(b.succeeds(b.once("v42")))
	if err := b.ledger().Forget(e.Context(), e.key, "v42"); err != nil {
		e.Errorf("Forget = %v", err)
	}
	a.recorded(a.succeeds(a.once("v42")))
}

// recorded: the run of lease must be the client's success.
func (c client) recorded(lease backends.Lease) {
	c.e.Helper()
	entry, err := c.ledger().Completed(c.e.Context(), c.e.key, lease.Run)
	if err != nil || entry.Token != lease.Token || entry.Owner != c.owner {
		c.e.Errorf("Completed = %+v, %v; want the success of %+v", entry, err, lease)
	}
}

func forgottenWhileWaiting(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.once("v42"))
	req := b.once("v42")
	b.held(req)
	a.complete(lease)
	if err := a.ledger().Forget(e.Context(), e.key, "v42"); err != nil {
		e.Errorf("Forget = %v", err)
	}
	b.held(req)
	a.release(lease)
	b.grant(req)
}

func runsApart(e *env) {
	a := e.client()
	for _, run := range awkward {
		a.succeeds(a.once(run))
	}
	if runs := a.entries(); !slices.Equal(runs, awkward) {
		e.Errorf("entries %q, want %q", runs, awkward)
	}
	if err := a.ledger().Forget(e.Context(), e.key, awkward[0]); err != nil {
		e.Errorf("Forget = %v", err)
	}
	if runs := a.entries(); !slices.Equal(runs, awkward[1:]) {
		e.Errorf("entries %q, want all but %q", runs, awkward[0])
	}
}

func oldestFirst(e *env) {
	a := e.client()
	want := []string{"b", "a", "c/%*", "вчера"}
	for _, run := range want {
		a.succeeds(a.once(run))
	}
	if runs := a.entries(); !slices.Equal(runs, want) {
		e.Errorf("entries %q, want %q", runs, want)
	}
}
