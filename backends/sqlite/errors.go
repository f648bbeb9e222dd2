//go:build cgo && linux

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/mattn/go-sqlite3"

	"flockd/backends"
)

// errReplaced says that the path leads to other files than those we opened.
var errReplaced = errors.New("the database file was replaced or removed")

// newer refuses a record of a later version.
func newer(what, key string, version int) error {
	return backends.Refuse("use the newer flockd here as well",
		"the %s of %q was written by a newer flockd (record version %d, this one knows %d)",
		what, key, version, backends.RecordVersion)
}

// failed names the request that err is about. Nil stays nil.
func (s *Store) failed(op, key string, err error) error {
	if err == nil || errors.Is(err, backends.ErrHeld) {
		return err
	}
	return fmt.Errorf("%s %q: %w", op, key, s.classify(err))
}

// lostIfMoved makes a replaced file a lost hold, whatever the file that we hold
// open says. Where the path can't be seen, nothing is known.
func (s *Store) lostIfMoved(err error) error {
	moved := s.unmoved()
	if errors.Is(moved, errReplaced) {
		return fmt.Errorf("%w: %w", backends.ErrLost, moved)
	}
	return errors.Join(err, moved)
}

// classify turns SQLite's errors into ours. A full disk and a locked file may
// pass, so trying again is of use; they are ordinary errors.
func (s *Store) classify(err error) error {
	if errors.Is(err, errReplaced) {
		return backends.Refuse("", "%s: %w", s.path, err)
	}
	var e sqlite3.Error
	if !errors.As(err, &e) {
		return err
	}
	if e.Code == sqlite3.ErrFull || e.SystemErrno == syscall.ENOSPC {
		return fmt.Errorf("%s: no space left on the device", s.path)
	}
	switch e.Code {
	case sqlite3.ErrBusy, sqlite3.ErrLocked:
		return fmt.Errorf("%s is locked by %s: %w", s.path, s.locker(), timeoutOf(err))
	case sqlite3.ErrNotADB:
		return backends.Refuse("if it was one, end the flockd runs that use it, then move it away; else name another file", "%s is not a flockd database", s.path)
	case sqlite3.ErrCorrupt:
		return backends.Refuse("end the flockd runs that use it, then move it away: only the holds and last runs are lost",
			"%s is damaged: %w", s.path, e)
	case sqlite3.ErrReadonly, sqlite3.ErrCantOpen, sqlite3.ErrPerm, sqlite3.ErrAuth:
		return backends.Refuse("", "%s can't be written: %w", s.path, e)
	}
	return fmt.Errorf("%s: %w", s.path, e)
}

// timeoutOf is why the wait for a lock ended.
func timeoutOf(err error) error {
	for _, cause := range []error{context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, cause) {
			return cause
		}
	}
	return err
}
