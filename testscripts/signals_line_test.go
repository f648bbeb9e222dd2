//go:build linux

package testscripts

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// ending are the signals that end a wait.
var ending = []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

// leaves wants a job that would wait for a minute or more to end by a signal, long before
// that.
func (j *job) leaves(sigs ...syscall.Signal) {
	j.r.Helper()
	for _, sig := range sigs {
		j.cmd.Process.Signal(sig)
	}
	status := j.status()
	for _, sig := range sigs {
		if status == 128+int(sig) {
			return
		}
	}
	j.r.Errorf("%v: status %d:\n%s", sigs, status, j.stderr.String())
}

// Whoever leaves the line has left it when flockd has ended, also where a second signal
// comes meanwhile, and the next one moves up.
func TestSignalLeavesTheLine(t *testing.T) {
	t.Parallel()
	for i, sig := range ending {
		for name, sigs := range map[string][]syscall.Signal{"once": {sig}, "and another": {sig, ending[(i+1)%len(ending)]}} {
			t.Run(unix.SignalName(sig)+" "+name, func(t *testing.T) {
				t.Parallel()
				m := states["in line"](t)
				behind := m.run(m.via, "k", "-w", "1m", "-c", "echo x >behind")
				until(m, "a line of three", func() bool { return m.claims("k") == 3 })
				m.job.leaves(sigs...)
				m.nothingStarted()
				if n := m.claims("k"); n != 2 {
					t.Errorf("%d claims", n)
				}
				m.goOn()
				behind.ends(0)
			})
		}
	}
}

// A store that doesn't answer holds up nobody who leaves: neither in line, nor before the
// store is open.
func TestSignalLeavesASilentStore(t *testing.T) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, redis)
		leaveSilent(r, r.server.Freeze, r.server.Thaw)
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		m := begin(t)
		leaveSilent(m.rig, func() {
			m.launch(exec.Command("locker", "flockd.db", "locked", "once"))
			until(m, "a locked store", func() bool { return m.pid("locked") != 0 && state(m.pid("locked")) == 'T' })
		}, func() { unix.Kill(m.pid("locked"), unix.SIGCONT) })
	})
}

func leaveSilent(r *rig, silence, speak func()) {
	holder := r.run(r.via, "k", "-c", "echo x >held; exec sleep 1000")
	r.await("held")
	var inLine []*job
	for range ending {
		j := r.run(r.via, "k", "-w", "1m", "-c", "echo x >started")
		until(r, "one more in line", func() bool { return strings.Contains(j.stderr.String(), "waiting for k") })
		inLine = append(inLine, j)
	}
	silence()
	for i, sig := range ending {
		inLine[i].leaves(sig)
		early := r.run(r.via, "k", "-w", "1m", "-c", "echo x >started")
		until(r, "signals caught", func() bool { return catches(early.cmd.Process.Pid) })
		early.leaves(sig)
	}
	speak()
	holder.leaves(syscall.SIGTERM)
	if r.exists("started") {
		r.Error("somebody was started")
	}
}
