//go:build cgo && linux && !no_sqlite

package cmd

import (
	"bytes"
	"encoding/json"
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

	"flockd/backends"
	"flockd/backends/all"
	"flockd/runner"
)

// killed is a run whose flockd is thought of as killed.
type killed struct {
	*lockedRun
	store backends.Backend
	lease backends.Lease
}

// newKilled takes the key k, and says so in the result file name.
func newKilled(t *testing.T, name string) *killed {
	t.Helper()
	u, err := backends.ParseURL("sqlite://" + storeFile(t))
	if err != nil {
		t.Fatal(err)
	}
	store, err := all.Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	id := backends.NewID()
	lease, err := store.Acquire(t.Context(), backends.Request{Key: "k", ID: id, Mode: backends.Exclusive, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	file, err := openResultFile(name, record{Key: "k", ID: id, PID: 4711, Note: "n"})
	if err != nil {
		t.Fatal(err)
	}
	k := &killed{&lockedRun{app: &app{}, runOptions: &runOptions{backend: u}, file: file}, store, lease}
	if err := file.running(lease); err != nil {
		t.Fatal(err)
	}
	return k
}

// heir is the program that carries out a legacy.
func heir(t *testing.T, legacy []byte) *exec.Cmd {
	cmd := flockd(t)
	cmd.Args = []string{runner.GiveBackName}
	cmd.Env = []string{"FLOCKD_TEST_AS_FLOCKD=1", "GORACE=atexit_sleep_ms=0"}
	cmd.Dir = "/"
	cmd.Stdin = bytes.NewReader(legacy)
	return cmd
}

func giveBackCode(t *testing.T, legacy []byte) int {
	t.Helper()
	code, stdout, stderr := exitOf(t, heir(t, legacy))
	if stdout+stderr != "" {
		t.Errorf("it says %q and %q", stdout, stderr)
	}
	return code
}

func (k *killed) status(t *testing.T) backends.Status {
	t.Helper()
	status, err := k.store.Inspect(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	return status
}

func lastLine(t *testing.T, path string) (r record, lines int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return readRecord(t, all[len(all)-1]), len(all)
}

func TestGiveBack(t *testing.T) {
	result := filepath.Join(t.TempDir(), "result")
	k := newKilled(t, result)
	if err := os.WriteFile(k.file.draft(), nil, 0o600); err != nil { // killed while it was writing
		t.Fatal(err)
	}
	began := time.Now()
	if code := giveBackCode(t, k.legacy(k.store, k.lease)); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if s := k.status(t); len(s.Line) != 0 || s.Last == nil || s.Last.Class != "killed" || s.Last.Token != k.lease.Token {
		t.Errorf("%+v", s)
	}
	r, _ := lastLine(t, result)
	if r.Class != "killed" || r.Error != "flockd (pid 4711) was killed" || r.Token != k.lease.Token || r.Note != "n" ||
		r.ExitCode != nil || r.Status != nil || r.Started.IsZero() || r.Ended.Before(began) {
		t.Errorf("%+v", r)
	}
	if entries, _ := os.ReadDir(filepath.Dir(result)); len(entries) != 1 {
		t.Errorf("there is %v", entries)
	}
	if info, _ := os.Stat(result); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if code := giveBackCode(t, k.legacy(k.store, k.lease)); code != 0 {
		t.Errorf("of a hold that is gone: exit code %d", code)
	}
	if again, _ := lastLine(t, result); !again.Ended.Equal(r.Ended) {
		t.Error("the result was written twice")
	}
}

// A flockd that was killed between its release and the result file has a run that
// the store knows of.
func TestGiveBackBehindTheRelease(t *testing.T) {
	for _, tc := range []struct {
		outcome backends.Outcome
		exit    int // -1: none
	}{
		{backends.Outcome{Class: "finished", Exit: 3}, 3},
		{backends.Outcome{Class: "killed"}, -1}, // by a give-back that was itself killed
	} {
		t.Run(tc.outcome.Class, func(t *testing.T) {
			result := filepath.Join(t.TempDir(), "result")
			k := newKilled(t, result)
			if err := k.store.Release(t.Context(), "k", k.lease.ID, tc.outcome); err != nil {
				t.Fatal(err)
			}
			if code := giveBackCode(t, k.legacy(k.store, k.lease)); code != 0 {
				t.Errorf("exit code %d", code)
			}
			r, _ := lastLine(t, result)
			exit := -1
			if r.ExitCode != nil {
				exit = *r.ExitCode
			}
			if string(r.Class) != tc.outcome.Class || exit != tc.exit || r.Ended.IsZero() {
				t.Errorf("%+v, exit code %d", r, exit)
			}
		})
	}
}

// TestGiveBackOfUnlocked: there is no key, so only the result file is completed.
func TestGiveBackOfUnlocked(t *testing.T) {
	result := filepath.Join(t.TempDir(), "result")
	k := newKilled(t, result)
	if code := giveBackCode(t, k.legacy(k.store, backends.Lease{})); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if r, _ := lastLine(t, result); r.Class != "killed" || !r.Unlocked || r.Token != 0 {
		t.Errorf("%+v", r)
	}
	if len(k.status(t).Line) != 1 {
		t.Error("a key was given back")
	}
	k.file = &resultFile{}
	if text := k.legacy(k.store, backends.Lease{}); text != nil {
		t.Errorf("with nothing to do there is a legacy: %s", text)
	}
}

// TestGiveBackAndResult: what the file says already is left alone if it is an end, or
// isn't about this run.
func TestGiveBackAndResult(t *testing.T) {
	finished := runner.Result{Class: runner.Finished}
	for _, c := range []struct {
		what  string
		mode  string // "+": appended
		found func(t *testing.T, k *killed)
		class runner.Class
		lines int
	}{
		{"running", "+", func(*testing.T, *killed) {}, "killed", 2},
		{"its end", "", func(_ *testing.T, k *killed) { k.file.end(finished, 0, clean) }, "finished", 1},
		{"its end", "+", func(_ *testing.T, k *killed) { k.file.end(finished, 0, clean) }, "finished", 2},
		{"no file", "", func(_ *testing.T, k *killed) { os.Remove(k.file.path) }, "killed", 1},
		{"no file", "+", func(_ *testing.T, k *killed) { os.Remove(k.file.path) }, "killed", 1},
		{"the next run", "", func(_ *testing.T, k *killed) { openResultFile(k.file.path, record{ID: "next"}) }, "waiting", 1},
		{"the next run", "+", func(t *testing.T, k *killed) {
			f, err := openResultFile("+"+k.file.path, record{ID: "next"})
			if err != nil {
				t.Fatal(err)
			}
			f.write(classRunning)
		}, "killed", 3},
	} {
		t.Run(c.what+c.mode, func(t *testing.T) {
			k := newKilled(t, c.mode+filepath.Join(t.TempDir(), "result"))
			legacy := k.legacy(k.store, k.lease)
			path := k.file.path
			c.found(t, k)
			if code := giveBackCode(t, legacy); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if r, lines := lastLine(t, path); r.Class != c.class || lines != c.lines {
				t.Errorf("%s in %d lines, want %s in %d", r.Class, lines, c.class, c.lines)
			}
		})
	}
}

// Of a hold that somebody has freed meanwhile the store doesn't know how the run ended.
func TestGiveBackOfABrokenHold(t *testing.T) {
	result := filepath.Join(t.TempDir(), "result")
	k := newKilled(t, result)
	if err := k.store.Ask(t.Context(), "k", k.lease.ID, backends.Notice{Kind: backends.Break, Reason: "stuck", Force: true}); err != nil {
		t.Fatal(err)
	}
	if code := giveBackCode(t, k.legacy(k.store, k.lease)); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if r, _ := lastLine(t, result); r.Class != "killed" || r.ExitCode != nil {
		t.Errorf("%+v", r)
	}
	if s := k.status(t); s.Last == nil || s.Last.Class != backends.Broken {
		t.Errorf("%+v", s.Last)
	}
}

// TestEndIsWrittenOnce: a run that ends under a guard, and then comes back from the runner.
func TestEndIsWrittenOnce(t *testing.T) {
	result := filepath.Join(t.TempDir(), "result")
	k := newKilled(t, "+"+result)
	k.print = newPrinter(k.lines, false, false, false)
	for range 2 {
		k.onEnd(runner.Result{Class: runner.Finished, Lease: k.lease})
	}
	if r, lines := lastLine(t, result); r.Class != "finished" || *r.Status != 0 || lines != 2 {
		t.Errorf("%d lines, the last is %+v", lines, r)
	}
}

// TestGiveBackByAccident: whoever has another name for the program does no harm.
func TestGiveBackByAccident(t *testing.T) {
	result := filepath.Join(t.TempDir(), "result")
	k := newKilled(t, result)
	legacy := k.legacy(k.store, k.lease)
	before, _ := os.ReadFile(result)
	for _, text := range []string{
		"", "hello\n", "null", "{}", `{"Path": "` + result + `"}`, string(legacy[:len(legacy)-1]), string(legacy) + "x",
		strings.Replace(string(legacy), `"Env":{`, `"Env":{"LD_PRELOAD":"x"`, 1), strings.Repeat(" ", 2<<20) + string(legacy), string(before),
	} {
		if code := giveBackCode(t, []byte(text)); code != 64 {
			t.Errorf("%.60q: exit code %d, want 64", text, code)
		}
	}
	if after, _ := os.ReadFile(result); !bytes.Equal(before, after) || len(k.status(t).Line) != 1 {
		t.Errorf("something was done: %s", after)
	}
}

// TestGiveBackWithoutStore: the result file doesn't depend on the store.
func TestGiveBackWithoutStore(t *testing.T) {
	result := filepath.Join(t.TempDir(), "result")
	k := newKilled(t, result)
	var l legacy
	if err := json.Unmarshal(k.legacy(k.store, k.lease), &l); err != nil {
		t.Fatal(err)
	}
	l.Store = "sqlite:///nonexistent/flockd.db"
	text, _ := json.Marshal(l)
	if code := giveBackCode(t, text); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if r, _ := lastLine(t, result); r.Class != "killed" {
		t.Errorf("%+v", r)
	}
}

func TestGiveBackIsDeaf(t *testing.T) {
	k := newKilled(t, "")
	cmd := heir(t, nil)
	cmd.Stdin = nil
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	deaf := []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM}
	awaitIgnored(t, cmd.Process.Pid, deaf)
	for _, sig := range deaf {
		cmd.Process.Signal(sig)
	}
	stdin.Write(k.legacy(k.store, k.lease))
	stdin.Close()
	if code := codeOf(t, cmd.Wait()); code != 0 || len(k.status(t).Line) != 0 {
		t.Errorf("exit code %d, %+v", code, k.status(t))
	}
}

// awaitIgnored returns once the process ignores the signals.
func awaitIgnored(t *testing.T, pid int, signals []syscall.Signal) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "\nSigIgn:\t")
		mask, _ := strconv.ParseUint(rest[:16], 16, 64)
		ignored := func(sig syscall.Signal) bool { return mask&(1<<(sig-1)) != 0 }
		if !slices.ContainsFunc(signals, func(sig syscall.Signal) bool { return !ignored(sig) }) {
			return
		}
		runtime.Gosched()
	}
	t.Fatal("it doesn't ignore them")
}

