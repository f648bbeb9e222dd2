//go:build cgo && linux

package sqlite

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"flockd/backends"
)

func openURL(t testing.TB, text string) (*Store, error) {
	t.Helper()
	u, err := backends.ParseURL(text)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(t.Context(), u)
	if err != nil {
		return nil, err
	}
	s := b.(*Store)
	t.Cleanup(func() { s.db.Close() })
	return s, nil
}

func open(t testing.TB, path string) *Store {
	t.Helper()
	s, err := openURL(t, "sqlite:"+path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func request(key string) backends.Request {
	return backends.Request{Key: key, ID: backends.NewID(), Mode: backends.Exclusive, TTL: time.Minute}
}

func acquire(t testing.TB, s *Store, r backends.Request) backends.Lease {
	t.Helper()
	lease, err := s.Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func wantRefused(t testing.TB, err error, text string) {
	t.Helper()
	if !errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), text) {
		t.Errorf("err = %v, want a refusal that says %q", err, text)
	}
}

// script runs statements on the file like a stranger would.
func script(t testing.TB, path, text string) {
	t.Helper()
	db := sql.OpenDB(connector(path, "rw"))
	defer db.Close()
	if _, err := db.Exec("PRAGMA busy_timeout = 5000; " + text); err != nil {
		t.Fatal(err)
	}
}

func TestOneFileManyPrefixes(t *testing.T) {
	path := t.TempDir() + "/a.db"
	a := open(t, path)
	b, err := openURL(t, "sqlite:"+path+"?prefix=team")
	if err != nil {
		t.Fatal(err)
	}
	acquire(t, a, request("k"))
	acquire(t, b, request("k"))
	if want := "sqlite://" + path + "?prefix=team"; b.Address() != want {
		t.Errorf("Address() = %s, want %s", b.Address(), want)
	}
}

func TestDeadWaitersAreNotCounted(t *testing.T) {
	s := open(t, t.TempDir()+"/a.db")
	acquire(t, s, request("k"))
	place := request("k")
	place.Place = time.Millisecond
	s.Acquire(t.Context(), place)
	for end := s.clock.now() + int64(place.Place); s.clock.now() < end; {
	}
	var held *backends.HeldError
	if _, err := s.Acquire(t.Context(), request("k")); !errors.As(err, &held) || held.Waiters != 0 || held.Ahead != 0 {
		t.Errorf("%v: %+v", err, held)
	}
}

// A taken key is refused by a read alone, which must not forget who was released.
func TestReleasedIDIsForbiddenWhileTheKeyIsTaken(t *testing.T) {
	s := open(t, t.TempDir()+"/a.db")
	req := request("k")
	s.Release(t.Context(), req.Key, req.ID, backends.Outcome{})
	acquire(t, s, request("k"))
	if _, err := s.Acquire(t.Context(), req); !errors.Is(err, backends.ErrLost) {
		t.Errorf("Acquire = %v, want ErrLost", err)
	}
}
