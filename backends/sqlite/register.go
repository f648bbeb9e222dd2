//go:build cgo && linux

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"flockd/backends"
)

// The register is a table that is made when it is first needed, and that older versions of
// flockd, which know nothing of it, leave alone: it needs no schema version of its own.
//
// A token that was admitted is on the disk. The zombie that it is to stop may be elsewhere,
// and outlive a power cut here that would take back what is in the log alone. What changes
// nothing, an equal token or a stale one, is answered by a read, which waits for nobody. For
// an equal one the log is flushed: who wrote it may have been killed before that.

// Admit implements backends.Register.
func (s *Store) Admit(ctx context.Context, resource string, token backends.Token) error {
	return s.set(ctx, "admit a token for", resource, token, false)
}

// Reset implements backends.Register.
func (s *Store) Reset(ctx context.Context, resource string, to backends.Token, down bool) error {
	return s.set(ctx, "reset the token of", resource, to, down)
}

// Highest implements backends.Register.
func (s *Store) Highest(ctx context.Context, resource string) (highest backends.Token, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	highest, err = s.highest(ctx, resource)
	if err == nil && highest == 0 {
		err = backends.ErrNotFound
	}
	return highest, s.failed("look up the token of", resource, err)
}

func (s *Store) set(ctx context.Context, op, resource string, to backends.Token, down bool) error {
	if err := backends.CheckAdmit(resource, to); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	highest, err := s.highest(ctx, resource)
	switch {
	case err != nil:
	case highest == to:
		err = s.flush()
	case down || highest < to:
		err = s.step(ctx, durable, func(t *tx) (err error) {
			highest, err = t.set(resource, to, down)
			return err
		})
	}
	if err == nil && highest > to {
		err = &backends.StaleError{Resource: resource, Token: to, Highest: highest}
	}
	return s.failed(op, resource, err)
}

// set makes to the highest token, unless it would lower it and may not. It returns the
// highest after that.
func (t *tx) set(resource string, to backends.Token, down bool) (backends.Token, error) {
	if err := t.exec("makeRegister"); err != nil {
		return 0, err
	}
	highest, err := t.highest(resource)
	if err != nil || highest > to && !down {
		return highest, err
	}
	return to, t.exec("setHighest", t.store.prefix, resource, backends.RecordVersion, to)
}

// flush has the disk take the log and its name. Without a log all is in the database.
func (s *Store) flush() error {
	path := real(s.path)
	err := flushFile(path + "-wal")
	if err == nil {
		err = flushFile(filepath.Dir(path))
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) { // a folder that we may not read
		return nil
	}
	return err
}

func flushFile(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Sync()
}

// highest is the resource's highest token; zero: it has seen none.
func (s *Store) highest(ctx context.Context, resource string) (highest backends.Token, err error) {
	err = s.read(ctx, func(t *tx) error {
		var made bool
		if err := t.row("registerMade").Scan(&made); !made || err != nil {
			return err
		}
		highest, err = t.highest(resource)
		return err
	})
	return highest, err
}

// highest wants the table.
func (t *tx) highest(resource string) (highest backends.Token, err error) {
	var v int
	err = t.row("highest", t.store.prefix, resource).Scan(&v, &highest)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, nil
	case err == nil && v > backends.RecordVersion:
		return 0, newer("highest token", resource, v)
	}
	return highest, err
}
