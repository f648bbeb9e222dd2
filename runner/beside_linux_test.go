package runner

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/mem"
)

// duo is a run of a command and what is started beside it.
type duo struct {
	*testing.T
	command, hook     *shell
	toCommand, toHook *os.File // each reads a line from its own
	store             *mem.Store
	signals           chan os.Signal
	stop              context.CancelFunc
	result            chan Result
	why               chan error // of the hook's end
	log               *records
}

// longGrace is longer than any test lasts: who waits for it fails.
const longGrace = time.Hour

func besides(t *testing.T, command, hook string, change func(*Options)) *duo {
	t.Helper()
	d := &duo{
		T: t, command: sh(t, command), hook: sh(t, hook), store: mem.New(), signals: make(chan os.Signal, 8),
		result: make(chan Result, 1), why: make(chan error, 8), log: &records{},
	}
	d.toCommand, d.toHook = d.command.blocked(t), d.hook.blocked(t)
	o := Options{
		Backend: d.store, Grace: 10 * time.Second, Leftovers: Purge, Signals: d.signals, Log: d.log.logger(),
		Request: backends.Request{Key: t.Name(), Mode: backends.Exclusive, TTL: 10 * longGrace},
		Command: d.command.Command, Beside: &Beside{Command: d.hook.Command, Limit: time.Hour, OnEnd: func(err error) { d.why <- err }},
		OnStart: func(backends.Lease) { d.command.out.Close() },
	}
	if change != nil {
		change(&o)
	}
	ctx, cancel := context.WithCancel(t.Context())
	d.stop = cancel
	go func() { d.result <- Run(ctx, o) }()
	t.Cleanup(func() { cancel(); d.hook.out.Close() })
	return d
}

// started waits for the hook's first line.
func (d *duo) started() string {
	d.Helper()
	line := d.hook.line(d.T)
	until(d.T, "the hook's start", func() bool { return d.log.count("a hook runs") > 0 }) // then its output isn't in use here any more
	d.hook.out.Close()
	return line
}

// ends waits for the end of the run, and looks that nothing of the hook is left then.
func (d *duo) ends() Result {
	d.Helper()
	select {
	case r := <-d.result:
		d.hook.out.Close()
		if r.Class == "" || d.hook.lives() {
			d.Errorf("the hook lives on after %+v", r)
		}
		return r
	case <-time.After(time.Minute):
		d.Fatal("the run doesn't end")
	}
	return Result{}
}

// lives reports whether somebody has its output open.
func (s *shell) lives() bool {
	for s.lines.Scan() {
	}
	return s.lines.Err() != nil
}

// fails waits for the hook's end.
func (d *duo) fails(want string) {
	d.Helper()
	select {
	case err := <-d.why:
		if err == nil || err.Error() != want {
			d.Errorf("the hook's end: %v, want %s", err, want)
		}
	case <-time.After(20 * time.Second):
		d.Fatalf("the hook doesn't end: want %s", want)
	}
}

// quietly looks that nobody was told of the hook's end.
func (d *duo) quietly() {
	d.Helper()
	close(d.why)
	if err, told := <-d.why; told {
		d.Errorf("the hook's end: %v", err)
	}
}

// The tests of what runs beside a command are done in a cgroup, and here without.
func TestWithoutCgroups(t *testing.T) {
	if os.Getenv("RUNNER_TEST_WITHOUT") != "" {
		return
	}
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^TestBeside")
	cmd.Env = append(os.Environ(), "RUNNER_TEST_NOCGROUP=1", "RUNNER_TEST_WITHOUT=1")
	out, err := cmd.CombinedOutput()
	if passed := strings.Count(string(out), "\n--- PASS"); err != nil || passed < 10 || strings.Contains(string(out), "SKIP") {
		t.Errorf("%v, %d passed:\n%s", err, passed, out)
	}
}

func TestBesideKnowsItsContainment(t *testing.T) {
	tr, _ := plant(backends.NewID(), nil, nil)
	defer tr.Close()
	without := os.Getenv("RUNNER_TEST_WITHOUT") != ""
	if in := strings.HasPrefix(tr.Containment(), "cgroup"); in == without {
		t.Errorf("contained by %s", tr.Containment())
	}
}

