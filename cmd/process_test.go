//go:build cgo && linux && !no_sqlite

package cmd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/mem"
)

// flockd is a command that runs flockd with a store of the test's own.
func flockd(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = []string{
		"FLOCKD_TEST_AS_FLOCKD=1", "GORACE=atexit_sleep_ms=0", "FLOCKD_CONFIG=/dev/null", "FLOCKD_BACKEND=sqlite://" + storeFile(t),
		"PATH=/usr/bin:/bin", "FLOCKD=" + self, "DIR=" + filepath.Dir(storeFile(t)),
	}
	return cmd
}

var stores = map[*testing.T]string{}

// storeFile is the test's store, made with the first use.
func storeFile(t *testing.T) string {
	if stores[t] == "" {
		stores[t] = filepath.Join(t.TempDir(), "flockd.db")
		t.Cleanup(func() { delete(stores, t) })
	}
	return stores[t]
}

// exitOf runs cmd and returns its exit code, 128+N where a signal ended it, and
// what it printed.
func exitOf(t *testing.T, cmd *exec.Cmd) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	return codeOf(t, cmd.Run()), out.String(), err.String()
}

func codeOf(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		t.Fatal(err)
	case exit.Sys().(syscall.WaitStatus).Signaled():
		return 128 + int(exit.Sys().(syscall.WaitStatus).Signal())
	}
	return exit.ExitCode()
}

// hold runs a command under the lock on key until the returned function is
// called. It returns once the command runs.
func hold(t *testing.T, key string) (release func() string) {
	t.Helper()
	cmd := flockd(t, "run", "-k", key, "-c", "echo ready; read line; echo over")
	stdin, _ := cmd.StdinPipe()
	stdout, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(stdout)
	if line, err := out.ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}
	return func() string {
		stdin.Close()
		rest, _ := io.ReadAll(out)
		cmd.Wait()
		return string(rest)
	}
}

func readRecord(t *testing.T, text []byte) record {
	t.Helper()
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return r
}

func TestRunPassesThrough(t *testing.T) {
	cmd := flockd(t, "run", "-k", "a b", "-c", `cat; echo err >&2; echo "$FLOCKD_KEY|$FLOCKD_TTL|$FLOCKD_BACKEND|$FLOCKD_HELD" >&2; exit 7`)
	cmd.Stdin = strings.NewReader("in")
	code, stdout, stderr := exitOf(t, cmd)
	lines := strings.Split(stderr, "\n")
	if code != 7 || stdout != "in" || lines[0] != "err" || len(lines) != 3 || !strings.HasPrefix(lines[1], "a b|300|sqlite://"+storeFile(t)+"|") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestSkip(t *testing.T) {
	release := hold(t, "k")
	result := filepath.Join(t.TempDir(), "result")
	code, stdout, stderr := exitOf(t, flockd(t, "run", "-k", "k", "--result-file", result, "echo", "no"))
	if code != 75 || stdout != "" || !strings.HasPrefix(stderr, "flockd: skipped k: held by ") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if code, _, stderr := exitOf(t, flockd(t, "run", "-k", "k", "-q", "-E", "0", "echo", "no")); code != 0 || stderr != "" {
		t.Errorf("-q -E 0: exit code %d, stderr %q", code, stderr)
	}
	text, err := os.ReadFile(result)
	if err != nil {
		t.Fatal(err)
	}
	if r := readRecord(t, text); r.Class != "skipped" || *r.Status != 75 || len(r.HeldBy) != 1 || r.HeldBy[0].Owner.Command != "sh" || r.ExitCode != nil {
		t.Errorf("%s", text)
	}
	if info, _ := os.Stat(result); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if release() != "over\n" {
		t.Error("the holder was disturbed")
	}
}

func TestResultStates(t *testing.T) {
	release := hold(t, "k")
	result := filepath.Join(t.TempDir(), "result")
	waiter := flockd(t, "run", "-k", "k", "-w", "1m", "--note", "n", "--result-file", "+"+result, "sh", "-c", "tail -n 1 "+result+"; kill -USR1 $$")
	var out bytes.Buffer
	waiter.Stdout = &out
	stderr, _ := waiter.StderrPipe()
	if err := waiter.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stderr).ReadString('\n')
	if !strings.HasPrefix(line, "flockd: waiting for k: held by ") {
		t.Fatal(line, err)
	}
	release()
	if code := codeOf(t, waiter.Wait()); code != 128+int(syscall.SIGUSR1) {
		t.Errorf("exit code %d", code)
	}
	if r := readRecord(t, out.Bytes()); r.Class != classRunning || r.Token == 0 || r.Started.IsZero() || r.Note != "n" {
		t.Errorf("what the command found: %s", out.String())
	}
	text, _ := os.ReadFile(result)
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	if len(lines) != 3 || readRecord(t, lines[0]).Class != classWaiting {
		t.Fatalf("%s", text)
	}
	if r := readRecord(t, lines[2]); r.Class != "finished" || r.Signal != "USR1" || *r.ExitCode != 138 || *r.Status != 138 || r.Token == 0 {
		t.Errorf("%s", lines[2])
	}
}

