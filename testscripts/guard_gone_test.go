//go:build linux

package testscripts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A guard that is dead has killed nobody: where none can take its place, a command that
// ends by itself after the last deadline which that guard was told has its own exit code.
func TestGuardThatIsGone(t *testing.T) {
	t.Parallel()
	r := embedded(t)
	r.tool("mkfifo", filepath.Join(r.dir, "go"))
	j := r.run(r.direct, "k", "--ttl", "12s", "-c", "echo x >running; read -r _ <go; exit 7")
	r.await("running")
	guard := j.guarded()
	must(t, unix.Prlimit(j.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Max: 1024}, nil))
	r.signals(guard, unix.SIGKILL)
	until(r, "no guard", func() bool { return strings.Contains(j.stderr.String(), "there is no guard") })
	last := r.holdsUntil()
	until(r, "its last deadline", func() bool { return monotonic() > last })
	if r.holdsUntil() <= last {
		t.Error("the lease wasn't renewed")
	}
	must(t, os.WriteFile(filepath.Join(r.dir, "go"), []byte("\n"), 0o600))
	j.ends(7)
	r.vacant()
}
