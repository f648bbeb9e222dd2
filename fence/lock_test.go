//go:build linux

package fence

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"flockd/backends"
)

// TestFrozenWriter: nobody overtakes a writer that is stopped under the lock.
func TestFrozenWriter(t *testing.T) {
	t.Parallel()
	path := fenced(t)
	cmd, trace := writer(t, path, 7, contentOf(7), "-e", "inject=renameat:signal=SIGSTOP:when=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "it stops", func() bool {
		text, _ := os.ReadFile(trace)
		return strings.Contains(string(text), "stopped by SIGSTOP")
	})
	pid := readTrace(t, trace)[0].thread
	want := "locked for 5s by process " + pid + " ("
	err := Replace(t.Context(), path, 8, strings.NewReader(contentOf(8)))
	if err == nil || !strings.Contains(err.Error(), want) || !strings.HasSuffix(err.Error(), "which is stopped") {
		t.Errorf("%v, want %s", err, want)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != contentOf(5) {
		t.Errorf("%.30q: %v", text, err)
	}
	var number int
	fmt.Sscan(pid, &number)
	if err := syscall.Kill(number, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	replace(t, path, 8, nil)
	holds(t, path, 8)
}

// until waits for what is known to come.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// locked is a file that has seen 5, and the sidecar of it, locked by somebody else.
func locked(t *testing.T) (path string, sidecar *os.File) {
	t.Helper()
	path = fenced(t)
	sidecar, err := os.Open(sidecarOf(path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sidecar.Close() })
	if ok, err := tryLock(sidecar); !ok {
		t.Fatal(err)
	}
	return path, sidecar
}

// TestWritersThatGetOn: one that leaves the sidecar as it is is waited for as long as it writes.
func TestWritersThatGetOn(t *testing.T) {
	path, sidecar := locked(t)
	synctest.Test(t, func(t *testing.T) {
		done := make(chan error, 1)
		go func() { done <- Raise(t.Context(), path, 7) }()
		for range 5 {
			time.Sleep(patience / 2)
			if err := errors.Join(os.WriteFile(path+".next", nil, 0o600), os.Rename(path+".next", path)); err != nil {
				t.Error(err)
			}
		}
		sidecar.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	replace(t, path, 6, backends.ErrStale)
}

// TestLockThatIsFreeInTheEnd: who gives up has tried once more.
func TestLockThatIsFreeInTheEnd(t *testing.T) {
	path, sidecar := locked(t)
	synctest.Test(t, func(t *testing.T) {
		done := make(chan error, 1)
		go func() { done <- Raise(t.Context(), path, 7) }()
		time.Sleep(patience - time.Nanosecond)
		sidecar.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestSidecarEditedMeanwhile: what counts is what it says under the lock.
func TestSidecarEditedMeanwhile(t *testing.T) {
	path, sidecar := locked(t)
	synctest.Test(t, func(t *testing.T) {
		done := make(chan error, 1)
		go func() { done <- Raise(t.Context(), path, 7) }()
		time.Sleep(patience / 2)
		if err := os.WriteFile(sidecarOf(path), record{backends.RecordVersion, 9}.text(), 0o600); err != nil {
			t.Error(err)
		}
		sidecar.Close()
		if err := <-done; !errors.Is(err, backends.ErrStale) {
			t.Error(err)
		}
	})
	replace(t, path, 8, backends.ErrStale)
}

// TestRaisedAlready: the writers of one hold don't wait for each other.
func TestRaisedAlready(t *testing.T) {
	path, _ := locked(t)
	if err := Raise(t.Context(), path, 5); err != nil {
		t.Error(err)
	}
}
