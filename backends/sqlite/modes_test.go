//go:build cgo && linux

package sqlite

import (
	"errors"
	"testing"
	"time"

	"flockd/backends"
)

func mode(key string, m backends.Mode, slots int) backends.Request {
	r := request(key)
	r.Mode, r.Slots, r.Place = m, slots, time.Hour
	return r
}

// waits has r stand in line.
func waits(t testing.TB, s *Store, r backends.Request) *backends.HeldError {
	t.Helper()
	var held *backends.HeldError
	if _, err := s.Acquire(t.Context(), r); !errors.As(err, &held) {
		t.Fatalf("Acquire = %v, want a HeldError", err)
	}
	return held
}

func wasRung(t testing.TB, s *Store, held *backends.HeldError) bool {
	t.Helper()
	bell, err := s.bell()
	if err != nil {
		t.Fatal(err)
	}
	at := held.Seen.(seen)
	word, err := bell.look(at.seq)
	if err != nil {
		t.Fatal(err)
	}
	return word != at.word
}

// dies ends the lease of a claim, as if its process had gone long ago.
func dies(t testing.TB, s *Store, id string) {
	t.Helper()
	script(t, s.path, "UPDATE claims SET expires_mono = 1 WHERE id = '"+id+"'")
}

// Dead claims count for nothing, wherever in the line they are.
func TestDeadClaimsAreNotInTheWay(t *testing.T) {
	for name, tc := range map[string]struct{ holder, dead, next backends.Request }{
		"exclusive behind shared": {mode("k", backends.Shared, 0), mode("k", backends.Exclusive, 0), mode("k", backends.Shared, 0)},
		"slots behind shared":     {mode("k", backends.Shared, 0), mode("k", backends.Slots, 2), mode("k", backends.Shared, 0)},
		"exclusive behind slots":  {mode("k", backends.Slots, 2), mode("k", backends.Exclusive, 0), mode("k", backends.Slots, 2)},
		"slot behind slot":        {mode("k", backends.Slots, 2), mode("k", backends.Slots, 2), mode("k", backends.Slots, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir()+"/a.db")
			acquire(t, s, tc.holder)
			s.Acquire(t.Context(), tc.dead)
			held := waits(t, s, tc.next)
			dies(t, s, tc.dead.ID)
			newcomer := request("k")
			var heldToo *backends.HeldError
			if _, err := s.Acquire(t.Context(), newcomer); !errors.As(err, &heldToo) || heldToo.Waiters != 1 || len(heldToo.Holders) != 1 {
				t.Errorf("%v: %+v", err, heldToo)
			}
			if held.RetryAfter <= 0 {
				t.Errorf("retry after %v", held.RetryAfter)
			}
			acquire(t, s, tc.next)
		})
	}
}

// A hold that begins to cool wakes whose turn would have come, who learns when it will.
func TestCoolingWakesTheNext(t *testing.T) {
	for name, tc := range map[string]struct {
		first, next backends.Request
		others      int // holders beside the first
	}{
		"exclusive": {mode("k", backends.Exclusive, 0), mode("k", backends.Exclusive, 0), 0},
		"shared":    {mode("k", backends.Exclusive, 0), mode("k", backends.Shared, 0), 0},
		"slots":     {mode("k", backends.Slots, 2), mode("k", backends.Slots, 2), 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir()+"/a.db")
			for range tc.others {
				acquire(t, s, mode("k", tc.first.Mode, tc.first.Slots))
			}
			first := tc.first
			first.TTL, first.MinHold = time.Hour, 10*time.Minute
			acquire(t, s, first)
			held := waits(t, s, tc.next)
			if err := s.Release(t.Context(), "k", first.ID, backends.Outcome{}); err != nil {
				t.Fatal(err)
			}
			if !wasRung(t, s, held) {
				t.Error("not woken")
			}
			if again := waits(t, s, tc.next); tc.others == 0 && again.RetryAfter > first.MinHold {
				t.Errorf("retry after %v", again.RetryAfter)
			}
		})
	}
}

// The first who waits for a slot looks when the first of the holds ends by itself.
func TestRetryAfterTheFirstSlotThatEnds(t *testing.T) {
	s := open(t, t.TempDir()+"/a.db")
	for _, ttl := range []time.Duration{time.Hour, time.Minute, 2 * time.Hour} {
		r := mode("k", backends.Slots, 3)
		r.TTL = ttl
		acquire(t, s, r)
	}
	if held := waits(t, s, mode("k", backends.Slots, 3)); held.RetryAfter > time.Minute {
		t.Errorf("retry after %v", held.RetryAfter)
	}
}

// What is dead is removed a hundred at a time, however much there is.
func TestDeadClaimsAreRemovedInPassing(t *testing.T) {
	s := open(t, t.TempDir()+"/a.db")
	acquire(t, s, request("k"))
	for range removedAtOnce + 50 {
		waits(t, s, mode("k", backends.Exclusive, 0))
	}
	script(t, s.path, "UPDATE claims SET expires_mono = 1")
	for _, want := range []int{51, 0} {
		r := request("k")
		acquire(t, s, r)
		if err := s.Release(t.Context(), "k", r.ID, backends.Outcome{}); err != nil {
			t.Fatal(err)
		}
		if n := claims(t, s); n > want {
			t.Errorf("%d claims are left, want %d", n, want)
		}
	}
}

func claims(t *testing.T, s *Store) (n int) {
	t.Helper()
	if err := s.db.QueryRow("SELECT count(*) FROM claims").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Who was granted a slot before those in front of it took their turn keeps it for itself.
func TestSlotOfWhoCameFirstThoughBehind(t *testing.T) {
	s := open(t, t.TempDir()+"/a.db")
	var reqs []backends.Request
	for range 4 {
		reqs = append(reqs, mode("k", backends.Slots, 2))
	}
	acquire(t, s, reqs[0])
	acquire(t, s, reqs[1])
	waits(t, s, reqs[2])
	waits(t, s, reqs[3])
	for _, r := range reqs[:2] {
		if err := s.Release(t.Context(), "k", r.ID, backends.Outcome{}); err != nil {
			t.Fatal(err)
		}
	}
	if late, early := acquire(t, s, reqs[3]), acquire(t, s, reqs[2]); late.Slot == early.Slot {
		t.Errorf("slot %d twice", late.Slot)
	}
}
