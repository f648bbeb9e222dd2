//go:build cgo && linux

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"

	"flockd/backends"
)

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

// However SQLite says it.
func TestFullDiskIsNamed(t *testing.T) {
	s := open(t, t.TempDir()+"/a.db")
	for _, e := range []sqlite3.Error{{Code: sqlite3.ErrFull}, {Code: sqlite3.ErrIoErr, SystemErrno: syscall.ENOSPC}} {
		if err := s.classify(e); err.Error() != s.path+": no space left on the device" {
			t.Errorf("%+v: %v", e, err)
		}
	}
}
