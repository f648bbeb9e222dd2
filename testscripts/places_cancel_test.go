//go:build linux

package testscripts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const cancelled = "flockd run --backend $STORE --key k --ttl 12s --result-file result.json -- awkward double .\necho never >after\n"

// A CI job that is cancelled: INT to the shell that runs its script, TERM to it, and
// then KILL to what is left of the tree, which is found by a variable of the runner's, or by
// descent, the guard included. A process that has left the tree is found by the former alone.
func TestCancel(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"variable", "descent"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			r := embedded(t)
			must(t, os.WriteFile(filepath.Join(r.dir, "script.sh"), []byte(cancelled), 0o600))
			cmd := exec.Command("bash", "-e", "script.sh")
			cmd.Env = []string{"STORE=" + r.direct, "TRACKING=" + r.dir}
			j := r.launch(cmd)
			r.await("first")
			r.await("rest")
			flockd := j.only()
			until(r, "a guard", func() bool { return guardOf(flockd) != 0 })
			r.cancels(j, by)
			r.vacant("--wait", "1m")
			for _, stamps := range []string{"first", "rest"} {
				if pid := int(r.number(stamps + ".pid")); by == "variable" && !over(state(pid)) {
					t.Errorf("%s lives", stamps)
				}
			}
			if r.exists("ran") || r.exists("after") {
				t.Error("something ran that shouldn't have")
			}
		})
	}
}

// cancels goes through the runner's steps.
func (r *rig) cancels(j *job, by string) {
	r.Helper()
	shell := j.cmd.Process.Pid
	r.signals(shell, unix.SIGINT) // bash waits for its child
	r.run(r.direct, "k", "--", "touch", "ran").ends(75)
	tree := descendants(shell)
	r.signals(shell, unix.SIGTERM)
	j.ends(143)
	r.run(r.direct, "k", "--", "touch", "ran").ends(75)
	if by == "variable" {
		tree = processes(func(pid int) bool {
			env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			return strings.Contains(string(env), "TRACKING="+r.dir+"\x00")
		})
	}
	for _, pid := range tree {
		unix.Kill(pid, unix.SIGKILL)
	}
}

// descendants of a process, itself included.
func descendants(pid int) []int {
	all := []int{pid}
	for _, child := range children(pid) {
		all = append(all, descendants(child)...)
	}
	return all
}
