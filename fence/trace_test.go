//go:build linux

package fence

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"flockd/backends"
)

// calls are the system calls of the protocol.
const calls = "copy_file_range,openat,newfstatat,fstat,statfs,statx,read,write,flock,getdents64,unlinkat,renameat,linkat,fsync,fchmod,fchown,close"

// call is one in a trace.
type call struct{ thread, name, line string }

var callLine = regexp.MustCompile(`(?m)^(\d+) +(\w+)\(.*$`)

// readTrace are the calls of a writer's thread, the first.
func readTrace(t *testing.T, file string) (calls []call) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range callLine.FindAllStringSubmatch(string(text), -1) {
		if c := (call{found[1], found[2], found[0]}); len(calls) == 0 || c.thread == calls[0].thread {
			calls = append(calls, c)
		}
	}
	return calls
}

// writer is one that strace looks at, and may disturb.
func writer(t *testing.T, path string, token backends.Token, content string, strace ...string) (*exec.Cmd, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(t.TempDir(), "trace")
	args := append([]string{"-f", "-qq", "-y", "-o", trace, "-e", "trace=" + calls}, strace...)
	cmd := exec.CommandContext(t.Context(), "strace", append(args, self, path)...)
	cmd.Env = append(os.Environ(), fmt.Sprint(tokenOfWriter, "=", int64(token)), "GORACE=atexit_sleep_ms=0")
	file := filepath.Join(t.TempDir(), "content") // no pipe: whoever writes that counts for one of the writer's own
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	stdin, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close() })
	cmd.Stdin = stdin
	return cmd, trace
}

// inject disturbs the last of these calls. strace counts the calls of each name by itself.
func inject(what string, made []call) []string {
	last, nth := made[len(made)-1].name, 0
	for _, c := range made {
		if c.name == last {
			nth++
		}
	}
	return []string{"-e", fmt.Sprintf("inject=%s:%s:when=%d", last, what, nth)}
}
