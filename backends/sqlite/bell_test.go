//go:build cgo && linux

package sqlite

import (
	"errors"
	"flockd/backends"
	"os"
	"testing"
	"time"
)

// Who may write the database may ring its bell, whatever the umask says.
func TestBellIsSharedAsTheDatabase(t *testing.T) {
	path := create(t, t.TempDir()+"/a.db")
	if err := os.Chmod(path, 0o660); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	if _, err := s.bell(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path + "-bell"); err != nil || info.Mode().Perm() != 0o660 {
		t.Error(info.Mode(), err)
	}
}

// A bell that was cut short ends nobody; its waiters come by themselves.
func TestBellThatIsCutShort(t *testing.T) {
	path := t.TempDir() + "/a.db"
	s := open(t, path)
	acquire(t, s, request("k"))
	waiter := request("k")
	waiter.Place = 15 * time.Second
	var held *backends.HeldError
	if _, err := s.Acquire(t.Context(), waiter); !errors.As(err, &held) || held.Seen == nil {
		t.Fatalf("%v, %+v", err, held)
	}
	if err := os.Truncate(path+"-bell", 0); err != nil {
		t.Fatal(err)
	}
	s.ring(1)
	if err := s.Wait(t.Context(), held); err == nil {
		t.Error("a broken bell was heard")
	}
	if _, err := s.Acquire(t.Context(), waiter); !errors.Is(err, backends.ErrHeld) {
		t.Error(err)
	}
}

// A symbolic link to the database has the same bell.
func TestBellBehindALink(t *testing.T) {
	dir := t.TempDir()
	straight := open(t, dir+"/a.db")
	if err := os.Symlink("a.db", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	linked := open(t, dir+"/link")
	r := request("k")
	acquire(t, straight, r)
	waiter := request("k")
	waiter.Place = 15 * time.Second
	var held *backends.HeldError
	if _, err := linked.Acquire(t.Context(), waiter); !errors.As(err, &held) {
		t.Fatal(err)
	}
	if err := straight.Release(t.Context(), "k", r.ID, backends.Outcome{}); err != nil {
		t.Fatal(err)
	}
	if err := linked.Wait(t.Context(), held); err != nil {
		t.Error(err)
	}
}
