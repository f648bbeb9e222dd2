//go:build cgo && linux

package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"flockd/backends"
)

// schema1 is the tables of version 1.
const schema1 = `
CREATE TABLE tokens (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    boot    TEXT    NOT NULL,
    last    INTEGER NOT NULL,
    ceiling INTEGER NOT NULL
);
INSERT INTO tokens VALUES (1, '', 0, 0);
CREATE TABLE claims (
    seq          INTEGER PRIMARY KEY,
    v            INTEGER NOT NULL,
    prefix       TEXT    NOT NULL,
    key          TEXT    NOT NULL,
    id           TEXT    NOT NULL UNIQUE,
    state        TEXT    NOT NULL,
    mode         TEXT    NOT NULL,
    slots        INTEGER NOT NULL,
    slot         INTEGER NOT NULL,
    token        INTEGER NOT NULL,
    boot         TEXT    NOT NULL,
    asked_mono   INTEGER NOT NULL,
    granted_mono INTEGER NOT NULL,
    renewed_mono INTEGER NOT NULL,
    expires_mono INTEGER NOT NULL,
    kept_mono    INTEGER NOT NULL,
    owner        TEXT    NOT NULL,
    notice       TEXT    NOT NULL DEFAULT ''
);
CREATE INDEX line ON claims (prefix, key, seq);
CREATE TABLE ended (
    id         TEXT    PRIMARY KEY,
    boot       TEXT    NOT NULL,
    until_mono INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX forgotten ON ended (until_mono);
CREATE TABLE runs (
    prefix     TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    success    INTEGER NOT NULL,
    v          INTEGER NOT NULL,
    owner      TEXT    NOT NULL,
    token      INTEGER NOT NULL,
    start_wall INTEGER NOT NULL,
    end_wall   INTEGER NOT NULL,
    class      TEXT    NOT NULL,
    exit       INTEGER NOT NULL,
    PRIMARY KEY (prefix, key, success)
) WITHOUT ROWID;
PRAGMA application_id = 0x666c6b64;
PRAGMA user_version = 1;
`

// version1 is a database of version 1 with a holder and a waiter of the key k, whose IDs
// are h and w, and a last run.
func version1(t *testing.T) string {
	t.Helper()
	path := create(t, t.TempDir()+"/a.db")
	c, err := readClock()
	if err != nil {
		t.Fatal(err)
	}
	now, minute := c.now(), int64(60e9)
	script(t, path, "PRAGMA journal_mode = WAL;"+schema1+fmt.Sprintf(`
		UPDATE tokens SET boot = '%[1]s', last = 41, ceiling = 42;
		INSERT INTO claims VALUES (1, 1, 'flockd', 'k', 'h', 'holding', 'exclusive', 0, 0, 41, '%[1]s', %[2]d, %[2]d, %[2]d, %[3]d, 0, '{"user":"u"}', '');
		INSERT INTO claims VALUES (2, 1, 'flockd', 'k', 'w', 'waiting', 'exclusive', 0, 0, 0, '%[1]s', %[2]d, 0, %[2]d, %[3]d, 0, '{"user":"u"}', '');
		INSERT INTO runs VALUES ('flockd', 'k', 0, 1, '{"user":"u"}', 40, 1, 2, 'finished', 3);`, c.boot, now, now+minute))
	return path
}

func TestVersion1IsBroughtUpToDate(t *testing.T) {
	path := version1(t)
	s := open(t, path)
	status, err := s.Inspect(t.Context(), "k")
	if err != nil || len(status.Line) != 2 || status.Last == nil || status.Last.Exit != 3 || status.Last.Owner.User != "u" {
		t.Fatalf("%+v, %v", status, err)
	}
	if _, err := s.Renew(t.Context(), backends.Lease{Key: "k", ID: "h", TTL: request("k").TTL}); err != nil {
		t.Error(err)
	}
	var held *backends.HeldError
	if _, err := s.Acquire(t.Context(), request("k")); !errors.As(err, &held) || held.Waiters != 1 {
		t.Errorf("%+v, %v", held, err)
	}
	if err := s.Release(t.Context(), "k", "h", backends.Outcome{}); err != nil {
		t.Error(err)
	}
	waiter := request("k")
	waiter.ID = "w"
	if lease := acquire(t, s, waiter); lease.Token <= 41 {
		t.Errorf("token %d after 41", lease.Token)
	}
	open(t, path)
}

// The tables that were brought up to date are those of a new database.
func TestVersion1HasTheSameTables(t *testing.T) {
	columns := func(s *Store) (all []string) {
		rows, err := s.db.Query(`
			SELECT t.name || ' ' || c.cid || ' ' || c.name || ' ' || c.type || ' ' || c."notnull" || ' ' || coalesce(c.dflt_value, '') || ' ' || c.pk
			FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table'
			UNION ALL SELECT sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL ORDER BY 1`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var column string
			if err := rows.Scan(&column); err != nil {
				t.Fatal(err)
			}
			all = append(all, column)
		}
		return all
	}
	old, made := columns(open(t, version1(t))), columns(open(t, t.TempDir()+"/b.db"))
	if !slices.Equal(old, made) || len(made) == 0 {
		t.Errorf("brought up to date:\n%q\nmade:\n%q", old, made)
	}
}

// Whoever comes second finds that somebody else has done it.
func TestVersion1ByManyAtOnce(t *testing.T) {
	path := version1(t)
	errs := make(chan error)
	for range 20 {
		go func() {
			u, _ := backends.ParseURL("sqlite:" + path)
			b, err := Open(t.Context(), u)
			if err == nil {
				_, err = b.Acquire(t.Context(), request("k"))
			}
			errs <- err
		}()
	}
	for range 20 {
		if err := <-errs; !errors.Is(err, backends.ErrHeld) {
			t.Error(err)
		}
	}
}

// A process that still runs when a newer one changes the tables is told why it can't go on.
func TestTablesThatANewerOneHasChanged(t *testing.T) {
	path := t.TempDir() + "/a.db"
	s := open(t, path)
	lease := acquire(t, s, request("k"))
	script(t, path, fmt.Sprintf(`ALTER TABLE claims ADD COLUMN more INTEGER NOT NULL DEFAULT 0;
		ALTER TABLE runs RENAME TO newruns; PRAGMA user_version = %d`, schemaVersion+1))
	_, err := s.Renew(t.Context(), lease)
	wantRefused(t, err, "newer flockd")
	_, err = s.Acquire(t.Context(), request("k"))
	wantRefused(t, err, "newer flockd")
	_, err = s.Inspect(t.Context(), "none")
	wantRefused(t, err, "newer flockd")
}

// What "flockd schema" prints makes the database that the driver makes, but for what the
// driver keeps for itself, and in a database that is made already it fails.
func TestSchemaIsWhatIsUsed(t *testing.T) {
	path := create(t, t.TempDir()+"/a.db")
	text, err := Schema(backends.DefaultPrefix, "")
	if err != nil {
		t.Fatal(err)
	}
	script(t, path, text)
	s := open(t, path)
	acquire(t, s, request("k"))
	if _, err := s.db.Exec(text); err == nil {
		t.Error("the schema was made twice")
	}
}