// TestLegacy: it holds what another process in another folder needs.
func TestLegacy(t *testing.T) {
	t.Chdir(t.TempDir())
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	k := newKilled(t, "")
	k.Env = []string{"SSL_CERT_FILE=ca.pem", "SSL_CERT_DIR=/certs:own", "PATH=/bin"}
	for backend, want := range map[string]string{
		"rediss://u:p%40%2Fw@h:1/2?cacert=ca.pem": "rediss://u:p@%2Fw@h:1/2?cacert=" + folder + "/ca.pem",
		"redis://u@h?password-file=pw&prefix=p":   "redis://u@h?password-file=" + folder + "/pw&prefix=p",
	} {
		if k.backend, err = backends.ParseURL(backend); err != nil {
			t.Fatal(err)
		}
		l, err := readLegacy(bytes.NewReader(k.legacy(nil, k.lease)))
		if err != nil {
			t.Fatal(err)
		}
		if l.Store != want {
			t.Errorf("%s is left as %s, want %s", backend, l.Store, want)
		}
		if l.Env["SSL_CERT_FILE"] != folder+"/ca.pem" || l.Env["SSL_CERT_DIR"] != "/certs:"+folder+"/own" || len(l.Env) != 2 {
			t.Errorf("%v", l.Env)
		}
	}
	u, _ := backends.ParseURL("sqlite:")
	k.backend = u
	if l, err := readLegacy(bytes.NewReader(k.legacy(k.store, k.lease))); err != nil || l.Store != "sqlite://"+storeFile(t) {
		t.Errorf("%+v, %v", l, err)
	}
}
