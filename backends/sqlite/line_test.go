//go:build cgo && linux

package sqlite

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/mem"
)

// claimant is one ID in a random walk, in this store and in the reference one.
type claimant struct {
	req    backends.Request
	seen   any    // of its last answer, if it waits
	before string // the ID in front that it waited for by then
}

// twins does the same to a database and to package mem.
type twins struct {
	*testing.T
	ours   *Store
	theirs backends.Backend
	r      *rand.Rand
	often  int // the kind of most claims
	live   []*claimant
	left   []string // IDs that waited, and left the line
	log    []string
}

// What package mem answers, we do, in lines of any mix of modes; and whoever's turn has come
// was woken, and nobody else.
func TestLinesAreThoseOfTheReference(t *testing.T) {
	for seed := range uint64(20) {
		w := &twins{T: t, ours: open(t, t.TempDir()+"/a.db"), theirs: mem.New(), r: rand.New(rand.NewPCG(seed, 1)), often: int(seed % 4)}
		for range 100 {
			w.step()
			if t.Failed() {
				t.Fatalf("seed %d: %q", seed, w.log)
			}
		}
	}
}

func (w *twins) did(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *twins) step() {
	switch n := w.r.IntN(10); {
	case n < 4 || len(w.live) == 0:
		w.joins()
	case n < 6:
		w.asks(w.any())
	case n < 9:
		w.leaves(w.any())
	default:
		w.isTold(w.any())
	}
	w.compareLines()
}

func (w *twins) any() *claimant { return w.live[w.r.IntN(len(w.live))] }

func (w *twins) joins() {
	req := request("k")
	req.ID = fmt.Sprint(len(w.log))
	req.Place = time.Hour
	kind := w.r.IntN(4)
	if w.r.IntN(3) > 0 { // mostly the same, so that there are some in a row
		kind = w.often
	}
	switch kind {
	case 0:
		req.Mode = backends.Shared
	case 1:
		req.Mode, req.Slots = backends.Slots, 2
	case 2:
		req.Mode, req.Slots = backends.Slots, 3
	}
	if w.r.IntN(8) == 0 {
		req.MinHold = time.Hour
	}
	if w.r.IntN(4) == 0 {
		req.Place = 0
	}
	c := &claimant{req: req}
	w.live = append(w.live, c)
	w.asks(c)
}

func (w *twins) asks(c *claimant) {
	w.did("%s asks for %s %d", c.req.ID, c.req.Mode, c.req.Slots)
	ours, err := w.ours.Acquire(w.Context(), c.req)
	theirs, want := w.theirs.Acquire(w.Context(), c.req)
	if !errors.Is(err, want) && !sameKind(err, want) || ours.Slot != theirs.Slot {
		w.Errorf("slot %d, %v; want slot %d, %v", ours.Slot, err, theirs.Slot, want)
		return
	}
	var held, theirHeld *backends.HeldError
	if errors.As(err, &held) && errors.As(want, &theirHeld) {
		if got, want := plain(held), plain(theirHeld); got != want {
			w.Errorf("held: %s; want %s", got, want)
		}
		c.seen, c.before = held.Seen, w.before(c)
	} else {
		c.seen = nil
	}
}

func sameKind(a, b error) bool {
	return a == nil && b == nil || errors.Is(a, backends.ErrHeld) && errors.Is(b, backends.ErrHeld)
}

// plain is what a HeldError says without its times.
func plain(h *backends.HeldError) string {
	ids := func(claims []backends.Claim) (ids []string) {
		for _, c := range claims {
			ids = append(ids, c.ID+string(c.State))
		}
		return ids
	}
	next := ""
	if h.Next != nil {
		next = h.Next.ID
	}
	return fmt.Sprint(ids(h.Holders), next, h.Waiters, h.Ahead, h.Notice)
}

func (w *twins) leaves(c *claimant) {
	outcome := backends.Outcome{Class: "finished"}
	w.did("%s leaves", c.req.ID)
	w.leavesLine(c)
	err, want := w.ours.Release(w.Context(), "k", c.req.ID, outcome), w.theirs.Release(w.Context(), "k", c.req.ID, outcome)
	if !errors.Is(err, want) {
		w.Errorf("Release = %v, want %v", err, want)
	}
	w.forget(c)
}

