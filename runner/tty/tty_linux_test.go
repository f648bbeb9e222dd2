package tty

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// This binary doubles as the leader of a session on a terminal, which plays a scene.
func TestMain(m *testing.M) {
	if name := os.Getenv("TTY_TEST_SCENE"); name != "" {
		signal.Ignore(syscall.SIGTTOU)
		scenes()[name].play(&scene{in: bufio.NewScanner(os.NewFile(3, "in"))})
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// scene is a session; what it prints is what the test compares.
type scene struct{ in *bufio.Scanner }

func (s *scene) say(format string, args ...any) {
	fmt.Fprintf(os.NewFile(4, "out"), format+"\n", args...)
}

// must ends the scene where something that can't fail does.
func must(err error) {
	if err != nil {
		fmt.Fprintln(os.NewFile(4, "out"), "error:", err)
		os.Exit(1)
	}
}

// raw is what an editor does to the terminal.
func raw(t *Terminal) {
	modes, err := unix.IoctlGetTermios(t.fd, getModes)
	must(err)
	modes.Lflag &^= unix.ICANON | unix.ECHO | unix.ISIG
	must(unix.IoctlSetTermios(t.fd, setModes, modes))
}

func (s *scene) modes(t *Terminal) {
	modes, err := unix.IoctlGetTermios(t.fd, getModes)
	must(err)
	text := "raw"
	if modes.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) == unix.ICANON|unix.ECHO|unix.ISIG {
		text = "cooked"
	}
	s.say("%s, ours %v", text, t.Ours())
}

// other starts a process in a group of its own, which takes the foreground.
func other(t *Terminal) *exec.Cmd {
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	must(cmd.Start())
	must(unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, cmd.Process.Pid))
	return cmd
}

// elsewhere gives the terminal back from another session, as a guard does.
func elsewhere(t *Terminal) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "TTY_TEST_SCENE=guard", fmt.Sprintf("TTY_TEST_STATE=%x", t.Encode()))
	cmd.ExtraFiles = []*os.File{os.NewFile(3, "in"), os.NewFile(4, "out"), os.NewFile(uintptr(t.fd), "tty")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must(cmd.Run())
}

func guard(*scene) {
	var state []byte
	_, err := fmt.Sscanf(os.Getenv("TTY_TEST_STATE"), "%x", &state)
	must(err)
	Decode(state, 5).GiveBack()
}

// scenes are what is played, and what it prints; nothing is for one that is part of another.
func scenes() map[string]struct {
	play func(*scene)
	want []string
} {
	return map[string]struct {
		play func(*scene)
		want []string
	}{
		"given back":              {givenBack, []string{"raw, ours true", "cooked, ours true"}},
		"another's":               {anothers, []string{"raw, ours false"}},
		"a dead group's":          {deadGroups, []string{"cooked, ours true"}},
		"a zombie's":              {zombies, []string{"cooked, ours true"}},
		"begun in the background": {begunInTheBackground, []string{"cooked, ours true"}},
		"by a guard":              {byAGuard, []string{"cooked, ours true"}},
		"another's, by a guard":   {anothersByAGuard, []string{"raw, ours false"}},
		"guard":                   {play: guard},
	}
}

func givenBack(s *scene) {
	t := Open()
	raw(t)
	s.modes(t)
	t.GiveBack()
	s.modes(t)
}

func anothers(s *scene) {
	t := Open()
	raw(t)
	other(t)
	t.GiveBack()
	s.modes(t)
}

func deadGroups(s *scene) {
	t := Open()
	raw(t)
	cmd := other(t)
	must(cmd.Process.Kill())
	cmd.Wait()
	t.GiveBack()
	s.modes(t)
}

func zombies(s *scene) {
	t := Open()
	raw(t)
	cmd := other(t)
	must(cmd.Process.Kill())
	must(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	t.GiveBack()
	s.modes(t)
}

func begunInTheBackground(s *scene) {
	front := Open()
	raw(front) // as a shell's prompt has it
	cmd := other(front)
	t := Open()
	must(cmd.Process.Kill())
	cmd.Wait()
	t.GiveBack()
	s.modes(t)
}

func byAGuard(s *scene) {
	t := Open()
	raw(t)
	elsewhere(t)
	s.modes(t)
}

func anothersByAGuard(s *scene) {
	t := Open()
	raw(t)
	other(t)
	elsewhere(t)
	s.modes(t)
}

func TestScenes(t *testing.T) {
	for name, scene := range scenes() {
		if scene.want == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if got := played(t, name); strings.Join(got, "\n") != strings.Join(scene.want, "\n") {
				t.Errorf("%q, want %q", got, scene.want)
			}
		})
	}
}

// played plays a scene in a session of its own, on a new terminal.
func played(t *testing.T, name string) (lines []string) {
	master, slave := pair(t)
	defer master.Close()
	defer slave.Close()
	out, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "TTY_TEST_SCENE="+name)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.ExtraFiles = []*os.File{null, write}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	timer := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
	defer timer.Stop()
	for s := bufio.NewScanner(out); s.Scan(); {
		lines = append(lines, s.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	return lines
}

// pair opens a pseudo-terminal.
func pair(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
		number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "ptmx"), slave
}

// Without a terminal, or with one that is gone, nothing is done.
func TestNone(t *testing.T) {
	var none *Terminal
	none.GiveBack()
	none.Close()
	if none.Ours() || none.FD() != -1 || none.Encode() != nil {
		t.Error("there is one")
	}
	for _, body := range [][]byte{nil, []byte("x"), make([]byte, 1000)} {
		if Decode(body, 0) != nil {
			t.Errorf("%d bytes are a terminal", len(body))
		}
	}
	master, slave := pair(t)
	master.Close()
	gone := &Terminal{fd: int(slave.Fd())}
	gone.GiveBack()
	if gone.Ours() {
		t.Error("one that is gone is ours")
	}
}
