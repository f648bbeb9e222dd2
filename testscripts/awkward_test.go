//go:build linux

package testscripts

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tree is a command with a process that is hard to reach: the rest. Both write
// stamps, as probe does, to FOLDER/first and FOLDER/rest.
type tree struct {
	name   string
	orphan bool // the rest's parent has ended
	setsid bool // it has a session of its own
	wiped  bool // it has no environment
	alone  bool // there is no rest
}

var trees = []tree{
	{name: "plain", alone: true},
	{name: "background", orphan: true},
	{name: "setsid", setsid: true},
	{name: "double", orphan: true, setsid: true},
	{name: "wiped", orphan: true, setsid: true, wiped: true},
	{name: "deaf"},    // both ignore TERM
	{name: "chain"},   // the rest forks over and over, into a new session, and each parent ends
	{name: "stopped"}, // the first has stopped itself
	{name: "nested", orphan: true, setsid: true},
}

func treeOf(name string) tree {
	return trees[slices.IndexFunc(trees, func(t tree) bool { return t.name == name })]
}

// awkward is the command of a tree: awkward TREE FOLDER. Its other processes are
// the same with one more argument.
func awkward() {
	t, folder := treeOf(os.Args[1]), os.Args[2]
	if t.name == "deaf" {
		signal.Ignore(syscall.SIGTERM)
	}
	switch stamps := filepath.Join(folder, "rest"); {
	case len(os.Args) == 3:
		t.first(folder)
	case os.Args[3] == "parent":
		fatal(t.child("rest").Start())
	case t.name == "chain":
		chain(stamps)
	default:
		live(stamps)
	}
}

func (t tree) first(folder string) {
	switch {
	case t.alone:
	case t.orphan:
		fatal(t.child("parent").Run())
	default:
		fatal(t.child("rest").Start())
	}
	if t.name == "stopped" {
		stampOnce(filepath.Join(folder, "first"))
		for ; ; time.Sleep(pause) { // the stop may reach this thread later than the call returns
			fatal(unix.Kill(os.Getpid(), unix.SIGSTOP))
		}
	}
	live(filepath.Join(folder, "first"))
}

func (t tree) child(role string) *exec.Cmd {
	self, err := os.Executable()
	fatal(err)
	cmd := exec.Command(self, os.Args[1], os.Args[2], role)
	cmd.Args[0] = os.Args[0]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: t.setsid}
	if t.wiped {
		cmd.Env = []string{}
	}
	return cmd
}

// chain writes stamps, forks, and ends when its child goes on in a new session. There
// is no runtime for more than bare system calls in such a child.
func chain(stamps string) {
	debug.SetGCPercent(-1)
	runtime.LockOSThread()
	file, err := unix.Open(stamps, unix.O_CREAT|unix.O_WRONLY, 0o600)
	fatal(err)
	pids, err := unix.Open(stamps+".pid", unix.O_CREAT|unix.O_WRONLY, 0o600)
	fatal(err)
	var now, rest unix.Timespec
	for {
		pid, _, _ := syscall.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
		writeRaw(pids, int64(pid))
		for range 5 {
			syscall.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&now)), 0)
			writeRaw(file, now.Sec*1e9+now.Nsec)
			rest = unix.Timespec{Nsec: int64(pause)}
			syscall.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&rest)), 0, 0)
		}
		child, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if child != 0 {
			syscall.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(errno), 0, 0)
		}
		syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	}
}

// writeRaw writes a number that isn't negative as a line, over what is there.
func writeRaw(fd int, n int64) {
	var line [21]byte
	line[20] = '\n'
	for i := 19; i >= 0; i-- {
		line[i] = byte('0' + n%10)
		n /= 10
	}
	syscall.RawSyscall6(unix.SYS_PWRITE64, uintptr(fd), uintptr(unsafe.Pointer(&line)), uintptr(len(line)), 0, 0, 0)
}

func stampOnce(stamps string) {
	fatal(os.WriteFile(stamps+".pid", []byte(strconv.Itoa(os.Getpid())), 0o600))
	fatal(os.WriteFile(stamps, strconv.AppendInt(nil, monotonic(), 10), 0o600))
}

// nocgroup runs a command that may make no cgroup: nocgroup COMMAND...
func nocgroup() {
	path, err := exec.LookPath(os.Args[1])
	fatal(err)
	runtime.LockOSThread() // the namespace is this thread's
	fatal(unix.Unshare(unix.CLONE_NEWNS))
	fatal(unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	fatal(unix.Mount("none", cgroup2(), "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
	fatal(syscall.Exec(path, os.Args[1:], os.Environ()))
}
