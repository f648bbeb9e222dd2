//go:build cgo && linux

package sqlite

import (
	"math"
	"time"

	"flockd/backends"
)

// The walk over a line looks at few claims, however many wait: an exclusive one is the
// only one that matters to those behind it, of slots there are as many as may hold, and
// the next unshared one is found by an index. Whoever holds is among the claims at the
// front that are of one family, since nobody passes a live claim of another.

// atTheEnd is the place of who isn't in line yet.
const atTheEnd = math.MaxInt64

// removedAtOnce bounds what a step does for others: it removes so many dead claims at
// most, and passes by the others.
const removedAtOnce = 100

// newcomer is the claim of who isn't in line yet.
func newcomer(req backends.Request) *claim {
	return &claim{
		seq: atTheEnd, key: req.Key, id: req.ID, state: backends.Waiting, mode: req.Mode, slots: req.Slots,
		owner: encode(req.Owner),
	}
}

// walk visits the live claims that a statement lists until visit has seen enough. A step
// removes the dead ones that it meets.
func (t *tx) walk(visit func(*claim) (more bool), name string, args ...any) error {
	rows, err := t.rows(name, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var dead []int64
	for rows.Next() {
		c, err := scan(rows)
		if err != nil {
			return err
		}
		switch {
		case !c.live(t.store.clock.boot, t.now):
			dead = append(dead, c.seq)
			continue
		case c.seq == t.without:
			continue
		}
		if !visit(c) {
			break
		}
	}
	if err := rows.Err(); err != nil || !t.writes {
		return err
	}
	rows.Close()
	for _, seq := range dead[:min(len(dead), removedAtOnce)] {
		if err := t.exec("remove", seq); err != nil {
			return err
		}
	}
	return nil
}

// meet is the first live claim that a statement lists, nil if there is none.
func (t *tx) meet(name string, args ...any) (met *claim, err error) {
	err = t.walk(func(c *claim) bool {
		met = c
		return false
	}, name, args...)
	return met, err
}

// first is the first live claim of the key's line, nil if there is none.
func (t *tx) first(key string) (*claim, error) { return t.meet("line", t.store.prefix, key) }

// family reports whether two claims may hold beside each other.
func (c *claim) family(d *claim) bool {
	return c.mode != backends.Exclusive && c.mode == d.mode && c.slots == d.slots
}

// lead is the claims at the front that are of the family of the first: so many of them
// as may hold, and all who do. other is the claim behind them that is not, if they are
// fewer.
func (t *tx) lead(first *claim) (lead []*claim, other *claim, err error) {
	if first.mode == backends.Exclusive {
		return []*claim{first}, nil, nil
	}
	err = t.walk(func(c *claim) bool {
		if !c.family(first) {
			other = c
			return false
		}
		lead = append(lead, c)
		return c.mode != backends.Slots || len(lead) < c.slots
	}, "line", t.store.prefix, first.key)
	return lead, other, err
}

// turn is backends.Fits of c, in a line that begins with first, nil if nobody is in it,
// and the slot that c would get.
func (t *tx) turn(c, first *claim) (comes bool, slot int, err error) {
	switch {
	case first == nil:
		return true, 0, nil
	case c.mode == backends.Slots && c.family(first):
		return t.slot(c, first)
	case first.seq == c.seq:
		return true, 0, nil
	case !c.family(first):
		return false, 0, nil
	}
	unshared, err := t.meet("unsharedInFront", t.store.prefix, c.key, c.seq)
	return unshared == nil, 0, err
}

// slot is turn where first is of c's family: the lowest slot that nobody has.
func (t *tx) slot(c, first *claim) (comes bool, slot int, err error) {
	lead, other, err := t.lead(first)
	if err != nil || other != nil && other.seq < c.seq {
		return false, 0, err
	}
	front, taken := 0, map[int]bool{}
	for _, l := range lead {
		if l.seq < c.seq {
			front++
		}
		if l.state != backends.Waiting {
			taken[l.slot] = true
		}
	}
	for taken[slot] {
		slot++
	}
	return front < c.slots, slot, nil
}

// held is the answer to who has the place mine, nil if none, in a line that begins with
// first.
func (t *tx) held(req backends.Request, first, mine *claim) (*backends.HeldError, error) {
	wall := t.wall()
	held := &backends.HeldError{Key: req.Key, AsOf: wall}
	lead, _, err := t.lead(first)
	if err != nil {
		return nil, err
	}
	for _, c := range lead {
		if c.state != backends.Waiting {
			held.Holders = append(held.Holders, c.public(t.now, wall))
		}
	}
	if len(held.Holders) == 0 {
		next := first.public(t.now, wall)
		held.Next = &next
	}
	place := int64(atTheEnd)
	if mine != nil {
		place, held.Notice, held.Seen = mine.seq, mine.told(), t.store.place(mine.seq)
	}
	if held.RetryAfter, err = t.retryAfter(first, mine, lead); err != nil {
		return nil, err
	}
	return held, t.row("waiters", place, t.store.prefix, req.Key, t.now).Scan(&held.Waiters, &held.Ahead)
}

// retryAfter is when what mine waits for ends by itself: the claim in front; for a shared
// hold the unshared one in front; for a slot, where nobody else waits for it, any hold.
func (t *tx) retryAfter(first, mine *claim, lead []*claim) (time.Duration, error) {
	before, err := t.before(first, mine)
	if err != nil {
		return 0, err
	}
	ends := before.ends()
	if mine != nil && mine.mode == backends.Slots && before.state != backends.Waiting {
		for _, c := range lead {
			ends = min(ends, c.ends())
		}
	}
	return time.Duration(max(ends-t.now, 0)), nil
}

// before is the claim in front that mine waits for. Who has no place waits for the first.
func (t *tx) before(first, mine *claim) (*claim, error) {
	if mine == nil || first.seq == mine.seq {
		return first, nil
	}
	name := "inFront"
	if mine.mode == backends.Shared {
		name = "unsharedInFront"
	}
	before, err := t.meet(name, t.store.prefix, mine.key, mine.seq)
	if before == nil {
		before = first
	}
	return before, err
}

// freed is whom c, which has left the line, kept from holding, as far as they are to be
// woken: the shared ones behind an unshared one, all at once; of others the first. Where
// that's nobody, the one that waited for c's own turn is: it has to learn what it waits
// for now.
func (t *tx) freed(c *claim) ([]int64, error) {
	next, err := t.meet("behind", t.store.prefix, c.key, c.seq)
	if next == nil || err != nil {
		return nil, err
	}
	rings, err := t.comes(c, next)
	if len(rings) == 0 && c.waits() && next.waits() && (c.mode != backends.Shared || next.mode != backends.Shared) {
		rings = []int64{next.seq}
	}
	return rings, err
}

// comes is those whose turn has come since c has left, next the first behind it.
func (t *tx) comes(c, next *claim) ([]int64, error) {
	switch {
	case next.mode == backends.Exclusive || next.mode == backends.Slots && next.state == backends.Waiting:
		return t.ifItComes(next)
	case next.mode == backends.Shared && c.mode != backends.Shared:
		return t.allBehind(c, next)
	}
	return t.nextTurn(c)
}

// nextTurn is the first behind c that waits for an unshared hold, if its turn has come.
func (t *tx) nextTurn(c *claim) ([]int64, error) {
	next, err := t.meet("unsharedBehind", t.store.prefix, c.key, c.seq)
	if next == nil || err != nil {
		return nil, err
	}
	return t.ifItComes(next)
}

func (t *tx) ifItComes(next *claim) ([]int64, error) {
	first, err := t.first(next.key)
	if err != nil {
		return nil, err
	}
	if comes, _, err := t.turn(next, first); !comes || err != nil {
		return nil, err
	}
	return []int64{next.seq}, nil
}

// allBehind is those who wait behind c for a shared hold, next the first of them, up to
// the next unshared claim, if their turn has come.
func (t *tx) allBehind(c, next *claim) ([]int64, error) {
	if comes, err := t.ifItComes(next); comes == nil || err != nil {
		return nil, err
	}
	end, err := t.meet("unsharedBehind", t.store.prefix, c.key, c.seq)
	if err != nil {
		return nil, err
	}
	until := int64(atTheEnd)
	if end != nil {
		until = end.seq
	}
	return t.places("sharedBetween", t.store.prefix, c.key, c.seq, until)
}

// places is the places that a statement lists.
func (t *tx) places(name string, args ...any) (seqs []int64, err error) {
	rows, err := t.rows(name, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var seq int64
		if err := rows.Scan(&seq); err != nil {
			return nil, err
		}
		seqs = append(seqs, seq)
	}
	return seqs, rows.Err()
}
