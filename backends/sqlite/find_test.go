//go:build cgo && linux

package sqlite

import (
	"errors"
	"os"
	"testing"

	"flockd/backends"
)

func find(t testing.TB, path string) (*Store, error) {
	t.Helper()
	u, err := backends.ParseURL("sqlite:" + path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Find(t.Context(), u)
	if err != nil {
		return nil, err
	}
	s := b.(*Store)
	t.Cleanup(func() { s.db.Close() })
	return s, nil
}

func TestFindMakesNothing(t *testing.T) {
	dir := t.TempDir()
	var unused *backends.UnusedError
	_, err := find(t, dir+"/a.db")
	if !errors.As(err, &unused) || *unused != (backends.UnusedError{Address: "sqlite://" + dir + "/a.db", Why: "no such file"}) || !errors.Is(err, backends.ErrNotFound) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(dir+"/empty.db", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := find(t, dir+"/empty.db"); !errors.Is(err, backends.ErrNotFound) {
		t.Errorf("an empty file: %v", err)
	}
	_, err = find(t, dir+"/none/a.db")
	wantRefused(t, err, "doesn't exist")
	t.Setenv("XDG_STATE_HOME", dir+"/state")
	if os.Geteuid() != 0 { // root's is elsewhere
		if _, err := find(t, ""); !errors.Is(err, backends.ErrNotFound) {
			t.Errorf("the default: %v", err)
		}
	}
	if there, _ := os.ReadDir(dir); len(there) != 1 {
		t.Errorf("there are %v", there)
	}
}

func TestFindSeesAndAsks(t *testing.T) {
	path := t.TempDir() + "/a.db"
	holder := open(t, path)
	lease := acquire(t, holder, request("k"))
	s, err := find(t, path)
	if err != nil {
		t.Fatal(err)
	}
	if status, err := s.Inspect(t.Context(), "k"); err != nil || len(status.Line) != 1 {
		t.Errorf("%+v, %v", status, err)
	}
	if err := s.Ask(t.Context(), "k", lease.ID, backends.Notice{Kind: backends.Break, Reason: "r"}); err != nil {
		t.Error(err)
	}
	if renewal, err := holder.Renew(t.Context(), lease); err != nil || renewal.Notice.Reason != "r" {
		t.Errorf("%+v, %v", renewal, err)
	}
}