func (w *twins) isTold(c *claimant) {
	notice := backends.Notice{Kind: backends.Break, Reason: "r", Force: w.r.IntN(2) == 0}
	if w.r.IntN(3) == 0 {
		notice = backends.Notice{Kind: backends.Supersede}
	}
	w.did("%s is told %+v", c.req.ID, notice)
	if notice.Force {
		w.leavesLine(c)
	}
	err, want := w.ours.Ask(w.Context(), "k", c.req.ID, notice), w.theirs.Ask(w.Context(), "k", c.req.ID, notice)
	if !errors.Is(err, want) {
		w.Errorf("Ask = %v, want %v", err, want)
	}
	if err == nil && c.seen != nil && !w.rung(c) {
		w.Errorf("%s wasn't woken by its notice", c.req.ID)
	}
	if notice.Force {
		w.forget(c)
	}
}

// line is the claims of the line, and where c is among them; -1: nowhere.
func (w *twins) line(c *claimant) (line []backends.Claim, at int) {
	status, err := w.theirs.Inspect(w.Context(), "k")
	if err != nil {
		w.Fatal(err)
	}
	return status.Line, slices.IndexFunc(status.Line, func(l backends.Claim) bool { return l.ID == c.req.ID })
}

// before is the ID in front of c that it waits for.
func (w *twins) before(c *claimant) string {
	line, at := w.line(c)
	for i := at - 1; i >= 0; i-- {
		if c.req.Mode != backends.Shared || line[i].Mode != backends.Shared {
			return line[i].ID
		}
	}
	return ""
}

// leavesLine notes that c is about to leave, if it waits.
func (w *twins) leavesLine(c *claimant) {
	if line, at := w.line(c); at >= 0 && line[at].State == backends.Waiting {
		w.left = append(w.left, c.req.ID)
	}
}

func (w *twins) forget(c *claimant) {
	w.live = slices.DeleteFunc(w.live, func(d *claimant) bool { return d == c })
}

func (w *twins) rung(c *claimant) bool {
	at := c.seen.(seen)
	bell, err := w.ours.bell()
	if err != nil {
		w.Fatal(err)
	}
	word, err := bell.look(at.seq)
	return word != at.word || err != nil
}

func (w *twins) compareLines() {
	ours, err := w.ours.Inspect(w.Context(), "k")
	theirs, _ := w.theirs.Inspect(w.Context(), "k")
	if got, want := shape(ours), shape(theirs); got != want || err != nil {
		w.Errorf("line %s, want %s; %v", got, want, err)
	}
	for _, c := range w.live {
		w.checkWake(c, ours.Line)
	}
}

func shape(s backends.Status) string {
	text := ""
	for _, c := range s.Line {
		text += fmt.Sprint(c.ID, c.State, c.Mode, c.Slots, c.Slot, c.Notice, "; ")
	}
	if s.Last != nil {
		text += fmt.Sprint(s.Last.Class, s.Last.Notice)
	}
	return text
}

// checkWake is rule 8: of those who may hold as of now, the first who waits for a slot or
// an exclusive hold was woken, and all for a shared one. Who may not hold was left alone,
// unless there is something to hear: a notice, when a hold that cools will end, or that
// the waiter in front has left.
func (w *twins) checkWake(c *claimant, line []backends.Claim) {
	at := slices.IndexFunc(line, func(l backends.Claim) bool { return l.ID == c.req.ID })
	if at < 0 || c.seen == nil || line[at].Notice != (backends.Notice{}) {
		return
	}
	front := line[:at]
	behindASlot := c.req.Mode == backends.Slots && slices.ContainsFunc(front, func(f backends.Claim) bool { return f.State == backends.Waiting })
	cools := slices.ContainsFunc(line, func(f backends.Claim) bool { return f.State == backends.Cooling })
	left := slices.Contains(w.left, c.before)
	switch fits := backends.Fits(line[at], front); {
	case left && c.req.Mode != backends.Shared && !w.rung(c):
		w.Errorf("%s wasn't woken though %s has left: %+v", c.req.ID, c.before, line)
	case fits && !behindASlot && !w.rung(c):
		w.Errorf("%s wasn't woken: %+v", c.req.ID, line)
	case !fits && !cools && !left && w.rung(c):
		w.Errorf("%s was woken for nothing: %+v", c.req.ID, line)
	}
}
