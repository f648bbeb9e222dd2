//go:build linux

// Probe is the command that flockd runs in the torture tests: probe FOLDER WORK [MODE...].
// It takes locks of the kernel that nobody whom it mustn't be beside can have, works for
// WORK, and stamps the time all the while. A leader writes to a book, too: see trace.Writer. As
// probe FOLDER WORK hook WHAT CANDIDATE it is a hook of an election.
// Modes, and settings NAME=VALUE of its environment:
//
//	deaf    ignores TERM
//	family  leaves the work to a child, and waits for it; TERM ends the parent at once, unless it is deaf too
//	orphan  as family, but only the child is deaf
//	daemon  leaves half of the work to a process that nothing leads to: see abandon
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"flockd/testscripts/oracle"
	"flockd/testscripts/torture/trace"
)

// beat is how often a probe shows that it lives.
const beat = 10 * time.Millisecond

func main() {
	folder, modes := os.Args[1], os.Args[3:]
	for _, mode := range modes {
		if name, value, ok := strings.Cut(mode, "="); ok {
			check(os.Setenv(name, value)) // as it would have been inherited
		}
	}
	work, err := time.ParseDuration(os.Args[2])
	check(err)
	if len(modes) > 0 && modes[0] == "hook" {
		hook(folder, modes[1], modes[2], work)
		return
	}
	stamps, err := os.OpenFile(filepath.Join(folder, "stamps"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	check(err)
	if slices.Contains(modes, "deaf") {
		signal.Ignore(syscall.SIGTERM)
	}
	if slices.Contains(modes, "child") {
		labour(stamps, work)
		return
	}
	stamp(stamps, "start")
	oracle := lock(folder)
	if writer := os.Getenv(trace.Writer); writer != "" {
		lead(folder, writer)
	}
	switch {
	case slices.Contains(modes, "orphan"):
		delegate(oracle, folder, "deaf")
	case slices.Contains(modes, "family"):
		delegate(oracle, folder, modes...)
	case slices.Contains(modes, "daemon"):
		abandon(oracle, folder, modes...)
		labour(stamps, work/2)
	default:
		labour(stamps, work)
	}
	stamp(stamps, "end")
	oracle.Close()
}

// lock takes the key's locks of the kernel. They are held as long as this process or a
// child of it has the file open. If one is taken there are two holders that mustn't be
// beside each other, whatever any clock says.
func lock(folder string) *os.File {
	f, err := oracle.Take(filepath.Join(folder, "oracle."+os.Getenv("FLOCKD_KEY")), os.Getenv(trace.Share), os.Getenv("FLOCKD_SLOT"))
	if err != nil {
		violations, err2 := os.OpenFile(filepath.Join(folder, "violations"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		check(err2)
		before, _ := os.ReadFile(f.Name())
		fmt.Fprintf(violations, "%d %q token %s: %v: the last that came has %s\n", trace.Now(), os.Getenv("FLOCKD_KEY"), os.Getenv("FLOCKD_TOKEN"), err, before)
		os.Exit(3)
	}
	check(f.Truncate(0))
	fmt.Fprintf(f, "token %s by %d", os.Getenv("FLOCKD_TOKEN"), os.Getpid())
	return f
}

func labour(stamps *os.File, work time.Duration) {
	for end := trace.Now() + int64(work); trace.Now() < end; {
		stamp(stamps, "beat")
		time.Sleep(min(beat, time.Duration(end-trace.Now())))
	}
}

// delegate has a child do the work, with the lock in its hands too.
func delegate(oracle *os.File, folder string, modes ...string) {
	cmd := exec.Command(os.Args[0], append([]string{folder, os.Args[2], "child"}, modes...)...)
	cmd.ExtraFiles = []*os.File{oracle}
	cmd.Stderr = os.Stderr
	err := cmd.Run()
	if cmd.ProcessState != nil && cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGTERM {
		os.Exit(128 + int(syscall.SIGTERM)) // it came before the child was deaf
	}
	check(err)
}

// abandon has the work done by a daemon: it has no parent, a session of its own and no
// environment. What it has to know is in its arguments, and there all can see of which
// session it was.
func abandon(oracle *os.File, folder string, modes ...string) {
	session, err := unix.Getsid(0)
	check(err)
	args := append([]string{"-c", `"$@" &`, "sh", os.Args[0], folder, os.Args[2], "child"}, modes...)
	args = append(args, fmt.Sprintf("%s=%d", trace.Session, session))
	for _, name := range []string{"FLOCKD_TOKEN", "FLOCKD_ID", "FLOCKD_KEY"} {
		args = append(args, name+"="+os.Getenv(name))
	}
	cmd := exec.Command("/bin/sh", args...)
	cmd.Env = []string{}
	cmd.ExtraFiles = []*os.File{oracle}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	check(cmd.Run())
}

// stamp appends one line in one call, so that lines of several processes don't mix.
func stamp(f *os.File, what string) {
	_, err := fmt.Fprintln(f, trace.Now(), what, os.Getenv("FLOCKD_TOKEN"), os.Getenv("FLOCKD_ID"), os.Getenv("FLOCKD_KEY"))
	check(err)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe "+strings.Join(os.Args[1:], " ")+":", err)
		os.Exit(4)
	}
}
