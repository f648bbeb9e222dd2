package runner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"flockd/backends"
	"flockd/backends/mem"
)

// What runs one term after another in a process finds it as it was, after each, with a terminal
// and without, in a cgroup and by marks alone.
func TestRunLeavesNothingBehind(t *testing.T) {
	for _, tc := range []struct {
		name               string
		terminal, nocgroup bool
		terms              int
	}{{"plain", false, false, 100}, {"terminal", true, false, 30}, {"nocgroup", false, true, 30}, {"terminal, nocgroup", true, true, 30}} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "RUNNER_TEST_TERMS="+strconv.Itoa(tc.terms))
			if tc.nocgroup {
				cmd.Env = append(cmd.Env, "RUNNER_TEST_NOCGROUP=1")
			}
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if tc.terminal {
				_, slave := terminal(t)
				defer slave.Close()
				cmd.Stdin, cmd.SysProcAttr.Setctty = slave, true
			}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// runTerms is a program of its own for that test.
func runTerms(text string) error {
	terms, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	store := mem.New()
	first := manners()
	if err := oneTerm(store); err != nil { // it makes what is made once, as a poller
		return err
	}
	before := remains() // some of it may be about to end: that is let pass once
	for range terms {
		if err := oneTerm(store); err != nil {
			return err
		}
	}
	if last := manners(); last != first {
		return fmt.Errorf("it was\n%s, and is\n%s", first, last)
	}
	left := more(remains(), before)
	for end := time.Now().Add(20 * time.Second); len(left) > 0 && time.Now().Before(end); left = more(remains(), before) {
		time.Sleep(10 * time.Millisecond) // what ends by itself, as a guard that was let go
	}
	if len(left) > 0 {
		return fmt.Errorf("left behind: %q", left)
	}
	return nil
}

// more is what is in a list more often than in another.
func more(list, than []string) []string {
	than = slices.Clone(than)
	return slices.DeleteFunc(list, func(s string) bool {
		i := slices.Index(than, s)
		if i >= 0 {
			than = slices.Delete(than, i, i+1)
		}
		return i >= 0
	})
}

// oneTerm runs a command that leaves an orphan behind, and says how it was started.
func oneTerm(store backends.Backend) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	res := make(chan Result)
	go func() {
		defer write.Close()
		res <- Run(context.Background(), Options{
			Backend: store, Grace: 0, Leftovers: Purge, Wait: Forever,
			Request: backends.Request{Key: "k", Mode: backends.Exclusive, TTL: 60e9},
			Command: Command{
				Path: "/bin/sh", Env: os.Environ(), Stdout: write, Stderr: os.Stderr,
				Args: []string{"sh", "-c", `(setsid sleep 60 &) ; (exit 0) & grep SigIgn /proc/$$/status; exit 3`},
			},
		})
	}()
	line, err := bufio.NewReader(read).ReadString('\n')
	if r := <-res; r.Class != Finished || r.Exit.Code != 3 {
		return fmt.Errorf("%+v", r)
	}
	if ignored, perr := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(line, "SigIgn:")), 16, 64); err != nil || perr != nil || ignored&(1<<(syscall.SIGTTOU-1)|1<<(syscall.SIGTSTP-1)) != 0 {
		return fmt.Errorf("the command's ignored signals: %q, %v", line, err)
	}
	return nil
}

// remains are what a run could leave behind.
func remains() (list []string) {
	fds, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range fds {
		if name, err := os.Readlink(fd); err == nil {
			list = append(list, strings.TrimRight(name, "0123456789[]"))
		}
	}
	for range runtime.NumGoroutine() {
		list = append(list, "a goroutine")
	}
	children, _ := filepath.Glob("/proc/self/task/*/children")
	for _, path := range children {
		text, _ := os.ReadFile(path)
		for range strings.Fields(string(text)) {
			list = append(list, "a child")
		}
	}
	leaves, _ := filepath.Glob("/sys/fs/cgroup/unified/flockd-" + strconv.Itoa(os.Getpid()) + "-*")
	for range leaves {
		list = append(list, "a cgroup")
	}
	return list
}

// manners are how this process deals with others, its signals and its terminal.
func manners() string {
	var text strings.Builder
	var adopts int32
	unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&adopts)), 0, 0, 0)
	var locks unix.Rlimit
	unix.Getrlimit(10, &locks)
	fmt.Fprintln(&text, "adopts:", adopts, "limit:", locks)
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "SigIgn") {
			text.WriteString(line)
		}
	}
	for _, sig := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU} {
		var d, byDefault disposition
		act(sig, nil, &d)
		fmt.Fprintln(&text, sig, "stops us:", d == byDefault)
	}
	if modes, err := unix.IoctlGetTermios(0, unix.TCGETS); err == nil {
		group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
		fmt.Fprintln(&text, "terminal:", modes.Lflag, modes.Oflag, group == unix.Getpgrp(), err)
	}
	return text.String()
}

// withoutCgroups starts this program anew where no cgroup can be made.
func withoutCgroups() error {
	runtime.LockOSThread() // the namespace is this thread's
	err := errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	if err != nil {
		return err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); strings.Contains(line, " - cgroup2 ") {
			if err := unix.Mount("none", fields[4], "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
				return err
			}
		}
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "RUNNER_TEST_NOCGROUP=") })
	return syscall.Exec("/proc/self/exe", os.Args, env)
}
