package cmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"flockd/drill"
	"flockd/runner"
)

// TestMain lets the test binary be flockd, for what needs a process of its own.
func TestMain(m *testing.M) {
	if wrap := wraps[os.Getenv("FLOCKD_TEST_WRAP")]; wrap != nil && os.Args[0] == drill.ContenderName {
		os.Exit(contend(System(), wrap))
	}
	// A guard hands no variable on.
	if os.Getenv("FLOCKD_TEST_AS_FLOCKD") != "" || os.Args[0] == runner.GiveBackName {
		os.Exit(Main(System(), os.DirFS("..")))
	}
	if os.Getenv("FLOCKD_TEST_AS_PROBE") != "" {
		printDescriptors()
		os.Exit(0)
	}
	// What these tests start must not inherit an ignored SIGHUP, as nohup leaves it:
	// a caught one is reset.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	os.Exit(m.Run())
}

// printDescriptors shows on stderr what else this process was started with.
func printDescriptors() {
	for fd := range 1024 {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 || fd == int(os.Stderr.Fd()) {
			continue
		}
		mode, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		name, _ := os.Readlink(fmt.Sprint("/proc/self/fd/", fd))
		fmt.Fprintf(os.Stderr, "%d %o %s\n", fd, mode, name)
	}
}

// outcome is what a call of flockd left behind.
type outcome struct {
	code   int
	stdout string
	stderr string
	run    *runOptions   // what would have been run; nil: nothing
	elect  *electOptions // what would have been a candidate; nil: nothing
}

// call runs flockd in this process up to the point where it would ask a store.
func call(t *testing.T, env []string, args ...string) outcome {
	t.Helper()
	out, err := tempFile(t), tempFile(t)
	a := &app{
		Streams: Streams{Args: args, Env: append(env, "PATH=/usr/bin:/bin", "FLOCKD_CONFIG=/dev/null"), Stdout: out, Stderr: err, UID: os.Geteuid()},
		files:   os.DirFS(".."),
		lines:   newLines(err),
	}
	a.print = newPrinter(a.lines, false, false, false)
	var o outcome
	a.run = func(_ context.Context, run *runOptions) error {
		o.run = run
		return nil
	}
	a.elect = func(_ context.Context, elect *electOptions) error {
		o.elect = elect
		return nil
	}
	root := a.newRoot()
	root.SetArgs(args)
	o.code = a.end(root.ExecuteContext(t.Context()))
	a.lines.flush()
	o.stdout, o.stderr = content(t, out), content(t, err)
	return o
}

func tempFile(t *testing.T) *os.File {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func content(t *testing.T, f *os.File) string {
	f.Seek(0, io.SeekStart)
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// wantUsage holds a call to exit code 64 and one line with all of wanted.
func wantUsage(t *testing.T, o outcome, wanted ...string) {
	t.Helper()
	if o.code != 64 || o.run != nil || o.elect != nil {
		t.Errorf("exit code %d, want 64", o.code)
	}
	message, _, _ := strings.Cut(o.stderr, "\n")
	if !strings.HasPrefix(message, "flockd: ") || strings.Count(o.stderr, "\n") > 2 {
		t.Errorf("stderr is no message with a hint at most:\n%s", o.stderr)
	}
	for _, w := range wanted {
		if !strings.Contains(o.stderr, w) {
			t.Errorf("%q is missing in %q", w, o.stderr)
		}
	}
}

func TestRootCommand(t *testing.T) {
	for _, c := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{[]string{"--help"}, 0, "flockd runs a command", ""},
		{[]string{"help", "run"}, 0, "--on-unavailable", ""},
		{[]string{"help", "nope"}, 64, "", "no command nope"},
		{[]string{"run", "--help"}, 0, "\nWaiting:\n", ""},
		{[]string{"--version"}, 0, "stores:", ""},
		{[]string{"-V"}, 0, "go1", ""},
		{[]string{"version"}, 0, "flockd ", ""},
		{[]string{"version", "x"}, 64, "", "takes no argument"},
		{[]string{}, 64, "", "no command is given"},
		{[]string{"rum"}, 64, "", "did you mean flockd run?"},
		{[]string{"runn", "-k", "x", "--", "true"}, 64, "", "no command runn\nflockd: hint: did you mean flockd run?"},
		{[]string{"elction", "-k", "x"}, 64, "", "did you mean flockd elect?"},
		{[]string{"status", "--key", "x"}, 64, "", "there is no --key: what it names is an argument here\nflockd: hint: flockd status [KEY] [flags]"},
		{[]string{"break", "-k", "x"}, 64, "", "hint: flockd break KEY "},
		{[]string{"list", "--key=x"}, 64, "", "hint: flockd list [PREFIX] "},
		{[]string{"run", "x", "--", "true"}, 64, "", "no key is given: --key KEY\nflockd: hint: --key x"},
		{[]string{"once", "lits", "--json"}, 64, "", "no command lits\nflockd: hint: did you mean flockd once list?"},
		{[]string{"--key", "x"}, 64, "", "no flag --key"},
		{[]string{"completion", "bash"}, 0, "__complete", ""},
		{[]string{"completion", "tcsh"}, 64, "", "bash, zsh or fish"},
		{[]string{"completion"}, 64, "", "bash, zsh or fish"},
		{[]string{"schema", "sqlite"}, 0, "CREATE TABLE claims", ""},
		{[]string{"schema", "sqlite", "--grant-to", "jobs"}, 64, "", "no users"},
		{[]string{"schema"}, 64, "", "no database is given"},
		{[]string{"schema", "oracle"}, 64, "", "sqlite"},
		{[]string{"schema", "sqlite", "--prefix="}, 64, "", "--prefix"},
		{[]string{"man"}, 0, ".TH", ""},
		{[]string{"man", "flockd-run"}, 0, "RESULT FILE", ""},
		{[]string{"man", "run"}, 0, "RESULT FILE", ""},
		{[]string{"man", "once-list"}, 0, `.TH "FLOCKD\\-ONCE\\-LIST"`, ""},
		{[]string{"man", "flockd.conf"}, 0, "REFUSED", ""},
		{[]string{"man", "flockd.conf.5"}, 0, "REFUSED", ""},
		{[]string{"man", "../go"}, 64, "", "no page"},
		{[]string{"man", "once", "list"}, 0, `.TH "FLOCKD\\-ONCE\\-LIST"`, ""},
		{[]string{"man", "flockd", "once", "list"}, 0, `.TH "FLOCKD\\-ONCE\\-LIST"`, ""},
		{[]string{"man", "fence", "fiel"}, 64, "", `no page "fence fiel"`},
	} {
		o := call(t, nil, c.args...)
		if o.code != c.code || !strings.Contains(o.stdout, c.stdout) || !strings.Contains(o.stderr, c.stderr) || (c.stderr == "") != (o.stderr == "") {
			t.Errorf("flockd %v: %+v", c.args, o)
		}
	}
}

func TestPanicIsOneLine(t *testing.T) {
	err := tempFile(t)
	code := Main(Streams{Args: []string{"man"}, Stderr: err}, nil) // no files: a nil pointer
	if text := content(t, err); code != 70 || strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "flockd: internal fault: ") {
		t.Errorf("exit code %d, stderr %q", code, text)
	}
}
