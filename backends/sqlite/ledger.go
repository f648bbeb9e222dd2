//go:build cgo && linux

package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"flockd/backends"
)

// A ledger outlasts boots, so it goes by the wall clock of the host: that picks the period
// of a grant, and says when a success is forgotten.

// Completed implements backends.Ledger.
func (s *Store) Completed(ctx context.Context, key, run string) (entry backends.Entry, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err = s.look(ctx, func(t *tx) error {
		done, err := t.completed(key, run)
		if err != nil {
			return err
		}
		if done == nil {
			return backends.ErrNotFound
		}
		entry = *done
		return nil
	})
	return entry, s.failed("look up a run of", key, err)
}

// succeeded is the entry of the run that a grant now would be for, nil if there is none.
func (t *tx) succeeded(req backends.Request) (*backends.Entry, error) {
	if req.Once == nil {
		return nil, nil
	}
	return t.completed(req.Key, req.Once.RunAt(t.wall()))
}

func (t *tx) completed(key, run string) (*backends.Entry, error) {
	entry, err := scanEntry(key, t.row("completed", t.store.prefix, key, run, t.store.wall()))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &entry, err
}

// scanEntry reads an entry of key, and refuses one of a newer version.
func scanEntry(key string, row interface{ Scan(...any) error }) (e backends.Entry, err error) {
	var v int
	var owner string
	var at, forgets int64
	if err := row.Scan(&e.Run, &v, &e.Token, &owner, &at, &forgets); err != nil {
		return e, err
	}
	if v > backends.RecordVersion {
		return e, newer("run", key, v)
	}
	json.Unmarshal([]byte(owner), &e.Owner) // for display only
	e.At = time.UnixMicro(at)
	if forgets != 0 {
		e.Forgets = time.UnixMicro(forgets)
	}
	return e, nil
}

// Complete implements backends.Ledger. A success that it returns nil for is on the disk.
func (s *Store) Complete(ctx context.Context, lease backends.Lease) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var rings []int64
	err := s.step(ctx, durable, func(t *tx) (err error) {
		rings, err = t.complete(lease)
		return err
	})
	if err == nil {
		s.ring(rings...)
	}
	return s.failed("complete", lease.Key, s.lostIfMoved(err))
}

// complete records the run, unless it is recorded, and returns whom to wake: those who
// wait for it.
func (t *tx) complete(lease backends.Lease) ([]int64, error) {
	mine, err := scan(t.row("mine", t.store.prefix, lease.Key, lease.ID))
	if err != nil {
		return nil, err
	}
	if !mine.holds(t.store.clock.boot, t.now) {
		return nil, t.gone(lease.ID)
	}
	at := t.store.wall()
	var forgets int64
	if lease.Keep > 0 {
		forgets = at + lease.Keep.Microseconds()
	}
	if err := t.exec("forgetDone", at); err != nil {
		return nil, err
	}
	if err := t.exec("complete", t.store.prefix, lease.Key, lease.Run, backends.RecordVersion,
		mine.token, mine.owner, at, forgets); err != nil {
		return nil, err
	}
	return t.places("waitFor", t.store.prefix, lease.Key, lease.Run)
}

// Entries implements backends.Ledger.
func (s *Store) Entries(ctx context.Context, key string) iter.Seq2[backends.Entry, error] {
	return func(yield func(backends.Entry, error) bool) {
		entries, err := s.entries(ctx, key)
		for _, entry := range entries {
			if !yield(entry, nil) {
				return
			}
		}
		if err != nil {
			yield(backends.Entry{}, s.failed("list the runs of", key, err))
		}
	}
}

// entries are read at once: a read that stays open keeps the log from being carried over.
func (s *Store) entries(ctx context.Context, key string) (entries []backends.Entry, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err = s.read(ctx, func(t *tx) error {
		entries = nil
		rows, err := t.rows("entries", s.prefix, key, s.wall())
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			entry, err := scanEntry(key, rows)
			if err != nil {
				return err
			}
			entries = append(entries, entry)
		}
		return rows.Err()
	})
	return entries, err
}

// Forget implements backends.Ledger.
func (s *Store) Forget(ctx context.Context, key, run string) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err := s.step(ctx, durable, func(t *tx) error {
		done, err := t.completed(key, run)
		if err != nil {
			return err
		}
		if done == nil {
			return backends.ErrNotFound
		}
		return t.exec("forget", s.prefix, key, run)
	})
	return s.failed("forget a run of", key, err)
}
