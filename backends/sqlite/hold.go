//go:build cgo && linux

package sqlite

import (
	"context"
	"errors"

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
			return t.gone(lease.ID)
		}
		renewal.Notice = mine.told()
		return t.exec("renew", t.now, t.now+int64(lease.TTL), mine.seq)
	})
	return renewal, s.failed("renew", lease.Key, s.lostIfMoved(err))
}

// Release implements backends.Backend.
func (s *Store) Release(ctx context.Context, key, id string, outcome backends.Outcome) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var gone error
	var rings []int64
	err := s.step(ctx, logged, func(t *tx) error {
		mine, err := scan(t.row("mine", s.prefix, key, id))
		if err != nil {
			return err
		}
		if mine.ended(s.clock.boot, t.now) {
			if gone = t.gone(id); !errors.Is(gone, backends.ErrLost) {
				return gone
			}
		}
		if mine != nil {
			if rings, err = t.leave(mine, outcome); err != nil {
				return err
			}
		}
		return t.exec("end", id, s.clock.boot, t.now+int64(tombstone))
	})
	if err == nil {
		s.ring(rings...)
	}
	if err == nil {
		err = gone
	}
	return s.failed("release", key, s.lostIfMoved(err))
}

// leave takes a claim out of the line, or lets it cool, and records its run. It
// returns whom to wake.
func (t *tx) leave(mine *claim, outcome backends.Outcome) (rings []int64, err error) {
	if mine.holds(t.store.clock.boot, t.now) && outcome != (backends.Outcome{}) {
		if err := t.record(mine, outcome); err != nil {
			return nil, err
		}
	}
	if mine.boot == t.store.clock.boot && mine.keptTill > t.now {
		return t.cool(mine)
	}
	return t.remove(mine)
}

// cool ends a hold whose key stays taken. Those whose turn would have come are woken,
// to learn when it will.
func (t *tx) cool(mine *claim) ([]int64, error) {
	if err := t.exec("cool", mine.seq); err != nil {
		return nil, err
	}
	t.without = mine.seq
	defer func() { t.without = 0 }()
	return t.freed(mine)
}

// remove takes a claim out of the line, and returns whom to wake.
func (t *tx) remove(c *claim) ([]int64, error) {
	if err := t.exec("remove", c.seq); err != nil {
		return nil, err
	}
	return t.freed(c)
}

// record keeps the run as the key's last one, and as its last success if it is one.
func (t *tx) record(mine *claim, outcome backends.Outcome) error {
	end := t.store.wall()
	start := end - (t.now-mine.granted)/1000
	keep := func(success int) error {
		return t.exec("recordRun", mine.prefix, mine.key, success, backends.RecordVersion,
			mine.owner, mine.token, start, end, outcome.Class, outcome.Exit, noticeText(outcome.Notice))
	}
	if err := keep(0); err != nil || !outcome.Success {
		return err
	}
	return keep(1)
}

// ended reports whether c has nothing left to release.
func (c *claim) ended(boot string, now int64) bool {
	return c == nil || c.state == backends.Cooling || !c.leased(boot, now)
}

// holds reports whether c is a hold whose lease hasn't run out.
func (c *claim) holds(boot string, now int64) bool {
	return c != nil && c.state == backends.Holding && c.leased(boot, now)
}
