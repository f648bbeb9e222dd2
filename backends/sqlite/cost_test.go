//go:build cgo && linux

package sqlite

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"flockd/backends"
)

// traffic is how many bytes this process has read and written by system calls.
func traffic(t *testing.T) (read, written int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if _, scanErr := fmt.Sscanf(string(text), "rchar: %d\nwchar: %d", &read, &written); err != nil || scanErr != nil {
		t.Fatal(err, scanErr)
	}
	return read, written
}

// queue is a line of n waiters of one mode behind an exclusive holder, or behind as many
// holders as there are slots.
type queue struct {
	holder, waiter *Store
	holds          []backends.Lease
	waiters        []backends.Request
}

func newQueue(t *testing.T, mode backends.Mode, slots, n int) *queue {
	path := t.TempDir() + "/a.db"
	q := &queue{holder: open(t, path), waiter: open(t, path)}
	for _, s := range []*Store{q.holder, q.waiter} {
		s.db.SetMaxOpenConns(1)
		if _, err := s.db.Exec("PRAGMA wal_autocheckpoint = 0"); err != nil { // it comes when it comes
			t.Fatal(err)
		}
	}
	for range max(slots, 1) {
		r := request("k")
		if slots > 0 {
			r.Mode, r.Slots = mode, slots
		}
		q.holds = append(q.holds, acquire(t, q.holder, r))
	}
	for range n {
		r := request("k")
		r.Mode, r.Slots, r.Place = mode, slots, time.Hour
		if _, err := q.waiter.Acquire(t.Context(), r); !errors.Is(err, backends.ErrHeld) {
			t.Fatal(err)
		}
		q.waiters = append(q.waiters, r)
	}
	return q
}

// handOver releases a hold and grants the key to those whose turn comes. It returns how
// many there were.
func (q *queue) handOver(t *testing.T) int {
	if err := q.holder.Release(t.Context(), "k", q.holds[0].ID, backends.Outcome{Class: "finished"}); err != nil {
		t.Fatal(err)
	}
	granted := q.waiters[:1]
	if granted[0].Mode == backends.Shared {
		granted = q.waiters
	}
	for _, r := range granted {
		acquire(t, q.waiter, r)
	}
	return len(granted)
}

// What is written doesn't grow with the line at all, what is read by a page for each level
// that a tree of pages gains.
func TestHandOverCostsTheSameInALongLine(t *testing.T) {
	lines := []int{2, 20, 100, 500}
	for _, m := range []struct {
		mode  backends.Mode
		slots int
	}{{backends.Exclusive, 0}, {backends.Shared, 0}, {backends.Slots, 4}} {
		t.Run(string(m.mode), func(t *testing.T) {
			var reads, writes []int
			for _, n := range lines {
				read, written := cost(t, m.mode, m.slots, n)
				reads, writes = append(reads, read), append(writes, written)
			}
			t.Logf("bytes read %v, written %v with lines of %v", reads, writes, lines)
			if last := len(lines) - 1; grows(writes[0], writes[last]) || grows(reads[last-1], reads[last]) {
				t.Error("they grow")
			}
		})
	}
}

// cost is what a hand-over reads and writes for each grant: the least of three, for what else
// the process does counts as well.
func cost(t *testing.T, mode backends.Mode, slots, n int) (read, written int) {
	for try := range 3 {
		q := newQueue(t, mode, slots, n)
		readBefore, writtenBefore := traffic(t)
		granted := q.handOver(t)
		readAfter, writtenAfter := traffic(t)
		r, w := (readAfter-readBefore)/granted, (writtenAfter-writtenBefore)/granted
		if try == 0 {
			read, written = r, w
		}
		read, written = min(read, r), min(written, w)
	}
	return read, written
}

func grows(few, many int) bool { return float64(many) > 1.2*float64(few) }
