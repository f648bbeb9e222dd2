//go:build cgo && linux

package sqlite

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"flockd/backends"
)

func once(key string, o backends.Once) backends.Request {
	r := mode(key, backends.Exclusive, 0)
	r.Once = &o
	return r
}

// succeeds acquires, completes and releases.
func succeeds(t testing.TB, s *Store, r backends.Request) {
	t.Helper()
	lease := acquire(t, s, r)
	if err := s.Complete(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context(), r.Key, r.ID, backends.Outcome{Class: "finished", Success: true}); err != nil {
		t.Fatal(err)
	}
}

var hourly = backends.Once{Per: backends.Period{Unit: backends.Fixed, Every: time.Hour}}

// The host's wall clock picks the period, at the grant.
func TestPeriodIsOfTheGrant(t *testing.T) {
	s := open(t, t.TempDir()+"/a.db")
	now := time.Date(2026, 3, 1, 11, 59, 0, 0, time.UTC)
	s.wall = func() int64 { return now.UnixMicro() }
	holder, waiter := request("k"), once("k", hourly)
	acquire(t, s, holder)
	waits(t, s, waiter)
	if err := s.Release(t.Context(), "k", holder.ID, backends.Outcome{}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Minute)
	if lease := acquire(t, s, waiter); lease.Run != "2026-03-01T12:00:00Z" {
		t.Errorf("run %q", lease.Run)
	}
	now = now.Add(2 * time.Hour)
	if again := acquire(t, s, waiter); again.Run != "2026-03-01T12:00:00Z" {
		t.Errorf("run %q when asked again", again.Run)
	}
}

// A success is forgotten by the wall clock, so that it outlasts a boot, and leaves the file
// when another one is recorded.
func TestLedgerOutlastsABoot(t *testing.T) {
	path := t.TempDir() + "/a.db"
	s := open(t, path)
	succeeds(t, s, once("k", backends.Once{ID: "v1", Keep: time.Hour}))
	after := open(t, path)
	after.clock.boot = "another boot"
	if _, err := after.Acquire(t.Context(), once("k", backends.Once{ID: "v1"})); !errors.Is(err, backends.ErrDone) {
		t.Errorf("after another boot: %v", err)
	}
	later := after.wall() + (2 * time.Hour).Microseconds()
	after.wall = func() int64 { return later }
	for i := range 40 { // kept for less long than v1
		succeeds(t, s, once("k", backends.Once{ID: fmt.Sprint(i), Keep: time.Minute}))
	}
	for i := range 3 {
		succeeds(t, after, once("k", backends.Once{ID: fmt.Sprint("later", i)}))
	}
	var n int
	if err := s.db.QueryRow("SELECT count(*) FROM ledger").Scan(&n); err != nil || n != 3 {
		t.Errorf("%d entries are left, %v", n, err)
	}
}

// Each who waits for the run hears at once that it was completed, by its ID or by a period,
// and nobody else does.
func TestCompleteWakesWhoWaitsForIt(t *testing.T) {
	s := open(t, t.TempDir()+"/a.db")
	lease := acquire(t, s, once("k", backends.Once{ID: "v1"}))
	type waiter struct {
		held *backends.HeldError
		want bool
	}
	line := []waiter{
		{waits(t, s, mode("k", backends.Exclusive, 0)), false},
		{waits(t, s, once("k", backends.Once{ID: "v2"})), false},
		{waits(t, s, once("k", backends.Once{ID: "v1"})), true},
		{waits(t, s, once("k", hourly)), true},
		{waits(t, s, mode("k", backends.Shared, 0)), false},
	}
	if err := s.Complete(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	for i, w := range line {
		if got := wasRung(t, s, w.held); got != w.want {
			t.Errorf("waiter %d was woken: %v", i, got)
		}
	}
}

// Who leaves because its run is done lets the next one know.
func TestDoneWakesTheNext(t *testing.T) {
	s := open(t, t.TempDir()+"/a.db")
	first, second := once("k", backends.Once{ID: "v1"}), once("k", backends.Once{ID: "v1"})
	lease := acquire(t, s, first)
	waits(t, s, second)
	held := waits(t, s, mode("k", backends.Exclusive, 0))
	if err := errors.Join(s.Complete(t.Context(), lease), s.Release(t.Context(), "k", first.ID, backends.Outcome{})); err != nil {
		t.Fatal(err)
	}
	if wasRung(t, s, held) {
		t.Error("woken before its turn")
	}
	if _, err := s.Acquire(t.Context(), second); !errors.Is(err, backends.ErrDone) {
		t.Errorf("Acquire = %v, want ErrDone", err)
	}
	if !wasRung(t, s, held) {
		t.Error("not woken")
	}
}

func TestNewerEntryIsRefused(t *testing.T) {
	path := t.TempDir() + "/a.db"
	s := open(t, path)
	succeeds(t, s, once("k", backends.Once{ID: "v1"}))
	script(t, path, fmt.Sprintf("UPDATE ledger SET v = %d", backends.RecordVersion+1))
	_, err := s.Acquire(t.Context(), once("k", backends.Once{ID: "v1"}))
	wantRefused(t, err, "newer flockd")
	_, err = s.Completed(t.Context(), "k", "v1")
	wantRefused(t, err, "newer flockd")
	for _, err := range s.Entries(t.Context(), "k") {
		wantRefused(t, err, "newer flockd")
	}
}

// Who asks without a place is answered by a read alone, whatever the answer.
func TestSkipsNeedNoLock(t *testing.T) {
	path := t.TempDir() + "/a.db"
	s := open(t, path)
	succeeds(t, s, once("done", backends.Once{ID: "v1"}))
	acquire(t, s, mode("exclusive", backends.Exclusive, 0))
	acquire(t, s, mode("shared", backends.Shared, 0))
	acquire(t, s, mode("slot", backends.Slots, 1))
	lockAndFreeze(t, path)
	for _, tc := range []struct {
		r    backends.Request
		want error
	}{
		{once("done", backends.Once{ID: "v1"}), backends.ErrDone},
		{once("exclusive", backends.Once{ID: "v2"}), backends.ErrHeld},
		{mode("exclusive", backends.Shared, 0), backends.ErrHeld},
		{mode("shared", backends.Exclusive, 0), backends.ErrHeld},
		{mode("shared", backends.Slots, 2), backends.ErrHeld},
		{mode("slot", backends.Slots, 1), backends.ErrHeld},
	} {
		tc.r.Place = 0
		if _, err := s.Acquire(t.Context(), tc.r); !errors.Is(err, tc.want) {
			t.Errorf("%s of %s: %v", tc.r.Mode, tc.r.Key, err)
		}
	}
}
