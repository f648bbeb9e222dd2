package runner

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flockd/backends"
	"flockd/backends/mem"
)

// terminal opens a pseudo-terminal and the name of its other end.
func terminal(t *testing.T) (master *os.File, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	raw, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var number int
	raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// runScript is a program of its own for tests: it runs a script under a lock, and
// exits with its status.
func runScript(script string) int {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGWINCH)
	r := Run(context.Background(), Options{
		Backend: mem.New(), Grace: DefaultGrace, Signals: signals,
		Request: backends.Request{Key: "k", Mode: backends.Exclusive, TTL: 60e9},
		Command: Command{
			Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: os.Environ(),
			Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		},
	})
	if r.Err != nil {
		fmt.Fprintln(os.Stderr, r.Err)
	}
	return r.Exit.Code
}

// What the terminal sends reaches the command once, and so does what somebody
// sends to flockd alone, but for INT, which counts as the terminal's.
func TestSignalsUnderATerminal(t *testing.T) {
	master, slave := terminal(t)
	report, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	report.SetReadDeadline(time.Now().Add(20 * time.Second))
	const script = `
		trap 'echo INT >&3' INT; trap 'echo WINCH >&3' WINCH; trap 'echo TERM >&3; exit 6' TERM
		set -- $(cat /proc/$$/stat)
		[ $5 = $8 ] && [ $5 != $$ ] && echo foreground >&3
		while :; do read line && echo "read $line" >&3; done`
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RUNNER_TEST_SCRIPT="+script)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = slave, slave, slave, []*os.File{write}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	write.Close()
	slave.Close()
	lines := bufio.NewScanner(report)
	for _, step := range []struct {
		do   func() error
		want string
	}{
		{func() error { return nil }, "foreground"},
		{func() error { return typed(master, "\x03") }, "INT"}, // Ctrl-C
		{func() error { return typed(master, "a\n") }, "read a"},
		{func() error { return resized(master) }, "WINCH"},
		{func() error { return typed(master, "b\n") }, "read b"},
		{func() error { return cmd.Process.Signal(syscall.SIGINT) }, ""},
		{func() error { return typed(master, "c\n") }, "read c"},
		{func() error { return cmd.Process.Signal(syscall.SIGTERM) }, "TERM"},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if step.want == "" {
			continue
		}
		if !lines.Scan() {
			t.Fatalf("waiting for %s: %v", step.want, lines.Err())
		}
		if got := lines.Text(); got != step.want {
			t.Errorf("got %q, want %q", got, step.want)
		}
	}
	cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 6 {
		t.Errorf("exit %d", got)
	}
}

func typed(master *os.File, text string) error {
	_, err := master.WriteString(text)
	return err
}

func resized(master *os.File) error {
	raw, err := master.SyscallConn()
	if err != nil {
		return err
	}
	raw.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 77})
	})
	return err
}

func TestMain(m *testing.M) {
	if os.Getenv("RUNNER_TEST_NOCGROUP") != "" {
		fmt.Println(withoutCgroups())
		os.Exit(1)
	}
	if script := os.Getenv("RUNNER_TEST_SCRIPT"); script != "" {
		os.Exit(runScript(script))
	}
	if terms := os.Getenv("RUNNER_TEST_TERMS"); terms != "" {
		if err := runTerms(terms); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
