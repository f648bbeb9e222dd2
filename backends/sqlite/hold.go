//go:build cgo && linux

package sqlite

import (
	"context"
	"encoding/json"

	"flockd/backends"
)

// Renew implements backends.Backend. A file that is not the one we opened is a
// lost hold: whoever comes next asks the other file.
func (s *Store) Renew(ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	renewal := backends.Renewal{TTL: lease.TTL}
	err := s.step(ctx, logged, func(t *tx) error {
		mine, err := scan(t.row("mine", s.prefix, lease.Key, lease.ID))
		if err != nil {
			return err
		}
		if !mine.holds(s.clock.boot, t.now) {
			return backends.ErrLost
		}
		renewal.Notice = mine.told()
		return t.exec("extend", t.now, t.now+int64(lease.TTL), mine.seq)
	})
	return renewal, s.failed("renew", lease.Key, s.lostIfMoved(err))
}

// Release implements backends.Backend.
func (s *Store) Release(ctx context.Context, key, id string, outcome backends.Outcome) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var gone bool
	var behind int64
	err := s.step(ctx, logged, func(t *tx) error {
		mine, err := scan(t.row("mine", s.prefix, key, id))
		if err != nil {
			return err
		}
		if gone = mine.ended(s.clock.boot, t.now); mine != nil {
			if behind, err = t.leave(mine, outcome); err != nil {
				return err
			}
		}
		return t.exec("end", id, s.clock.boot, t.now+int64(tombstone))
	})
	if err == nil {
		s.ring(behind)
	}
	if err == nil && gone {
		err = backends.ErrLost
	}
	return s.failed("release", key, s.lostIfMoved(err))
}

// leave takes a claim out of the line, or lets it cool, and records its run. It
// returns whom to ring for.
func (t *tx) leave(mine *claim, outcome backends.Outcome) (behind int64, err error) {
	if mine.holds(t.store.clock.boot, t.now) && outcome != (backends.Outcome{}) {
		if err := t.record(mine, outcome); err != nil {
			return 0, err
		}
	}
	if mine.boot == t.store.clock.boot && mine.keptTill > t.now {
		return 0, t.exec("cool", mine.seq)
	}
	return t.remove(mine)
}

// remove takes a claim out of the line, and returns the place of the live one
// behind it if that waits, else 0.
func (t *tx) remove(c *claim) (behind int64, err error) {
	if err := t.exec("remove", c.seq); err != nil {
		return 0, err
	}
	for {
		next, err := scan(t.row("behind", c.prefix, c.key, c.seq))
		if err != nil || next == nil || next.state != backends.Waiting {
			return 0, err
		}
		if next.live(t.store.clock.boot, t.now) {
			return next.seq, nil
		}
		if err := t.exec("remove", next.seq); err != nil {
			return 0, err
		}
	}
}

// record keeps the run as the key's last one, and as its last success if it is one.
func (t *tx) record(mine *claim, outcome backends.Outcome) error {
	end := t.store.wall()
	start := end - (t.now-mine.granted)/1000
	keep := func(success int) error {
		return t.exec("recordRun", mine.prefix, mine.key, success, backends.RecordVersion,
			mine.owner, mine.token, start, end, outcome.Class, outcome.Exit)
	}
	if err := keep(0); err != nil || !outcome.Success {
		return err
	}
	return keep(1)
}

// ring wakes the waiter at seq; 0 is nobody. Without a bell it comes by itself when it next
// keeps its place.
func (s *Store) ring(seq int64) {
	if seq == 0 {
		return
	}
	if bell, err := s.bell(); err == nil {
		bell.ring(seq)
	}
}

// Ask implements backends.Backend.
func (s *Store) Ask(ctx context.Context, key, id string, notice backends.Notice) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var behind int64
	err := s.step(ctx, logged, func(t *tx) error {
		theirs, err := scan(t.row("mine", s.prefix, key, id))
		if err != nil {
			return err
		}
		if theirs == nil || !theirs.live(s.clock.boot, t.now) {
			return backends.ErrNotFound
		}
		if !notice.Force {
			return t.exec("notify", encode(notice), theirs.seq)
		}
		if behind, err = t.remove(theirs); err != nil {
			return err
		}
		return t.exec("end", id, s.clock.boot, t.now+int64(tombstone))
	})
	if err == nil {
		s.ring(behind)
	}
	return s.failed("ask", key, err)
}

// ended reports whether c has nothing left to release.
func (c *claim) ended(boot string, now int64) bool {
	return c == nil || c.state == backends.Cooling || !c.leased(boot, now)
}

// holds reports whether c is a hold whose lease hasn't run out.
func (c *claim) holds(boot string, now int64) bool {
	return c != nil && c.state == backends.Holding && c.leased(boot, now)
}

// told is the notice that was left for c.
func (c *claim) told() (n backends.Notice) {
	if c.notice != "" {
		json.Unmarshal([]byte(c.notice), &n) // what can't be read asks nothing
	}
	return n
}
