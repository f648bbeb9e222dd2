//go:build cgo && linux

package sqlite

import (
	"errors"
	"flockd/backends"
	"flockd/backends/host"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestReplacedFileIsALostHold(t *testing.T) {
	for name, replace := range map[string]func(path string) error{
		"removed":       os.Remove,
		"renamed":       func(p string) error { return os.Rename(p, p+".old") },
		"log removed":   func(p string) error { return os.Remove(p + "-wal") },
		"index removed": func(p string) error { return os.Remove(p + "-shm") },
		"link moved": func(p string) error {
			if err := os.Rename(p, p+".old"); err != nil {
				return err
			}
			return os.Symlink(p+".old", p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir() + "/a.db"
			s := open(t, path)
			lease := acquire(t, s, request("k"))
			waiter := request("k")
			waiter.Place = time.Hour
			if err := replace(path); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Acquire(t.Context(), waiter); !errors.Is(err, backends.ErrRefused) {
				t.Errorf("Acquire of a place = %v, want a refusal", err)
			}
			if status, err := s.Inspect(t.Context(), "k"); !errors.Is(err, backends.ErrRefused) {
				t.Errorf("Inspect = %+v, %v, want a refusal", status.Line, err)
			}
			if _, err := s.Renew(t.Context(), lease); !errors.Is(err, backends.ErrLost) {
				t.Errorf("Renew = %v, want ErrLost", err)
			}
			if err := s.Release(t.Context(), "k", lease.ID, backends.Outcome{}); !errors.Is(err, backends.ErrLost) {
				t.Errorf("Release = %v, want ErrLost", err)
			}
			_, err := s.Acquire(t.Context(), request("k2"))
			wantRefused(t, err, "replaced")
		})
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	write := func(text string) func(string) error {
		return func(p string) error { return os.WriteFile(p, []byte(text), 0o600) }
	}
	for name, tc := range map[string]struct {
		make func(path string) error
		want string
	}{
		"no database":       {write(strings.Repeat("not a database\n", 100)), "is not a flockd database"},
		"a folder":          {func(p string) error { return os.Mkdir(p, 0o700) }, "is a folder"},
		"a fifo":            {func(p string) error { return syscall.Mkfifo(p, 0o600) }, "is not a regular file"},
		"two names":         {func(p string) error { return errors.Join(write("")(p), os.Link(p, p+"2")) }, "names (hard links)"},
		"dangling link":     {func(p string) error { return os.Symlink("/nowhere/x", p) }, "is a symbolic link to a file that doesn't exist"},
		"everybody's":       {func(p string) error { return errors.Join(write("")(p), os.Chmod(p, 0o666)) }, "everybody may write"},
		"someone else's":    {func(p string) error { return errors.Join(write("")(p), os.Chown(p, 1234, 1234)) }, "belongs to uid 1234"},
		"another program's": {func(p string) error { script(t, create(t, p), `CREATE TABLE theirs (x)`); return nil }, "another program's database"},
		"newer schema": {func(p string) error {
			open(t, p)
			script(t, p, fmt.Sprintf("PRAGMA user_version = %d", schemaVersion+1))
			return nil
		}, "newer flockd"},
		"truncated": {func(p string) error {
			s := open(t, p)
			s.db.Close() // carries the log over
			return os.Truncate(p, 5000)
		}, "is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.db")
			if err := tc.make(path); err != nil {
				t.Fatal(err)
			}
			s, err := openURL(t, "sqlite:"+path)
			if err == nil {
				_, err = s.Acquire(t.Context(), request("k"))
			}
			wantRefused(t, err, tc.want)
		})
	}
}

