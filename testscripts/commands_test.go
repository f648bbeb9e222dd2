//go:build linux

package testscripts

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// patience is how long an event may take on a busy machine. Nothing is proven by
// it: a script that runs into it has failed.
const patience = 30 * time.Second

var commands = map[string]func(*testscript.TestScript, bool, []string){
	"status":  statusCmd,
	"start":   startCmd,
	"ended":   endedCmd,
	"await":   awaitCmd,
	"signal":  signalCmd,
	"through": throughCmd,
	"sql":     sqlCmd,
	"lease":   leaseCmd,
	"take":    takeCmd,
	"replace": replaceCmd,
	"renewed": renewedCmd,
	"intime":  inTimeCmd,
	"gone":    goneCmd,
	"stopped": stoppedCmd,
	"guard":   guardCmd,
	"dead":    deadCmd,
	"nobody":  nobodyCmd,
	"disk":    diskCmd,
	"fill":    fillCmd,
	"repeat":  repeatCmd,
	"oneline": onelineCmd,
}

func usage(ts *testscript.TestScript, ok bool, text string) {
	if !ok {
		ts.Fatalf("usage: %s", text)
	}
}

func exitStatus(err error) (int, bool) {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		ws := exit.Sys().(syscall.WaitStatus)
		if ws.Signaled() {
			return 128 + int(ws.Signal()), true // as a shell shows it
		}
		return exit.ExitCode(), true
	}
	return 0, err == nil
}

// statusCmd runs a command and wants its exact exit status: status N COMMAND...
func statusCmd(ts *testscript.TestScript, _ bool, args []string) {
	usage(ts, len(args) > 1, "status N COMMAND...")
	got, ok := exitStatus(ts.Exec(args[1], args[2:]...))
	if !ok || strconv.Itoa(got) != args[0] {
		ts.Fatalf("status %d, want %s", got, args[0])
	}
}

// startCmd runs a command in the background, its output in NAME.out and NAME.err.
func startCmd(ts *testscript.TestScript, _ bool, args []string) {
	usage(ts, len(args) > 1, "start NAME COMMAND...")
	name := args[0]
	path := args[1]
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, path)); err == nil {
			path = filepath.Join(dir, path)
			break
		}
	}
	cmd := exec.Command(path, args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = environ(ts)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // nothing that is sent to our group is meant for it
	out, err := os.Create(ts.MkAbs(name + ".out"))
	ts.Check(err)
	defer out.Close()
	errOut, err := os.Create(ts.MkAbs(name + ".err"))
	ts.Check(err)
	defer errOut.Close()
	cmd.Stdout, cmd.Stderr = out, errOut
	ts.Check(cmd.Start())
	ts.Check(os.WriteFile(ts.MkAbs(name+".pid"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600))
	ts.Value(jobsKey{}).(jobs)[name] = cmd
}

// environ is the script's environment, of which testscript shows one at a time.
func environ(ts *testscript.TestScript) (env []string) {
	names := []string{"PATH", "HOME", "WORK", "TMPDIR", "DB", "FLOCKD_BACKEND", "FLOCKD_CONFIG", "FLOCKD_HELD"}
	for _, name := range names {
		if value := ts.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// endedCmd waits for a background command and wants its exact exit status.
func endedCmd(ts *testscript.TestScript, _ bool, args []string) {
	usage(ts, len(args) == 2, "ended NAME STATUS")
	cmd := ts.Value(jobsKey{}).(jobs)[args[0]]
	if cmd == nil {
		ts.Fatalf("no job %s", args[0])
	}
	timer := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer timer.Stop()
	got, ok := exitStatus(cmd.Wait())
	for name, other := range ts.Value(jobsKey{}).(jobs) {
		if other.ProcessState == nil {
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", other.Process.Pid))
			ts.Logf("%s still there: %.60s", name, stat)
		}
	}
	ts.Logf("%s%s", ts.ReadFile(args[0]+".out"), ts.ReadFile(args[0]+".err"))
	if !ok || strconv.Itoa(got) != args[1] {
		ts.Fatalf("%s: status %d, want %s", args[0], got, args[1])
	}
}

// until waits for what is known to come.
func until(t interface{ Fatalf(string, ...any) }, what string, happened func() bool) {
	for end := time.Now().Add(patience); !happened(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// awaitCmd waits until a file isn't empty, or has the text.
func awaitCmd(ts *testscript.TestScript, _ bool, args []string) {
	usage(ts, len(args) == 1 || len(args) == 2, "await FILE [TEXT]")
	until(ts, strings.Join(args, " "), func() bool {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		return err == nil && len(text) > 0 && bytes.Contains(text, []byte(slices.Concat(args[1:], []string{""})[0]))
	})
}

// signalCmd sends a signal to the process whose number is in a file.
func signalCmd(ts *testscript.TestScript, _ bool, args []string) {
	usage(ts, len(args) == 2, "signal NAME PIDFILE")
	ts.Check(syscall.Kill(pidIn(ts, args[1]), unix.SignalNum("SIG"+args[0])))
}

func pidIn(ts *testscript.TestScript, file string) int {
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(file)))
	ts.Check(err)
	return pid
}

// throughCmd wants every exit code of a command to come through.
func throughCmd(ts *testscript.TestScript, _ bool, args []string) {
	usage(ts, len(args) == 0, "through")
	for code := range 256 {
		got, ok := exitStatus(ts.Exec("flockd", "run", "--key", "through", "-c", fmt.Sprint("exit ", code)))
		if !ok || got != code {
			ts.Fatalf("exit %d came through as %d", code, got)
		}
	}
}

// goneCmd wants the process whose number is in a file to be dead, a zombie
// included, now.
func goneCmd(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) == 1, "[!] gone PIDFILE")
	if s := state(pidIn(ts, args[0])); over(s) == neg {
		ts.Fatalf("dead: %v (%c)", over(s), s)
	}
}

// stoppedCmd waits until the process whose number is in a file is stopped.
func stoppedCmd(ts *testscript.TestScript, _ bool, args []string) {
	usage(ts, len(args) == 1, "stopped PIDFILE")
	until(ts, "stopped", func() bool { return state(pidIn(ts, args[0])) == 'T' })
}

// guardCmd waits for the guard of the flockd whose number is in a file, and writes
// its number to another: not the one in OLD.
func guardCmd(ts *testscript.TestScript, _ bool, args []string) {
	usage(ts, len(args) == 2 || len(args) == 3, "guard PIDFILE FILE [OLD]")
	flockd, old, guard := pidIn(ts, args[0]), 0, 0
	if len(args) == 3 {
		old = pidIn(ts, args[2])
	}
	until(ts, "a guard", func() bool {
		guard = guardOf(flockd)
		return guard != 0 && guard != old
	})
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(strconv.Itoa(guard)), 0o600))
}

