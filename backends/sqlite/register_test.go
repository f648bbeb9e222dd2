//go:build cgo && linux

package sqlite

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest"
)

// The version before knows the tables of schema.sql alone, and goes on with the file.
func TestRegisterNeedsNoNewSchema(t *testing.T) {
	path := t.TempDir() + "/a.db"
	s := open(t, path)
	lease := acquire(t, s, request("k"))
	var tables int
	if err := s.db.QueryRow("SELECT count(*) FROM sqlite_schema WHERE name = 'register'").Scan(&tables); err != nil || tables != 0 {
		t.Errorf("%d tables before they are needed, %v", tables, err)
	}
	if _, err := s.Highest(t.Context(), "r"); !errors.Is(err, backends.ErrNotFound) {
		t.Errorf("Highest = %v, want ErrNotFound", err)
	}
	backendtest.Admit(t, open(t, path), "r", 5)
	backendtest.WantHighest(t, s, "r", 5)
	var app, version int
	if err := errors.Join(s.db.QueryRow("PRAGMA application_id").Scan(&app), s.db.QueryRow("PRAGMA user_version").Scan(&version)); err != nil || app != 0x666c6b64 || version != 2 {
		t.Errorf("application %x, version %d, %v", app, version, err)
	}
	if _, err := s.Renew(t.Context(), lease); err != nil {
		t.Error(err)
	}
}

func TestRegisterOfVersion1(t *testing.T) {
	s := open(t, version1(t))
	backendtest.Admit(t, s, "r", 5)
	backendtest.WantHighest(t, s, "r", 5)
}

// Many make the table at once.
func TestRegisterIsMadeByManyAtOnce(t *testing.T) {
	path := t.TempDir() + "/a.db"
	errs := make(chan error)
	for n := range 20 {
		s := open(t, path)
		go func() { errs <- s.Admit(t.Context(), fmt.Sprint(n), 1) }()
	}
	for range 20 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestRegisterOfPrefixesApart(t *testing.T) {
	path := t.TempDir() + "/a.db"
	a := open(t, path)
	b, err := openURL(t, "sqlite:"+path+"?prefix=team")
	if err != nil {
		t.Fatal(err)
	}
	backendtest.Admit(t, a, "r", 7)
	backendtest.Admit(t, b, "r", 5)
	backendtest.WantHighest(t, a, "r", 7)
}

func TestNewerHighestIsRefused(t *testing.T) {
	path := t.TempDir() + "/a.db"
	s := open(t, path)
	backendtest.Admit(t, s, "r", 5)
	script(t, path, fmt.Sprintf("UPDATE register SET v = %d", backends.RecordVersion+1))
	wantRefused(t, s.Admit(t.Context(), "r", 6), "newer flockd")
	wantRefused(t, s.Reset(t.Context(), "r", 1, true), "newer flockd")
	_, err := s.Highest(t.Context(), "r")
	wantRefused(t, err, "newer flockd")
}

// What changes nothing is answered though another process has the file locked.
func TestEqualAndStaleNeedNoLock(t *testing.T) {
	path := t.TempDir() + "/a.db"
	s := open(t, path)
	backendtest.Admit(t, s, "r", 5)
	conn, err := open(t, path).db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	backendtest.Admit(t, s, "r", 5)
	if err := s.Admit(t.Context(), "r", 4); !errors.Is(err, backends.ErrStale) {
		t.Errorf("Admit = %v, want ErrStale", err)
	}
	s.timeout = 50 * time.Millisecond
	if err := s.Admit(t.Context(), "r", 6); err == nil || errors.Is(err, backends.ErrRefused) {
		t.Errorf("Admit = %v, want that the file is locked", err)
	}
}

// Who may only read the file is shown the highest token, and may admit none.
func TestRegisterOfAReader(t *testing.T) {
	path := t.TempDir() + "/a.db"
	backendtest.Admit(t, open(t, path), "r", 5)
	s, err := find(t, path)
	if err != nil {
		t.Fatal(err)
	}
	s.db.Close()
	s.connect("ro") // as for a user who may not write: the tests' may
	backendtest.WantHighest(t, s, "r", 5)
	wantRefused(t, s.Admit(t.Context(), "r", 6), "can't be written")
	backendtest.WantHighest(t, s, "r", 5)
}

// least is what the process reads and writes in the call that does so least: what else it
// does counts as well.
func least(t *testing.T, call func()) (read, written int) {
	t.Helper()
	for try := range 3 {
		readBefore, writtenBefore := traffic(t)
		call()
		readAfter, writtenAfter := traffic(t)
		if try == 0 {
			read, written = readAfter-readBefore, writtenAfter-writtenBefore
		}
		read, written = min(read, readAfter-readBefore), min(written, writtenAfter-writtenBefore)
	}
	return read, written
}

// An admit reads and writes the same, however many resources there are, and one that
// changes nothing writes nothing.
func TestAdmitCostsTheSameWithManyResources(t *testing.T) {
	s := open(t, t.TempDir()+"/a.db")
	s.db.SetMaxOpenConns(1)
	backendtest.Admit(t, s, "r", 1)
	if _, err := s.db.Exec("PRAGMA wal_autocheckpoint = 0"); err != nil { // it comes when it comes
		t.Fatal(err)
	}
	token, there := backends.Token(1), 0
	var reads, writes []int
	sizes := []int{10, 1000, 20_000}
	for _, n := range sizes {
		if _, err := s.db.Exec(`WITH RECURSIVE n (i) AS (SELECT ? UNION ALL SELECT i + 1 FROM n WHERE i < ?)
			INSERT INTO register SELECT 'flockd', 'resource ' || i, 1, i FROM n`, there+1, n); err != nil {
			t.Fatal(err)
		}
		there = n
		read, written := least(t, func() { token++; backendtest.Admit(t, s, "r", token) })
		reads, writes = append(reads, read), append(writes, written)
		if _, same := least(t, func() { backendtest.Admit(t, s, "r", token) }); same != 0 {
			t.Errorf("an equal token writes %d bytes", same)
		}
	}
	t.Logf("bytes read %v, written %v with %v resources", reads, writes, sizes)
	if writes[0] != writes[2] || reads[2]-reads[0] > 4*1024 {
		t.Error("they grow")
	}
}
