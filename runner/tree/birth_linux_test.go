package tree

import (
	"bufio"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stopUnborn is a child that a terminal has stopped before it was another program.
func stopUnborn() error {
	unix.Kill(unix.Getpid(), unix.SIGSTOP)
	return nil
}

// A start that waits for a child which was stopped comes to an end, and says so.
func TestStoppedAtBirth(t *testing.T) {
	for stop, role := range map[bool]string{true: "unborn", false: "born"} {
		family := newFamily(false)
		pid, stopped, err := family.start(0, func() (int, error) { return untilItSpeaks(t, role) })
		if err != nil {
			t.Fatal(err)
		}
		unix.Wait4(pid, nil, 0, nil)
		if stopped != stop {
			t.Errorf("%s: stopped %v", role, stopped)
		}
	}
}

// untilItSpeaks starts this program again, as a fork has its parent's name, and waits for its
// first word.
func untilItSpeaks(t *testing.T, role string) (pid int, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer read.Close()
	defer write.Close()
	read.SetReadDeadline(time.Now().Add(patience))
	args, env := []string{os.Args[0]}, append(os.Environ(), roleVariable+"="+role)
	p, err := os.StartProcess(os.Args[0], args, &os.ProcAttr{Env: env, Files: []*os.File{nil, write, write}})
	if err != nil {
		return 0, err
	}
	if _, err := bufio.NewReader(read).ReadByte(); err != nil {
		t.Errorf("%s: it says nothing: %v", role, err)
		p.Kill()
	}
	return p.Pid, nil
}
