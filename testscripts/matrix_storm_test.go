//go:build linux

package testscripts

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestThousandStarts: nobody is killed who should run, and nothing is left.
func TestThousandStarts(t *testing.T) {
	s := newStorm(t)
	s.each(1000, func(n int) {
		j := s.begin(n, fmt.Sprint("GOMAXPROCS=", 1+n%2), "true")
		j.ends(0)
		if said := j.stderr.String(); said != "" {
			s.Errorf("it says: %s", said)
		}
	})
	s.calm()
}

// TestKilledAtAnyMoment: before, while and after the command runs.
func TestKilledAtAnyMoment(t *testing.T) {
	s := newStorm(t)
	command := []string{"true", "sleep 1000", "setsid sleep 1000 & exec sleep 1000"}
	s.each(200, func(n int) {
		j := s.begin(n, fmt.Sprint("GOMAXPROCS=", 1+n%2), command[n%len(command)])
		time.Sleep(rand.N(30 * time.Millisecond))
		j.cmd.Process.Kill()
		err := <-j.done
		j.done <- err
		if status, _ := exitStatus(err); status != 137 && (status != 0 || n%len(command) != 0) {
			s.Errorf("run %d: status %d: %s", n, status, j.stderr.String())
		}
	})
	s.each(200, func(n int) { s.run(s.direct, s.key(n), "--wait", "10s", "--", "true").ends(0) })
	s.calm()
}

// storm is many runs, few at a time, all in one store.
type storm struct {
	*rig
	mu      sync.Mutex
	flockds []int
}

func newStorm(t *testing.T) *storm {
	s := &storm{rig: newFolder(t)}
	s.direct = "sqlite://" + s.dir + "/flockd.db"
	s.run(s.direct, "k", "--", "true").ends(0) // its tables are there before anybody is killed
	t.Cleanup(s.end)
	return s
}

func (s *storm) each(n int, do func(n int)) {
	var all []func()
	for i := range n {
		all = append(all, func() { do(i) })
	}
	beside(4, all)
}

func (s *storm) key(n int) string { return fmt.Sprint(s.dir, "/", n) }

// begin starts the nth run, of a script; its lease is short for where no guard was there yet.
func (s *storm) begin(n int, variable, script string) *job {
	cmd := exec.Command(filepath.Join(bin, "flockd"), "run", "--backend", s.direct, "--key", s.key(n), "--ttl", "2s", "--shell", script)
	cmd.Env = []string{variable}
	j := s.launch(cmd)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flockds = append(s.flockds, cmd.Process.Pid)
	return j
}

// calm waits until nothing of all the runs is left.
func (s *storm) calm() {
	s.Helper()
	until(s, "nobody left", func() bool { return len(processes(s.has)) == 0 })
	until(s, "no cgroup left", func() bool {
		return !slices.ContainsFunc(s.flockds, func(pid int) bool { return len(leaves(pid)) > 0 })
	})
	for _, pid := range children(os.Getpid()) {
		if state(pid) == 'Z' {
			s.Errorf("zombie %d", pid)
		}
	}
	s.noFile()
}

// has says whether a process is one of the storm's, or a guard.
func (s *storm) has(pid int) bool {
	exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	environment, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return strings.HasPrefix(exe, bin) || bytes.Contains(environment, []byte(s.dir))
}

// end kills what a storm that failed has left.
func (s *storm) end() {
	for _, pid := range processes(s.has) {
		unix.Kill(pid, unix.SIGKILL)
	}
}
