//go:build linux

package fence

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"flockd/backends"
)

// The contents of a file, by token.
func contentOf(token backends.Token) string {
	return strings.Repeat(fmt.Sprintf("content of %d\n", token), 100*int(token))
}

// start is a file that a writer finds.
type start struct {
	name string
	make func(t *testing.T, path string)
	was  backends.Token // whose content it has; 0: none
}

var (
	first = start{"first", func(*testing.T, string) {}, 0}
	next  = start{"next", func(t *testing.T, path string) { replace(t, path, 5, nil) }, 5}
	same  = start{"same", func(t *testing.T, path string) { replace(t, path, 7, nil) }, 7}

	afterCrash = start{"after a crash", func(t *testing.T, path string) {
		replace(t, path, 5, nil)
		left := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".fence.0123abcd")
		if err := os.WriteFile(left, []byte("half a con"), 0o600); err != nil {
			t.Fatal(err)
		}
	}, 5}
)

// replace writes the content of a token, which must end with want.
func replace(t *testing.T, path string, token backends.Token, want error) {
	t.Helper()
	if err := Replace(t.Context(), path, token, strings.NewReader(contentOf(token))); !errors.Is(err, want) {
		t.Fatalf("token %d: %v, want %v", token, err, want)
	}
}

// found is what a file and its sidecar hold.
type found struct{ content, highest backends.Token }

// find looks at a file after a writer with the token, whose end was not a good one.
func find(t *testing.T, path string, s start, token backends.Token) (now found) {
	t.Helper()
	text, err := os.ReadFile(path)
	switch {
	case err == nil && string(text) == contentOf(token):
		now.content = token
	case err == nil && s.was != 0 && string(text) == contentOf(s.was):
		now.content = s.was
	case !errors.Is(err, os.ErrNotExist) || s.was != 0:
		t.Errorf("neither the old content nor the new one: %d bytes, %v", len(text), err)
	}
	f, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	if side, err := f.openSidecar(); err == nil {
		now.highest = side.highest
		side.close()
	} else if !errors.Is(err, os.ErrNotExist) || s.was != 0 {
		t.Errorf("sidecar: %v", err)
	}
	if now.content > now.highest || now.highest != s.was && now.highest != token {
		t.Errorf("content of %d, and the largest token is %d", now.content, now.highest)
	}
	return now
}

// goOn wants the fence to hold after a writer's bad end, and the next writer to leave nothing.
func goOn(t *testing.T, path string, now found) {
	t.Helper()
	if now.highest > 1 {
		replace(t, path, now.highest-1, backends.ErrStale)
	}
	replace(t, path, 9, nil)
	alone(t, path)
}

// alone wants nothing in the folder but the file and its sidecar.
func alone(t *testing.T, path string) {
	t.Helper()
	there, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range there {
		if name := filepath.Base(path); entry.Name() != name && entry.Name() != "."+name+".fence" {
			t.Errorf("%s is left", entry.Name())
		}
	}
}

// protocol are the calls of a writer that is left in peace, and how many it makes before it
// comes to the file's folder.
func protocol(t *testing.T, s start) (all []call, before int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	s.make(t, path)
	cmd, trace := writer(t, path, 7, contentOf(7))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	all = readTrace(t, trace)
	before = slices.IndexFunc(all, func(c call) bool { return strings.Contains(c.line, filepath.Dir(path)) })
	if before < 0 {
		t.Fatal("it never comes to the folder")
	}
	return all, before
}

