//go:build linux

package testscripts

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// recipe is a way to write under a token, as a page has it.
type recipe struct {
	*rig
	run       block    // starts the writer under a lock
	work      string   // the program that the writer calls before it writes what this prints
	variables []string // the client's
}

// newRecipe is in a folder of its own, with the scripts in it.
func newRecipe(t *testing.T, run block, work string, scripts ...block) *recipe {
	t.Helper()
	r := &recipe{rig: newFolder(t), run: run, work: work}
	r.writes(work, `echo "at it: $*" >at-work-$WRITER
[ ! -p go-$WRITER ] || read -r _ <go-$WRITER
echo $WRITER
`)
	for _, b := range scripts {
		r.installs(b)
	}
	return r
}

// installs puts a script of the page's into the folder.
func (r *rig) installs(b block) {
	r.Helper()
	must(r.T, os.WriteFile(filepath.Join(r.dir, b.name), []byte(b.text), 0o755))
}

// writer starts one that writes a number, with some settings.
func (r *recipe) writer(number int, settings string) *job {
	r.Helper()
	config := filepath.Join(r.dir, fmt.Sprint("config-", number))
	must(r.T, os.WriteFile(config, []byte(settings+"\n"), 0o600))
	cmd := exec.Command("sh", "-c", r.run.text)
	cmd.Env = append(r.variables, fmt.Sprint("WRITER=", number), "FLOCKD_CONFIG="+config, "FLOCKD_BACKEND=sqlite://"+filepath.Join(r.dir, "flockd.db"))
	return r.launch(cmd)
}

// begins is a writer that pauses at its work, until goesOn.
func (r *recipe) begins(number int, settings string) *job {
	r.Helper()
	pause, at := filepath.Join(r.dir, fmt.Sprint("go-", number)), fmt.Sprint("at-work-", number)
	if !r.exists(filepath.Base(pause)) {
		must(r.T, syscall.Mkfifo(pause, 0o600))
	}
	os.Remove(filepath.Join(r.dir, at))
	j := r.writer(number, settings)
	until(r, "work, or the end", func() bool { return len(r.lines(at)) > 0 || j.over() })
	return j
}

// goesOn lets the work of a writer that pauses come to its end.
func (r *recipe) goesOn(number int) {
	r.Helper()
	must(r.T, os.WriteFile(filepath.Join(r.dir, fmt.Sprint("go-", number)), []byte("\n"), 0o600))
}

// zombie lets 1 begin, freezes it at its work with its flockd and guard until its lease has
// passed and 2 has written, and then lets the command of 1 alone write. The lease is doubled
// until 1 is there in time, on a busy host.
func (r *recipe) zombie() *woken {
	r.Helper()
	w := &woken{}
	for ttl := 2; w.command == 0; ttl *= 2 {
		w.job = r.begins(1, fmt.Sprintf("ttl = \"%ds\"", ttl))
		if w.command = w.freezeAll(); w.command == 0 {
			r.Logf("not frozen within a lease of %ds", ttl)
		}
	}
	next := r.writer(2, "wait = \"5m\"")
	until(r, "the next holder", func() bool { return len(r.lines("at-work-2")) > 0 || next.over() })
	next.ends(0)
	for _, pid := range descendants(w.command) {
		r.signals(pid, unix.SIGCONT)
	}
	r.goesOn(1)
	until(r, "the end of the command", func() bool { return state(w.command) == 'Z' })
	return w
}

// woken is a command that came too late, and ended under a flockd that is frozen.
type woken struct {
	*job
	command int
}

// ended wants the command to have ended with a status, and to have said why.
func (w *woken) ended(status int, text string) {
	w.r.Helper()
	if got := exitCode(w.command); got != status {
		w.r.Errorf("the command ended with %d, want %d; it said:\n%s", got, status, w.stderr)
	}
	w.says(text)
	w.wakes()
}

// wakes has flockd wake as well, and see what was lost.
func (w *woken) wakes() {
	w.r.Helper()
	flockd := w.flockd()
	w.r.signals(guardOf(flockd), unix.SIGCONT)
	w.r.signals(flockd, unix.SIGCONT)
	w.ends(79)
}

// flockd is the process that the job is or has started, or 0.
func (j *job) flockd() int {
	for _, pid := range descendants(j.cmd.Process.Pid) {
		if strings.HasPrefix(argv(pid), "flockd run ") {
			return pid
		}
	}
	return 0
}

// freezeAll stops flockd, its guard and its command, or is 0 where it has lost the lock
// before. flockd is first, which would otherwise start another guard for one that is stopped;
// the guard leaves it until its lease ends.
func (j *job) freezeAll() (command int) {
	j.r.Helper()
	var flockd, guard int
	until(j.r, "a guard, or the end", func() bool {
		flockd = j.flockd()
		guard = guardOf(flockd)
		return guard != 0 || j.over()
	})
	for _, pid := range children(flockd) {
		if pid != guard {
			command = pid
		}
	}
	if guard == 0 || command == 0 {
		return 0
	}
	pids := append([]int{flockd, guard}, descendants(command)...)
	for _, pid := range pids {
		syscall.Kill(pid, syscall.SIGSTOP)
	}
	until(j.r, "all stopped, or dead", func() bool {
		return !slices.ContainsFunc(pids, func(pid int) bool { s := state(pid); return s != 'T' && !over(s) })
	})
	if slices.ContainsFunc(pids, func(pid int) bool { return over(state(pid)) }) || strings.Contains(j.stderr.String(), "lost the lock") {
		syscall.Kill(flockd, syscall.SIGKILL)
		syscall.Kill(guard, syscall.SIGCONT) // it kills what is left
		j.status()
		return 0
	}
	return command
}

// exitCode is the status of a zombie of another process's, or -1 where a signal ended it.
func exitCode(pid int) int {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	status, err := strconv.Atoi(string(fields[len(fields)-1]))
	if err != nil || syscall.WaitStatus(status).Signaled() {
		return -1
	}
	return syscall.WaitStatus(status).ExitStatus()
}