func create(t testing.TB, path string) string {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestURLsThatAreWrong(t *testing.T) {
	for _, text := range []string{
		"sqlite://host/x.db", "sqlite:x.db", "sqlite::memory:", "sqlite:///$HOME/x.db", "sqlite:///~/x.db",
		"sqlite:/x.db?color=red", "sqlite:/x.db?timeout=never", "sqlite:/x.db?timeout=1s&timeout=2s",
	} {
		_, err := openURL(t, text)
		var bad *backends.URLError
		if !errors.As(err, &bad) {
			t.Errorf("%s: %v, want a *URLError", text, err)
		}
	}
}

func TestThroughASymbolicLink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(dir, dir+"/link"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a.db", dir+"/b.db"); err != nil {
		t.Fatal(err)
	}
	straight := open(t, dir+"/a.db")
	lease := acquire(t, straight, request("k"))
	for _, path := range []string{dir + "/link/a.db", dir + "/b.db"} {
		s := open(t, path)
		if _, err := s.Acquire(t.Context(), request("k")); !errors.Is(err, backends.ErrHeld) {
			t.Errorf("through %s: %v, want ErrHeld", path, err)
		}
	}
	if _, err := straight.Renew(t.Context(), lease); err != nil {
		t.Error(err)
	}
}

func TestSharedFileSystemsAreRefused(t *testing.T) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(t.TempDir(), &st); err != nil {
		t.Fatal(err)
	}
	kind := uint32(st.Type)
	defer host.Pretend(kind, "a test")()
	_, err := openURL(t, "sqlite:"+t.TempDir()+"/a.db")
	wantRefused(t, err, "network or shared file system (a test)")
}

// The file system of the file counts, not that of a link to it.
func TestSharedFileSystemBehindALink(t *testing.T) {
	far, err := os.MkdirTemp("/dev/shm", "flockd-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(far)
	link := t.TempDir() + "/link"
	if err := errors.Join(os.WriteFile(far+"/a.db", nil, 0o600), os.Symlink(far+"/a.db", link)); err != nil {
		t.Fatal(err)
	}
	const tmpfs = 0x01021994
	defer host.Pretend(tmpfs, "a test")()
	_, err = openURL(t, "sqlite:"+link)
	wantRefused(t, err, "network or shared file system (a test)")
}

func TestFilesArePrivate(t *testing.T) {
	dir := t.TempDir() + "/state/flockd"
	if err := prepare(dir+"/a.db", true); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir+"/a.db")
	acquire(t, s, request("k"))
	if _, err := s.bell(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, dir + "/a.db": 0o600, dir + "/a.db-wal": 0o600, dir + "/a.db-shm": 0o600, dir + "/a.db-bell": 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
}

// A folder that isn't there is more likely a mistake than a wish.
func TestFoldersAreMadeForTheDefaultAlone(t *testing.T) {
	_, err := openURL(t, "sqlite:"+t.TempDir()+"/nosuch/a.db")
	wantRefused(t, err, "nosuch doesn't exist")
}

// What can't be seen isn't lost: only the deadline may end the command then.
func TestPathThatCannotBeSeenIsNoLoss(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir+"/a.db")
	lease := acquire(t, s, request("k"))
	files := s.path
	if err := os.Symlink("loop", dir+"/loop"); err != nil {
		t.Fatal(err)
	}
	s.path = dir + "/loop"
	if _, err := s.Renew(t.Context(), lease); err == nil || errors.Is(err, backends.ErrLost) {
		t.Errorf("Renew = %v, want an unknown outcome", err)
	}
	s.path = files
	if _, err := s.Renew(t.Context(), lease); err != nil {
		t.Error(err)
	}
}

func TestNewerRunIsRefused(t *testing.T) {
	path := t.TempDir() + "/a.db"
	s := open(t, path)
	r := request("k")
	acquire(t, s, r)
	if err := s.Release(t.Context(), "k", r.ID, backends.Outcome{Class: "finished", Success: true}); err != nil {
		t.Fatal(err)
	}
	script(t, path, fmt.Sprintf("UPDATE runs SET v = %d", backends.RecordVersion+1))
	_, err := s.Inspect(t.Context(), "k")
	wantRefused(t, err, "newer flockd")
}

// Twenty processes' worth of first users: whoever comes second finds the tables.
func TestFirstUseByManyAtOnce(t *testing.T) {
	path := t.TempDir() + "/a.db"
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
	granted := 0
	for range 20 {
		err := <-errs
		switch {
		case err == nil:
			granted++
		case !errors.Is(err, backends.ErrHeld):
			t.Error(err)
		}
	}
	if granted != 1 {
		t.Errorf("%d grants", granted)
	}
}
