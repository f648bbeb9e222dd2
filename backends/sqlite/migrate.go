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
	schemaVersion = 2
)

// migrate makes the tables in an empty database, brings those of an older flockd up to
// date, and refuses a database that isn't flockd's or that a newer one made.
func (s *Store) migrate(ctx context.Context) error {
	var made bool
	err := s.look(ctx, func(t *tx) (err error) {
		made, err = t.made()
		return err
	})
	if made || err != nil {
		return err
	}
	var lacks string
	err = s.read(ctx, func(t *tx) (err error) {
		lacks, err = t.lacks()
		return err
	})
	if lacks == "" || err != nil {
		return err
	}
	if err := s.look(ctx, (*tx).keepLog); err != nil {
		return err
	}
	return s.step(ctx, durable, func(t *tx) error {
		lacks, err := t.lacks()
		if lacks == "" || err != nil {
			return err // somebody else was first
		}
		return t.run(lacks + fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, schemaVersion))
	})
}

// Schema is a script that makes the tables in an empty database. In a database that has them
// it fails, and changes nothing. The tables serve every prefix, and the file's owner says who
// may use it, so another prefix than the default and a user are a mistake.
func Schema(prefix, user string) (string, error) {
	if prefix != backends.DefaultPrefix || user != "" {
		return "", backends.BadURL("sqlite has the same tables for every prefix, and no users: the file's mode says who may use it")
	}
	return fmt.Sprintf("-- sqlite3 -bail FILE\n%s;\nPRAGMA journal_mode = WAL;\nBEGIN IMMEDIATE;\n%sPRAGMA application_id = %d;\nPRAGMA user_version = %d;\nCOMMIT;\n",
		pages, schema, applicationID, schemaVersion), nil
}

// made reports whether the tables are there, for certain only if they are.
func (t *tx) made() (bool, error) {
	app, version, err := t.marks()
	return app == applicationID && version == schemaVersion, err
}

// empty reports whether the database has no tables. It has to be asked in a transaction.
func (t *tx) empty() (bool, error) {
	lacks, err := t.lacks()
	return lacks == schema, err
}

// lacks is the statements that make the tables as they should be, empty if they are, and
// refuses tables that are not ours. It has to be asked in a transaction.
func (t *tx) lacks() (string, error) {
	var tables int
	app, version, err := t.marks()
	if err = errors.Join(err, t.row("tables").Scan(&tables)); err != nil {
		return "", err
	}
	switch {
	case app == 0 && version == 0 && tables == 0:
		return schema, nil
	case app != applicationID:
		return "", backends.Refuse("name another file with --backend sqlite:///…", "%s is another program's database", t.store.path)
	case version > schemaVersion:
		return "", t.store.newerSchema(version)
	case version == 1:
		return statement("from1"), nil
	}
	return "", nil
}

func (s *Store) newerSchema(version int) error {
	return backends.Refuse("use the newer flockd here as well",
		"%s was made by a newer flockd (schema version %d, this one knows %d)", s.path, version, schemaVersion)
}

// explain is err, unless a newer flockd has changed the tables since we opened them.
func (t *tx) explain(err error) error {
	if err == nil || errors.Is(err, backends.ErrHeld) || errors.Is(err, backends.ErrDone) || isBusy(err) {
		return err
	}
	if _, version, unknown := t.marks(); unknown == nil && version > schemaVersion {
		return t.store.newerSchema(version)
	}
	return err
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
