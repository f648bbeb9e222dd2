//go:build cgo && linux

package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"iter"
	"time"

	"flockd/backends"
)

// glance answers a request that wants no place by a read, which takes no lock and
// waits for nobody. Nil means that the key may be free, or that the ID has a claim.
func (s *Store) glance(ctx context.Context, req backends.Request) error {
	return s.look(ctx, func(t *tx) error {
		not, err := t.refusal(req)
		if not == nil || err != nil {
			return err
		}
		mine, err := scan(t.row("mine", s.prefix, req.Key, req.ID))
		if mine != nil || err != nil {
			return err
		}
		if err := t.forbidden(req.ID); err != nil {
			return err
		}
		return not
	})
}

// refusal is why a newcomer isn't granted the key: a *DoneError or a *HeldError.
func (t *tx) refusal(req backends.Request) (not, err error) {
	done, err := t.succeeded(req)
	if err != nil {
		return nil, err
	}
	if done != nil {
		return &backends.DoneError{Key: req.Key, Entry: *done}, nil
	}
	first, err := t.first(req.Key)
	if err != nil {
		return nil, err
	}
	if comes, _, err := t.turn(newcomer(req), first); comes || err != nil {
		return nil, err
	}
	return t.held(req, first, nil)
}

// Inspect implements backends.Backend. Who watches a key mustn't be shown the last of a file that
// nobody uses any more.
func (s *Store) Inspect(ctx context.Context, key string) (backends.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var status backends.Status
	err := s.read(ctx, func(t *tx) (err error) {
		status, err = t.status(key)
		return err
	})
	if err == nil {
		err = s.unmoved()
	}
	return status, s.failed("inspect", key, err)
}

// List implements backends.Backend. Each key's status is as of an instant of its own.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[backends.Status, error] {
	names := func() ([]string, error) {
		keys, err := s.keys(ctx, prefix)
		return keys, s.failed("list", prefix, err)
	}
	return backends.Each(names, func(key string) (backends.Status, error) { return s.Inspect(ctx, key) })
}

func (s *Store) keys(ctx context.Context, prefix string) (keys []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err = s.read(ctx, func(t *tx) error {
		rows, err := t.rows("keys", s.prefix, prefix)
		if err != nil {
			return err
		}
		defer rows.Close()
		keys = nil
		for rows.Next() {
			var key string
			if err := rows.Scan(&key); err != nil {
				return err
			}
			keys = append(keys, key)
		}
		return rows.Err()
	})
	return keys, err
}

// look runs do, each of whose statements sees the database as it is by then.
// Readers of a database with a log neither wait for its writer nor hold it up.
func (s *Store) look(ctx context.Context, do func(*tx) error) error {
	return retry(ctx, func() error {
		conn, err := s.db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		t := &tx{store: s, conn: conn, now: s.clock.now()}
		return t.explain(do(t))
	})
}

// read runs do on one state of the database.
func (s *Store) read(ctx context.Context, do func(*tx) error) error {
	return s.look(ctx, func(t *tx) error {
		if err := t.run("BEGIN"); err != nil {
			return err
		}
		defer t.run("ROLLBACK")
		return do(t)
	})
}

func (t *tx) rows(name string, args ...any) (*sql.Rows, error) {
	return t.conn.QueryContext(context.Background(), statement(name), args...)
}

func (t *tx) status(key string) (backends.Status, error) {
	wall := t.wall()
	status := backends.Status{Key: key, AsOf: wall}
	err := t.walk(func(c *claim) bool {
		status.Line = append(status.Line, c.public(t.now, wall))
		return true
	}, "line", t.store.prefix, key)
	if err != nil {
		return status, err
	}
	return status, t.addRuns(&status)
}

// addRuns adds the key's last run and last success.
func (t *tx) addRuns(status *backends.Status) error {
	rows, err := t.rows("runs", t.store.prefix, status.Key)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var run backends.Run
		var success bool
		var v int
		var owner, notice string
		var start, end int64
		if err := rows.Scan(&success, &v, &owner, &run.Token, &start, &end, &run.Class, &run.Exit, &notice); err != nil {
			return err
		}
		if v > backends.RecordVersion {
			return newer("last run", status.Key, v)
		}
		json.Unmarshal([]byte(owner), &run.Owner) // for display only
		run.Notice = noticeIn(notice)
		run.Start, run.End = time.UnixMicro(start), time.UnixMicro(end)
		if success {
			status.LastSuccess = &run
		} else {
			status.Last = &run
		}
	}
	return rows.Err()
}