func TestResultFileIsCheckedFirst(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{dir, "+" + dir, "/dev/null", "/nonexistent/r", "+/nonexistent/r", "+", "/proc/version/x"} {
		code, _, stderr := exitOf(t, flockd(t, "run", "-k", "k", "--result-file", name, "true"))
		if code != 64 || !strings.HasPrefix(stderr, "flockd: --result-file "+name+": ") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, stderr %q", name, code, stderr)
		}
	}
	if _, err := os.Stat(storeFile(t)); err == nil {
		t.Error("the store was asked")
	}
}

func TestResultFileBehindLink(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(dir+"/real", nil, 0o600)
	os.Symlink("real", dir+"/link")
	exitOf(t, flockd(t, "run", "-k", "k", "--result-file", dir+"/link", "true"))
	if text, _ := os.ReadFile(dir + "/real"); readRecord(t, text).Class != "finished" {
		t.Errorf("%s", text)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("%v is left", entries)
	}
}

func TestCommandIsLookedUpFirst(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(dir+"/file", []byte("#!/bin/sh\n"), 0o644)
	os.WriteFile(dir+"/plain", []byte("echo hi\n"), 0o755)
	os.WriteFile(dir+"/broken", []byte("#!/nonexistent\n"), 0o755)
	os.Symlink("nowhere", dir+"/dangling")
	for _, c := range []struct {
		command string
		code    int
		stderr  string
		asked   bool
	}{
		{"nonexistent", 127, "flockd: nonexistent: command not found\n", false},
		{"/nonexistent/x", 127, "flockd: /nonexistent/x: command not found\n", false},
		{"", 127, "flockd: \"\": command not found\n", false},
		{dir + "/dangling", 127, "flockd: " + dir + "/dangling: command not found\n", false},
		{dir + "/file/x", 127, "flockd: " + dir + "/file/x: command not found\n", false},
		{dir + "/file", 126, "flockd: " + dir + "/file: permission denied\n", false},
		{dir, 126, "flockd: " + dir + ": is a directory\n", false},
		{dir + "/plain", 126, "flockd: " + dir + "/plain: exec format error\nflockd: hint: a script needs a first line such as #!/bin/sh\n", true},
		{dir + "/broken", 126, "flockd: " + dir + "/broken: no such file or directory\nflockd: hint: the file is there,", true},
	} {
		code, _, stderr := exitOf(t, flockd(t, "run", "-k", "k", "--", c.command))
		_, err := os.Stat(storeFile(t))
		if code != c.code || !strings.HasPrefix(stderr, c.stderr) || (err == nil) != c.asked {
			t.Errorf("%s: exit code %d, stderr %q, store: %v", c.command, code, stderr, err)
		}
	}
}

