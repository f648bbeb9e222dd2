//go:build cgo && linux

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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
	db := sql.OpenDB(connector(path))
	defer db.Close()
	if _, err := db.Exec("PRAGMA busy_timeout = 5000; " + text); err != nil {
		t.Fatal(err)
	}
}

// copyFiles copies the database with its log as a power cut would leave them.
func copyFiles(t testing.TB, from, to string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(from + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTokensGrowOverAPowerCutWithASlowClock(t *testing.T) {
	dir := t.TempDir()
	a := open(t, dir+"/a.db")
	if err := a.raise(t.Context()); err != nil {
		t.Fatal(err)
	}
	copyFiles(t, dir+"/a.db", dir+"/b.db") // all that the disk is sure to have
	var last backends.Token
	for range 3 {
		r := request("k")
		last = acquire(t, a, r).Token
		a.Release(t.Context(), r.Key, r.ID, backends.Outcome{})
	}
	b := open(t, dir+"/b.db")
	b.clock.boot = "another boot"
	b.wall = func() int64 { return 1000 }
	if got := acquire(t, b, request("k")).Token; got <= last {
		t.Errorf("after the power cut token %d, which is not above %d", got, last)
	}
}

func TestTokensGrowUnderAnyWallClock(t *testing.T) {
	s := open(t, t.TempDir()+"/a.db")
	var last backends.Token
	year := int64(365 * 24 * 3600 * 1e6)
	for _, wall := range []int64{50 * year, 0, -1, 51 * year, 400 * year, 52 * year, 20 * year} {
		s.wall = func() int64 { return wall }
		r := request("k")
		got := acquire(t, s, r).Token
		if got <= last || got >= 1<<53 {
			t.Errorf("at %d µs token %d, after %d", wall, got, last)
		}
		last = got
		s.Release(t.Context(), r.Key, r.ID, backends.Outcome{})
	}
}

// A token must not be out before the disk has its ceiling: the commit that raises
// it is the only one that waits for the disk.
func TestCeilingIsRaisedBeforeATokenIsOut(t *testing.T) {
	s := open(t, t.TempDir()+"/a.db")
	for i := range 3 {
		s.wall = func() int64 { return int64(i) * 2 * reserve }
		r := request("k")
		token := acquire(t, s, r).Token
		var ceiling backends.Token
		if err := s.db.QueryRow(`SELECT ceiling FROM tokens`).Scan(&ceiling); err != nil {
			t.Fatal(err)
		}
		if token > ceiling {
			t.Errorf("token %d is out, the ceiling is %d", token, ceiling)
		}
		s.Release(t.Context(), r.Key, r.ID, backends.Outcome{})
	}
}

func TestAnotherBootEndsEveryHold(t *testing.T) {
	path := t.TempDir() + "/a.db"
	before, after := open(t, path), open(t, path)
	old := acquire(t, before, request("k"))
	after.clock.boot = "another boot"
	lease := acquire(t, after, request("k"))
	if lease.Token <= old.Token {
		t.Errorf("token %d after %d", lease.Token, old.Token)
	}
}

// TestClockInATimeNamespace sees a real one: its clock is shifted, what is read
// from it is the host's.
func TestClockInATimeNamespace(t *testing.T) {
	if os.Getenv("FLOCKD_TEST_CLOCK") != "" {
		c, err := readClock()
		fmt.Printf("%s %d %d %v\n", c.boot, c.offset, c.now(), err)
		os.Exit(0)
	}
	here, err := readClock()
	if err != nil {
		t.Fatal(err)
	}
	const shift = 86400
	before := here.now()
	cmd := exec.Command("unshare", "--time", "--fork", "--monotonic", fmt.Sprint(shift), os.Args[0], "-test.run=^TestClockInATimeNamespace$")
	cmd.Env = append(os.Environ(), "FLOCKD_TEST_CLOCK=1")
	out, err := cmd.CombinedOutput()
	var boot string
	var offset, now int64
	if _, scanErr := fmt.Sscan(string(out), &boot, &offset, &now); err != nil || scanErr != nil {
		t.Fatalf("%v %v: %s", err, scanErr, out)
	}
	if boot != here.boot || offset != shift*1e9 || now < before || now > here.now() {
		t.Errorf("in the namespace %s %d %d, here %+v %d", boot, offset, now, here, here.now())
	}
}

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
			if err := replace(path); err != nil {
				t.Fatal(err)
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

// A holder and a waiter that are frozen between two steps stop nobody.
func TestNothingIsLockedBetweenSteps(t *testing.T) {
	path := t.TempDir() + "/a.db"
	frozen, other := open(t, path), open(t, path)
	acquire(t, frozen, request("k"))
	waiter := request("k")
	waiter.Place = 15 * time.Second
	if _, err := frozen.Acquire(t.Context(), waiter); !errors.Is(err, backends.ErrHeld) {
		t.Fatal(err)
	}
	// No more calls to frozen: what it still locked would stop the next ones.
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	r := request("other")
	lease, err := other.Acquire(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Renew(ctx, lease); err != nil {
		t.Error(err)
	}
}

func TestLockedFileNamesTheLocker(t *testing.T) {
	path := t.TempDir() + "/a.db"
	s := open(t, path)
	lease := acquire(t, s, request("k"))
	stop := lockAndFreeze(t, path)
	s.timeout = 300 * time.Millisecond
	_, err := s.Renew(t.Context(), lease)
	if err == nil || errors.Is(err, backends.ErrLost) || errors.Is(err, backends.ErrRefused) {
		t.Errorf("Renew of a locked file = %v, want an unknown outcome", err)
	}
	if want := fmt.Sprintf("is locked by process %d (", stop.Process.Pid); !strings.Contains(fmt.Sprint(err), want) || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("Renew = %v, want the text %q", err, want)
	}
	other := open(t, path) // reading needs no lock
	if _, err := other.Acquire(t.Context(), request("k")); !errors.Is(err, backends.ErrHeld) {
		t.Errorf("a skip on a locked file = %v", err)
	}
	stop.Process.Kill()
	stop.Wait()
	if _, err := s.Renew(t.Context(), lease); err != nil {
		t.Errorf("Renew after the locker died: %v", err)
	}
}

// lockAndFreeze stops a process in the middle of a write transaction.
func lockAndFreeze(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperLocker$")
	cmd.Env = append(os.Environ(), "FLOCKD_TEST_LOCK="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if _, err := fmt.Fscanln(out, new(string)); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Signal(syscall.SIGSTOP)
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &ws, syscall.WUNTRACED, nil); err != nil || !ws.Stopped() {
		t.Fatal(err, ws)
	}
	return cmd
}

// TestHelperLocker is the process of lockAndFreeze.
func TestHelperLocker(t *testing.T) {
	path := os.Getenv("FLOCKD_TEST_LOCK")
	if path == "" {
		return
	}
	s := open(t, path)
	s.step(context.Background(), logged, func(*tx) error {
		fmt.Println("locked")
		select {}
	})
}

func TestFullDisk(t *testing.T) {
	s := open(t, t.TempDir()+"/a.db")
	lease := acquire(t, s, request("k"))
	if _, err := s.db.Exec(`PRAGMA max_page_count = 1`); err != nil {
		t.Fatal(err)
	}
	var err error
	for i := 0; i < 1000 && err == nil; i++ {
		_, err = s.Acquire(t.Context(), request(fmt.Sprint(i)))
	}
	if err == nil || errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("err = %v, want an error that says so and may pass", err)
	}
	if err := s.Release(t.Context(), lease.Key, lease.ID, backends.Outcome{}); err != nil {
		t.Logf("release on a full disk: %v", err)
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
	sharedFileSystems[kind] = "a test"
	defer delete(sharedFileSystems, kind)
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
	sharedFileSystems[tmpfs] = "a test"
	defer delete(sharedFileSystems, tmpfs)
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

// A renewal that had to wait for the lock is judged by the clock as it is then.
func TestRenewalThatWaitedTooLongIsLost(t *testing.T) {
	path := t.TempDir() + "/a.db"
	s, other := open(t, path), open(t, path)
	r := request("k")
	r.TTL = 100 * time.Millisecond
	lease := acquire(t, s, r)
	locked, renewed := make(chan struct{}), make(chan error)
	go func() {
		<-locked
		_, err := s.Renew(t.Context(), lease)
		renewed <- err
	}()
	err := other.step(t.Context(), logged, func(tx *tx) error {
		close(locked)
		for s.clock.now() < tx.now+int64(r.TTL) {
		}
		return nil
	})
	if err := errors.Join(err, <-renewed); !errors.Is(err, backends.ErrLost) {
		t.Errorf("Renew = %v, want ErrLost", err)
	}
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

// What nobody has used for long is dropped, and the tokens grow all the same.
func TestOldRunsAreForgotten(t *testing.T) {
	s := open(t, t.TempDir()+"/a.db")
	r := request("k")
	old := acquire(t, s, r).Token
	if err := s.Release(t.Context(), "k", r.ID, backends.Outcome{Class: "finished"}); err != nil {
		t.Fatal(err)
	}
	later := s.wall() + (forgetRuns + time.Hour).Microseconds()
	s.wall = func() int64 { return later }
	if token := acquire(t, s, request("other")).Token; token <= old {
		t.Errorf("token %d after %d", token, old)
	}
	if status, err := s.Inspect(t.Context(), "k"); err != nil || status.Last != nil {
		t.Errorf("%+v, %v", status, err)
	}
}

// A request that was given up before its commit has not been applied.
func TestCancelledStepIsNotApplied(t *testing.T) {
	s := open(t, t.TempDir()+"/a.db")
	ctx, cancel := context.WithCancel(t.Context())
	err := s.step(ctx, logged, func(t *tx) error {
		cancel()
		return t.exec("end", "x", "boot", 0)
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	var n int
	if err := s.db.QueryRow("SELECT count(*) FROM ended").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows, %v", n, err)
	}
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
