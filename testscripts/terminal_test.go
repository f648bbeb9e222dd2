//go:build linux

package testscripts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// session is a pseudo-terminal of its own, and who leads it: a shell that somebody
// types at, or what the first line names. Lines and scripts have RUN for how a command
// is run: as it is, or by flockd with the key k.
type session struct {
	*rig
	shell  string // "": none
	run    string
	pty    *os.File
	leader *job
	notes  []string // what must be the same without flockd and with it

	mu     sync.Mutex
	screen []byte // all that was ever printed
	seen   int    // how much of it has been looked at
}

const prompt = "ready> "

// shells are how people start them, but for their own configuration.
var shells = map[string][]string{
	"bash": {"bash", "--norc", "-i"},
	"dash": {"dash", "-i"},
	"zsh":  {"zsh", "-f", "-i", "-o", "no_prompt_sp"}, // a line end that isn't there is none of ours
}

const locked = "flockd run --key k -- "

// everyShell plays a scene under each shell.
func everyShell(t *testing.T, scene func(*session)) {
	as(t, scene, "bash", "dash", "zsh")
}

// as plays a scene under some shells, each time without flockd and with it, and wants
// the same notes.
func as(t *testing.T, scene func(*session), names ...string) {
	t.Helper()
	under(t, names, func(t *testing.T, name string) {
		bare, locked := play(t, scene, name, ""), play(t, scene, name, locked)
		if bare != locked {
			t.Errorf("without flockd:\n%swith it:\n%s", bare, locked)
			return
		}
		t.Logf("both:\n%s", locked)
	})
}

// locks plays a scene that is about flockd alone, with RUN as given.
func locks(t *testing.T, scene func(*session), run string, names ...string) {
	t.Helper()
	under(t, names, func(t *testing.T, name string) { play(t, scene, name, run) })
}

// under calls f for each of some shells, of which there must be one.
func under(t *testing.T, shells []string, f func(t *testing.T, shell string)) {
	t.Helper()
	if len(shells) == 0 {
		t.Fatal("under no shell")
	}
	t.Parallel()
	for _, name := range shells {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, name)
		})
	}
}

// none is a session without a shell.
const none = "none"

func play(t *testing.T, scene func(*session), shell, run string) (notes string) {
	t.Helper()
	s := newSession(t, shell, run)
	scene(s)
	for _, note := range s.notes {
		notes += "\t" + note + "\n"
	}
	return notes
}

func newSession(t *testing.T, shell, run string) *session {
	t.Helper()
	s := &session{rig: embedded(t), shell: shell, run: run}
	s.tool("mkfifo", filepath.Join(s.dir, "go"))
	for name, text := range scripts {
		s.script(name, text)
	}
	if shell != none {
		s.begin(shells[shell])
		s.prompt()
	}
	return s
}

// begin starts the leader of the session.
func (s *session) begin(args []string) {
	s.Helper()
	pty, tty := openTerminal(s)
	defer tty.Close()
	s.pty = pty
	hearAll()
	path, err := exec.LookPath(args[0])
	if args[0] == "flockd" {
		path, err = filepath.Join(bin, "flockd"), nil
	}
	if err != nil {
		s.Fatal(err)
	}
	cmd := exec.Command(path, args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	s.leader = s.lead(cmd)
	go s.watch()
}

// lead starts a command with the store and nothing of the host's configuration.
func (s *session) lead(cmd *exec.Cmd) *job {
	s.Helper()
	j := &job{r: s.rig, cmd: cmd, done: make(chan error, 1)}
	cmd.Dir = s.dir
	cmd.Env = []string{
		"PATH=" + s.path, "HOME=" + s.dir, "FLOCKD_CONFIG=" + os.DevNull, "FLOCKD_BACKEND=" + s.direct,
		"PS1=" + prompt, "TERM=vt100", "LC_ALL=C", "INPUTRC=" + os.DevNull, "HISTFILE=" + os.DevNull, "LESSHISTFILE=-",
	}
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	go func() { j.done <- cmd.Wait() }()
	s.Cleanup(func() {
		if s.Failed() {
			s.describe()
		}
		s.hangUp()
		j.cmd.Process.Kill()
		err := <-j.done
		j.done <- err
	})
	return j
}

// describe logs what is to be seen, and who is there.
func (s *session) describe() {
	s.Logf("%s, RUN is %q; the screen is\n%s", s.shell, s.run, escapes.ReplaceAllString(s.printed(), ""))
	for _, pid := range processes(func(pid int) bool { return within(pid, s.dir) }) {
		group, _ := unix.Getpgid(pid)
		s.Logf("%d in group %d, %c: %s", pid, group, state(pid), argv(pid))
	}
}

// escapes are what moves the cursor and the like.
var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[a-zA-Z]|[\r\x1b]`)

// note keeps what must be the same without flockd.
func (s *session) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

func (s *session) script(name, text string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(s.said(text)), 0o700); err != nil {
		s.Fatal(err)
	}
}

func (s *session) hangUp() {
	if s.pty != nil {
		s.pty.Close()
	}
}