// deadCmd waits until the process whose number is in a file is dead, as a zombie is.
func deadCmd(ts *testscript.TestScript, _ bool, args []string) {
	usage(ts, len(args) == 1, "dead PIDFILE")
	until(ts, "dead", func() bool { return over(state(pidIn(ts, args[0]))) })
}

// nobodyCmd waits until the process whose number is in a file is no more, not even
// as a zombie.
func nobodyCmd(ts *testscript.TestScript, _ bool, args []string) {
	usage(ts, len(args) == 1, "nobody PIDFILE")
	until(ts, "nobody", func() bool { return state(pidIn(ts, args[0])) == 0 })
}

// diskCmd mounts a file system of that size.
func diskCmd(ts *testscript.TestScript, _ bool, args []string) {
	usage(ts, len(args) >= 2, "disk FOLDER OPTIONS")
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	ts.Check(unix.Mount("flockd-test", dir, "tmpfs", 0, args[1]))
	ts.Defer(func() { unix.Unmount(dir, unix.MNT_DETACH) })
}

// fillCmd writes a file until the disk is full.
func fillCmd(ts *testscript.TestScript, _ bool, args []string) {
	usage(ts, len(args) == 1, "fill FILE")
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	for size := 1 << 16; size > 0; { // down to the last byte
		if _, err := f.Write(make([]byte, size)); err != nil {
			if !errors.Is(err, unix.ENOSPC) {
				ts.Fatalf("%v", err)
			}
			size /= 2
		}
	}
}

// repeatCmd runs a command with ARG repeated, to have many arguments.
func repeatCmd(ts *testscript.TestScript, _ bool, args []string) {
	usage(ts, len(args) > 2, "repeat N ARG COMMAND...")
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	ts.Check(ts.Exec(args[2], append(slices.Clone(args[3:]), slices.Repeat([]string{args[1]}, n)...)...))
}

// onelineCmd wants a usage error: exit status 64, one line that begins with
// "flockd: " and says TEXT, and hints at most; no trace, nothing on stdout.
func onelineCmd(ts *testscript.TestScript, _ bool, args []string) {
	usage(ts, len(args) > 2, "oneline STATUS TEXT COMMAND...")
	got, ok := exitStatus(ts.Exec(args[2], args[3:]...))
	if !ok || strconv.Itoa(got) != args[0] {
		ts.Fatalf("status %d, want %s", got, args[0])
	}
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("stdout: %q", out)
	}
	said := 0
	for line := range strings.Lines(ts.ReadFile("stderr")) {
		switch {
		case strings.HasPrefix(line, "flockd: hint: "):
		case strings.HasPrefix(line, "flockd: ") && strings.Contains(line, args[1]):
			said++
		default:
			ts.Fatalf("unexpected line %q, want %q", line, args[1])
		}
	}
	if said != 1 {
		ts.Fatalf("%d lines say %q", said, args[1])
	}
}