// It runs with the command's environment, and neither waits for the other.
func TestBesideEndsFirst(t *testing.T) {
	for _, tc := range []struct{ script, want string }{{"", ""}, {"; exit 7", "exited with 7"}, {"; kill -USR1 $$", "ended by signal 10"}} {
		d := besides(t, `echo $FLOCKD_TOKEN; read l; exit 3`, `echo $FLOCKD_TOKEN`+tc.script, nil)
		if token, its := d.command.line(t), d.started(); its != token || token == "" {
			t.Errorf("the command's token %q, the hook's %q", token, its)
		}
		if tc.want != "" {
			d.fails(tc.want)
		}
		if tc.want == "" {
			until(t, "the hook's end", func() bool { return !d.hook.lives() })
		}
		d.toCommand.WriteString("\n")
		if r := d.ends(); r.Class != Finished || r.Exit.Code != 3 {
			t.Errorf("%+v", r)
		}
		d.quietly()
	}
}

// A hook that minds no TERM, and has started what minds it no more and has left its group, its
// session and its parent, is killed when the command is told to stop, which may take its time.
const stubborn = `trap '' TERM; (setsid env -i sh -c 'trap "" TERM; echo $$; exec sleep 300' &); read l`

func TestBesideOfAStop(t *testing.T) {
	d := besides(t, `trap 'echo told; read l; exit 5' TERM; echo ready; while :; do read l; done`, stubborn, func(o *Options) { o.Grace = longGrace })
	d.command.line(t)
	d.started()
	d.stop()
	if line := d.command.line(t); line != "told" {
		t.Errorf("the command says %q", line)
	}
	if d.hook.lives() { // while the command takes its time
		t.Error("the hook lives on after the stop has begun")
	}
	d.toCommand.WriteString("\n")
	if r := d.ends(); r.Class != Interrupted || r.Exit.Code != 5 {
		t.Errorf("%+v", r)
	}
	d.quietly()
}

// Nor does it hold up the key when the command has ended by itself: it isn't given its grace.
func TestBesideOfACommandThatEnds(t *testing.T) {
	for _, left := range []Leftovers{Purge, Leave, Name, Await} {
		d := besides(t, `read l; exit 3`, stubborn, func(o *Options) { o.Grace, o.Leftovers = longGrace, left })
		d.started()
		d.toCommand.WriteString("\n")
		if r := d.ends(); r.Class != Finished || r.Exit.Code != 3 {
			t.Errorf("%q: %+v", left, r)
		}
		d.quietly()
	}
}

// At its limit it is killed with all that it has started; the command runs on, with what that has.
func TestBesideAtItsLimit(t *testing.T) {
	d := besides(t, `exec 3<&0; setsid sh -c 'read l; echo child; exit 3' <&3 & echo ready; wait $!`, stubborn, func(o *Options) { o.Beside.Limit = 2 * time.Second })
	d.command.line(t)
	d.fails("killed after 2s")
	d.hook.out.Close()
	if d.hook.lives() {
		t.Error("some of the hook lives on")
	}
	d.toCommand.WriteString("\n")
	if line := d.command.line(t); line != "child" {
		t.Errorf("the command's child says %q", line)
	}
	if r := d.ends(); r.Class != Finished || r.Exit.Code != 3 {
		t.Errorf("%+v", r)
	}
}

// What it has started in time runs on with the command, and no longer.
func TestBesideLeavesADaemon(t *testing.T) {
	d := besides(t, `read l; exit 3`, `exec 3<&0; (setsid sh -c 'trap "" TERM; echo $$; while read l; do echo $l; done' <&3 &)`, func(o *Options) { o.Grace = longGrace })
	d.started()
	d.toHook.WriteString("alive\n")
	if line := d.hook.line(t); line != "alive" {
		t.Errorf("it says %q", line)
	}
	d.toCommand.WriteString("\n")
	if r := d.ends(); r.Class != Finished || r.Exit.Code != 3 {
		t.Errorf("%+v", r)
	}
	d.quietly()
}

// A signal to the command isn't for it.
func TestBesideHearsNoSignals(t *testing.T) {
	d := besides(t, `trap 'echo HUP' HUP; echo ready; while :; do read l && exit 3; done`, `echo ready; read l; echo alive; read l`, nil)
	d.command.line(t)
	d.started()
	d.signals <- syscall.SIGHUP
	if line := d.command.line(t); line != "HUP" {
		t.Errorf("the command says %q", line)
	}
	d.toHook.WriteString("\n")
	if line := d.hook.line(t); line != "alive" {
		t.Errorf("the hook says %q", line)
	}
	d.toCommand.WriteString("\n")
	d.ends()
	d.quietly()
}