// TestNeighboursSeeTheEnd: flockd holds no end of the command's pipes.
func TestNeighboursSeeTheEnd(t *testing.T) {
	cmd := flockd(t, "run", "-k", "k", "-c", `exec <&- >&-; read line <"$DIR/fifo"`)
	if err := syscall.Mkfifo(filepath.Dir(storeFile(t))+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	stdin, _ := cmd.StdinPipe()
	stdout, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(stdout); len(text) > 0 || err != nil { // EOF while it still runs
		t.Errorf("%q, %v", text, err)
	}
	if _, err := stdin.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a writer to nobody gets %v, want a broken pipe", err)
	}
	os.WriteFile(filepath.Dir(storeFile(t))+"/fifo", []byte("\n"), 0)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestClosedStderr(t *testing.T) {
	release := hold(t, "k")
	read, write, _ := os.Pipe()
	read.Close()
	skipped := flockd(t, "run", "-k", "k", "true")
	skipped.Stderr = write
	if code := codeOf(t, skipped.Run()); code != 75 {
		t.Errorf("skipped: exit code %d", code)
	}
	release()
	ran := flockd(t, "run", "-k", "k", "-v", "--max-runtime", "0.1", "sleep", "60")
	ran.Stderr = write
	if code := codeOf(t, ran.Run()); code != 124 {
		t.Errorf("ran: exit code %d", code)
	}
	closed := flockd(t, "run", "-k", "k", "true")
	sh := exec.Command("/bin/sh", append([]string{"-c", `exec "$@" 2>&- <&-`, "sh"}, closed.Args...)...)
	sh.Env = closed.Env
	if code := codeOf(t, sh.Run()); code != 0 {
		t.Errorf("without stderr: exit code %d", code)
	}
}

// TestEndsBySignal: a signal that ended the command ends flockd the same way.
func TestEndsBySignal(t *testing.T) {
	for _, c := range []struct {
		sig      syscall.Signal
		signaled bool
	}{{syscall.SIGTERM, true}, {syscall.SIGHUP, true}, {syscall.SIGINT, true}, {syscall.SIGUSR1, false}, {syscall.SIGQUIT, false}} {
		cmd := flockd(t, "run", "-k", "k", "-c", "ulimit -c 0; echo ready; read line")
		cmd.StdinPipe()
		stdout, _ := cmd.StdoutPipe()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		bufio.NewReader(stdout).ReadString('\n')
		cmd.Process.Signal(c.sig)
		err := cmd.Wait()
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if codeOf(t, err) != 128+int(c.sig) || status.Signaled() != c.signaled {
			t.Errorf("%v: %v", c.sig, err)
		}
	}
}

func TestSignalInLine(t *testing.T) {
	release := hold(t, "k")
	defer release()
	result := filepath.Join(t.TempDir(), "result")
	cmd := flockd(t, "run", "-k", "k", "-w", "forever", "--result-file", result, "true")
	stderr, _ := cmd.StderrPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stderr)
	lines.ReadString('\n')
	cmd.Process.Signal(syscall.SIGTERM)
	line, _ := lines.ReadString('\n')
	err := cmd.Wait()
	if !cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() || line != "flockd: stopped waiting for k: signal TERM\n" {
		t.Errorf("%v: %q", err, line)
	}
	if text, _ := os.ReadFile(result); readRecord(t, text).Class != "interrupted" || readRecord(t, text).Signal != "TERM" {
		t.Errorf("%s", text)
	}
}

