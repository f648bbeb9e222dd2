//go:build cgo && linux

package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mattn/go-sqlite3"
)

// Connect implements driver.Connector.
func (l *link) Connect(context.Context) (driver.Conn, error) {
	conn, err := l.driver.Open(l.dsn)
	if err != nil {
		return nil, err
	}
	if _, err := conn.(*sqlite3.SQLiteConn).Exec(onConnect, nil); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// Driver implements driver.Connector.
func (l *link) Driver() driver.Driver { return &l.driver }

// tx is a step in progress: a write transaction, and the clock as it was once
// the lock was there. A reading from before the wait for it would be too old to
// judge a lease by.
type tx struct {
	store   *Store
	conn    *sql.Conn
	now     int64
	writes  bool  // it isn't for reading alone
	without int64 // a claim that the line is looked at as if it had left; 0: none
}

// wall is the wall clock: for display, and for what outlasts a boot.
func (t *tx) wall() time.Time { return time.UnixMicro(t.store.wall()) }

// durability says what a commit waits for.
type durability string

const (
	logged  durability = "NORMAL" // the log
	durable durability = "FULL"   // the disk
)

// step runs do in one write transaction, which ctx bounds. It is the only place
// that takes the write lock, never keeps it longer than do and the commit take,
// and waits for no client. An error before the commit means that nothing was applied.
func (s *Store) step(ctx context.Context, d durability, do func(*tx) error) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	t := &tx{store: s, conn: conn, writes: true}
	if d == durable {
		if err := t.run("PRAGMA synchronous = FULL"); err != nil {
			return err
		}
		defer t.run("PRAGMA synchronous = NORMAL")
	}
	if err := retry(ctx, func() error { return t.run("BEGIN IMMEDIATE") }); err != nil {
		return err
	}
	t.now = s.clock.now()
	if err := do(t); err != nil {
		return errors.Join(t.explain(err), t.run("ROLLBACK"))
	}
	if err := ctx.Err(); err != nil {
		return errors.Join(err, t.run("ROLLBACK"))
	}
	if err := t.run("COMMIT"); err != nil {
		t.run("ROLLBACK")
		return err
	}
	return nil
}

// A step takes about 0.1 ms, so the pauses between two looks begin near that. They
// are a quarter of the wait so far, so that hundreds who wait for one another
// don't spend the processor on looking, and end at ten looks a second.
const (
	pauseMin = 100 * time.Microsecond
	pauseMax = 100 * time.Millisecond
)

// retry calls try until it is not told that the database is locked.
func retry(ctx context.Context, try func() error) error {
	for began := time.Now(); ; {
		err := try()
		if err == nil || !isBusy(err) {
			return err
		}
		pause := min(max(time.Since(began)/4, pauseMin), pauseMax)
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-timer.C:
		}
	}
}

// Statements inside a step aren't bounded by its context: they don't wait, and
// interrupting one would not tell whether it was applied.

func (t *tx) run(text string, args ...any) error {
	_, err := t.conn.ExecContext(context.Background(), text, args...)
	return err
}

func (t *tx) exec(name string, args ...any) error { return t.run(statement(name), args...) }

func (t *tx) row(name string, args ...any) *sql.Row {
	return t.conn.QueryRowContext(context.Background(), statement(name), args...)
}
