//go:build cgo && linux

package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/mattn/go-sqlite3"

	"flockd/backends"
)

const (
	applicationID = 0x666c6b64 // "flkd"
	schemaVersion = 1
)

// migrate makes the tables in an empty database, and refuses one that isn't
// flockd's or that a newer one made.
func (s *Store) migrate(ctx context.Context) error {
	var made, empty bool
	err := s.look(ctx, func(t *tx) (err error) {
		made, err = t.made()
		return err
	})
	if made || err != nil {
		return err
	}
	err = s.read(ctx, func(t *tx) (err error) {
		empty, err = t.empty()
		return err
	})
	if !empty || err != nil {
		return err
	}
	if err := s.look(ctx, (*tx).keepLog); err != nil {
		return err
	}
	return s.step(ctx, durable, func(t *tx) error {
		if empty, err := t.empty(); !empty || err != nil {
			return err // somebody else was first
		}
		return t.run(schema + fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, schemaVersion))
	})
}

// made reports whether the tables are there, for certain only if they are.
func (t *tx) made() (bool, error) {
	app, version, err := t.marks()
	return app == applicationID && version == schemaVersion, err
}

// empty reports whether the database has no tables, and refuses one whose tables
// are not ours. It has to be asked in a transaction.
func (t *tx) empty() (bool, error) {
	var tables int
	app, version, err := t.marks()
	if err = errors.Join(err, t.row("tables").Scan(&tables)); err != nil {
		return false, err
	}
	switch {
	case app == 0 && version == 0 && tables == 0:
		return true, nil
	case app != applicationID:
		return false, backends.Refuse("name another file with --backend sqlite:///…", "%s is another program's database", t.store.path)
	case version > schemaVersion:
		return false, backends.Refuse("use the newer flockd here as well",
			"%s was made by a newer flockd (schema version %d, this one knows %d)", t.store.path, version, schemaVersion)
	}
	return false, nil
}

func (t *tx) marks() (app, version int, err error) {
	err = errors.Join(t.row("application").Scan(&app), t.row("version").Scan(&version))
	return app, version, err
}

// pages are small: a step changes some ten of them by a record or two, and writes
// each as a whole.
const pages = `PRAGMA page_size = 1024`

// keepLog makes the database one with a write-ahead log, in which readers and the
// writer don't wait for each other. Where others are in the way SQLite says so by
// answering with the old mode.
func (t *tx) keepLog() error {
	if err := t.run(pages); err != nil {
		return err
	}
	var mode string
	if err := t.row("keepLog").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return sqlite3.Error{Code: sqlite3.ErrBusy}
	}
	return nil
}