// eachCall runs a writer for each call of the protocol, which is disturbed in that. It calls look
// with the file once strace has ended.
func eachCall(t *testing.T, s start, what string, look func(t *testing.T, path string, c call, err error)) {
	all, before := protocol(t, s)
	var beside sync.WaitGroup
	turns := make(chan struct{}, 4)
	for n := before; n < len(all); n++ {
		turns <- struct{}{}
		beside.Go(func() {
			defer func() { <-turns }()
			t.Run(fmt.Sprintf("%d-%s", n-before, all[n].name), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "file")
				s.make(t, path)
				cmd, trace := writer(t, path, 7, contentOf(7), inject(what, all[:n+1])...)
				err := cmd.Run()
				made := readTrace(t, trace)
				if len(made) <= n || made[n].name != all[n].name || killed(err) && len(made) != n+1 {
					t.Fatalf("disturbed in another call than %s: %v", all[n].line, made[len(made)-1])
				}
				look(t, path, all[n], err)
			})
		})
	}
	beside.Wait()
}

// TestKilledAtEachCall kills writers in each call from the first that touches the file's
// folder: before it is made.
func TestKilledAtEachCall(t *testing.T) {
	t.Parallel()
	for _, s := range []start{first, afterCrash} {
		t.Run(s.name, func(t *testing.T) {
			var mu sync.Mutex
			seen := map[found]int{}
			eachCall(t, s, "error=EIO:signal=SIGKILL", func(t *testing.T, path string, c call, err error) {
				if !killed(err) {
					t.Fatalf("it wasn't killed: %v", err)
				}
				now := find(t, path, s, 7)
				goOn(t, path, now)
				mu.Lock()
				defer mu.Unlock()
				seen[now]++
			})
			for _, want := range []found{{s.was, s.was}, {s.was, 7}, {7, 7}} {
				if seen[want] == 0 {
					t.Errorf("never seen: %+v; seen: %v", want, seen)
				}
			}
			t.Logf("content and token, and how often: %v", seen)
		})
	}
}

func killed(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status := exit.Sys().(syscall.WaitStatus) // strace ends as the writer did
	return status.Signaled() && status.Signal() == syscall.SIGKILL
}

// TestErrorAtEachCall has each call fail.
func TestErrorAtEachCall(t *testing.T) {
	t.Parallel()
	for errno, s := range map[string]start{"EIO": first, "ENOSPC": next} {
		t.Run(errno+" "+s.name, func(t *testing.T) {
			eachCall(t, s, "error="+errno, func(t *testing.T, path string, c call, err error) {
				now := find(t, path, s, 7)
				switch {
				case err == nil && (now != found{7, 7}):
					t.Errorf("it says that it has succeeded: %+v", now)
				case err == nil && needed(c):
					t.Errorf("it doesn't tell of %s", c.line)
				}
				if c.name != "unlinkat" {
					alone(t, path)
				}
				goOn(t, path, now)
			})
		})
	}
}

// needed reports whether nothing is durable without a call.
func needed(c call) bool {
	return slices.Contains([]string{"write", "fsync", "renameat", "linkat", "flock"}, c.name)
}

// TestContentThatCannotBeWritten: the content is written by another thread.
func TestContentThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, errno := range []string{"EIO", "ENOSPC"} {
		path := filepath.Join(t.TempDir(), "file")
		replace(t, path, 5, nil)
		cmd, _ := writer(t, path, 7, contentOf(7), "-e", "inject=write,copy_file_range,splice,sendfile:error="+errno)
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != failed {
			t.Errorf("%s: %v", errno, err)
		}
		if now := find(t, path, next, 7); now != (found{5, 5}) {
			t.Errorf("%s: %+v", errno, now)
		}
		alone(t, path)
	}
}

// TestKilledWhileReading: the content is read by another thread.
func TestKilledWhileReading(t *testing.T) {
	t.Parallel()
	for _, s := range []start{first, afterCrash} {
		path := filepath.Join(t.TempDir(), "file")
		s.make(t, path)
		cmd, _ := writer(t, path, 7, contentOf(7), "-e", "inject=copy_file_range:error=EIO:signal=SIGKILL:when=1")
		if err := cmd.Run(); !killed(err) {
			t.Fatalf("it wasn't killed: %v", err)
		}
		now := find(t, path, s, 7)
		if now.content != s.was {
			t.Errorf("%+v", now)
		}
		goOn(t, path, now)
	}
}