// It waits until it may start, and for nothing when the command has ended by then.
func TestBesideAfter(t *testing.T) {
	for _, may := range []bool{true, false} {
		after := make(chan struct{})
		d := besides(t, `echo ready; read l; exit 3`, `echo started; read l`, func(o *Options) { o.Beside.After = after })
		d.command.line(t)
		if may {
			close(after)
			if line := d.started(); line != "started" {
				t.Errorf("it says %q", line)
			}
		}
		d.toCommand.WriteString("\n")
		if r := d.ends(); r.Class != Finished || r.Exit.Code != 3 {
			t.Errorf("%+v", r)
		}
		if ran := d.log.count("a hook runs") > 0; ran != may {
			t.Errorf("may it start: %v; it has: %v", may, ran)
		}
		d.quietly()
	}
}

func TestBesideThatCannotStart(t *testing.T) {
	d := besides(t, `read l; exit 3`, ``, func(o *Options) { o.Beside.Command.Path = "/no/such/thing" })
	d.fails("fork/exec /no/such/thing: no such file or directory")
	d.toCommand.WriteString("\n")
	if r := d.ends(); r.Class != Finished || r.Exit.Code != 3 {
		t.Errorf("%+v", r)
	}
}

// Where flockd is killed the guard reaches both.
func TestBesideDiesWithUs(t *testing.T) {
	s := sh(t, "")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RUNNER_TEST_LEGACY="+t.TempDir()+"/record", "RUNNER_TEST_BESIDE="+stubborn)
	stdin, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	cmd.Stdin, cmd.Stdout, cmd.SysProcAttr = stdin, s.out, &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stdin.Close()
	s.out.Close()
	for range 3 {
		s.line(t)
	}
	cmd.Process.Kill()
	cmd.Wait()
	s.silent(t)
	until(t, "the guard's end", func() bool { return len(guardsOf(t, "to be killed")) == 0 })
}

// What belongs to no hold outlives it, and is killed at its limit.
func TestBesideBesideAside(t *testing.T) {
	s := sh(t, `echo $$; read l; exit 4`)
	stdin := s.blocked(t)
	ended := make(chan error, 1)
	go func() { ended <- RunAside(s.Command, s.Env, time.Hour) }()
	pid, _ := strconv.Atoi(s.line(t))
	if group, err := syscall.Getpgid(pid); err != nil || group != pid {
		t.Errorf("its group is %d, %v", group, err)
	}
	d := besides(t, `trap '' TERM; echo ready; while :; do read l; done`, stubborn, func(o *Options) { o.Grace = 0 })
	d.command.line(t)
	d.started()
	d.stop()
	if r := d.ends(); r.Exit.Signal != syscall.SIGKILL {
		t.Errorf("%+v", r)
	}
	stdin.WriteString("\n")
	if err := <-ended; err == nil || err.Error() != "exited with 4" {
		t.Errorf("its end: %v", err)
	}
}

// What was started aside is killed at its limit, and waited for until then, with all that it has
// started.
func TestAside(t *testing.T) {
	for _, script := range []string{
		`exec 3<&0; sh -c 'read l' <&3 & read l`,
		`exec 3<&0; (setsid env -i sh -c 'read l' <&3 &); read l`,
		`exec 3<&0; sh -c 'read l' <&3 &`,
		`exec 3<&0; (setsid env -i sh -c 'read l' <&3 &)`,
		`exec 3<&0; (setsid env -i sh -c 'read l' <&3 &) & exit 5`,
	} {
		s := sh(t, script)
		s.blocked(t)
		err := RunAside(s.Command, s.Env, 100*time.Millisecond)
		s.out.Close()
		if err == nil || s.lives() {
			t.Errorf("%s: its end: %v", script, err)
		}
	}
	s := sh(t, `exec 3<&0; sh -c 'read l; echo end' <&3 &`) // it is waited for
	stdin := s.blocked(t)
	stdin.WriteString("\n")
	if err := RunAside(s.Command, s.Env, time.Hour); err != nil {
		t.Error(err)
	}
	s.out.Close()
	if line := s.line(t); line != "end" {
		t.Errorf("what it left says %q", line)
	}
	if err := RunAside(Command{Path: "/no/such/thing", Args: []string{"x"}}, nil, time.Hour); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