func TestIgnoredSignalStaysIgnored(t *testing.T) {
	cmd := flockd(t, "run", "-k", "k", "-c", `kill -HUP $PPID; kill -HUP $$; echo alive`)
	sh := exec.Command("/bin/sh", append([]string{"-c", `trap "" HUP; exec "$@"`, "sh"}, cmd.Args...)...)
	sh.Env = cmd.Env
	if code, stdout, stderr := exitOf(t, sh); code != 0 || stdout != "alive\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestNested(t *testing.T) {
	code, _, stderr := exitOf(t, flockd(t, "run", "-k", "k", "-c", `"$FLOCKD" run -k k -w 5 true`))
	if code != 64 || !strings.Contains(stderr, "encloses this run") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	if code, stdout, stderr := exitOf(t, flockd(t, "run", "-k", "k", "-c", `"$FLOCKD" run -k k2 -w 5 echo in`)); code != 0 || stdout != "in\n" {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

func TestUnavailable(t *testing.T) {
	os.WriteFile(storeFile(t), bytes.Repeat([]byte("garbage "), 1000), 0o600)
	for _, c := range []struct {
		policy         string
		code           int
		stdout, stderr string
	}{
		{"fail", 69, "", "is unavailable: "},
		{"skip", 75, "", "flockd: skipped k: the store sqlite://"},
		{"run", 0, "none\n", "flockd: running without the lock"},
	} {
		result := filepath.Join(t.TempDir(), "result")
		code, stdout, stderr := exitOf(t, flockd(t, "run", "-k", "k", "--result-file", result, "--on-unavailable", c.policy, "-c", "echo ${FLOCKD_TOKEN-none}"))
		if code != c.code || stdout != c.stdout || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", c.policy, code, stdout, stderr)
		}
		text, _ := os.ReadFile(result)
		if r := readRecord(t, text); r.Unlocked != (c.policy == "run") || r.Error == "" || *r.Status != c.code {
			t.Errorf("%s: %s", c.policy, text)
		}
	}
}

func TestExportedBackend(t *testing.T) {
	base := flockd(t)
	for _, c := range []struct{ backend, want string }{
		{"sqlite:" + filepath.Dir(storeFile(t)) + "/./x.db", "sqlite://" + filepath.Dir(storeFile(t)) + "/x.db"},
		{"sqlite:" + filepath.Dir(storeFile(t)) + "/x.db?prefix=p", "sqlite://" + filepath.Dir(storeFile(t)) + "/x.db?prefix=p"},
	} {
		cmd := flockd(t, "run", "-k", "k", "-b", c.backend, "-c", "echo $FLOCKD_BACKEND")
		if _, stdout, stderr := exitOf(t, cmd); stdout != c.want+"\n" {
			t.Errorf("%s: %s %s", c.backend, stdout, stderr)
		}
	}
	cmd := flockd(t, "run", "-k", "k", "-c", "echo $FLOCKD_BACKEND")
	inherited := "sqlite:" + filepath.Dir(storeFile(t)) + "/./y.db"
	cmd.Env = append(base.Env, "FLOCKD_BACKEND="+inherited)
	if _, stdout, _ := exitOf(t, cmd); stdout != inherited+"\n" {
		t.Errorf("an inherited FLOCKD_BACKEND became %s", stdout)
	}
}

func TestUnknownStore(t *testing.T) {
	for backend, wanted := range map[string]string{
		"nope://u:hunter2@h":    `flockd: --backend: no backend is called "nope"`,
		"sqlite:x?frobnicate=1": `flockd: --backend: the sqlite: URL knows no option "frobnicate"`,
	} {
		code, _, stderr := exitOf(t, flockd(t, "run", "-k", "k", "-b", backend, "true"))
		if code != 64 || !strings.HasPrefix(stderr, wanted) || strings.Contains(stderr, "hunter2") {
			t.Errorf("%s: exit code %d, stderr %q", backend, code, stderr)
		}
	}
}

func TestOpening(t *testing.T) {
	cause := errors.New("no route")
	store := mem.New()
	hang := make(chan struct{})
	tries := []func() (backends.Backend, error){
		func() (backends.Backend, error) { return nil, cause },
		func() (backends.Backend, error) { <-hang; return store, nil },
	}
	o := newOpening(func() (backends.Backend, error) {
		try := tries[0]
		tries = tries[1:]
		return try()
	})
	defer o.Close()
	if _, ok := backends.As[backends.Waiter](o); ok {
		t.Error("it is open before it is asked")
	}
	req := backends.Request{Key: "k", ID: backends.NewID(), Mode: backends.Exclusive, TTL: time.Minute}
	if _, err := o.Acquire(t.Context(), req); err != cause {
		t.Errorf("the first answer is %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := o.Acquire(ended, req); !errors.Is(err, errNotOpen) || !strings.Contains(err.Error(), cause.Error()) {
		t.Errorf("while the opening hangs: %v", err)
	}
	if o.Traits().Portable {
		t.Error("it has the store's traits before it is open")
	}
	if err := o.Release(t.Context(), "k", req.ID, backends.Outcome{}); err != backends.ErrLost {
		t.Errorf("a release before it is open: %v", err)
	}
	close(hang)
	lease, err := o.Acquire(t.Context(), req)
	if err != nil || lease.Token == 0 {
		t.Fatal(lease, err)
	}
	if _, ok := backends.As[backends.Waiter](o); !ok {
		t.Error("it isn't the store after it was opened")
	}
	if err := o.Release(t.Context(), "k", req.ID, backends.Outcome{}); err != nil {
		t.Error(err)
	}
}
