package servers_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"flockd/backends/backendtest/servers"
)

// TestMain doubles as a test binary that is killed while its server runs.
func TestMain(m *testing.M) {
	os.Setenv("ETCD_CLIENT_DEBUG", "fatal") // or each fault leaves lines in the output
	if os.Getenv(orphans) != "" {
		os.Args = append(os.Args[:1], "-test.run=^TestOrphans$")
	}
	os.Exit(m.Run())
}

const orphans = "FLOCKD_TEST_ORPHANS"

// TestOrphans: servers die with the binary that started them, frozen or not, even if
// that is killed, and so do their children.
func TestOrphans(t *testing.T) {
	if os.Getenv(orphans) != "" {
		frozen, family := servers.Redis(t), servers.Postgres(t)
		frozen.Freeze()
		family.Freeze()
		fmt.Printf("pids %d %d %d\n", servers.Redis(t).PID(), frozen.PID(), child(family.PID()))
		select {} // until it is killed
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), orphans+"=1", "TMPDIR="+folder(t))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids [3]int
	_, err = fmt.Fscanf(out, "pids %d %d %d\n", &pids[0], &pids[1], &pids[2])
	var watched []int
	for _, pid := range pids {
		fd, openErr := unix.PidfdOpen(pid, 0)
		if err != nil || openErr != nil {
			cmd.Process.Kill()
			t.Fatal(err, openErr)
		}
		defer unix.Close(fd)
		watched = append(watched, fd)
	}
	cmd.Process.Kill()
	io.Copy(io.Discard, out)
	cmd.Wait()
	for i, fd := range watched {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(enough.Milliseconds()))
		if n != 1 || err != nil {
			t.Errorf("server %d outlived its test binary (%v)", pids[i], err)
			unix.Kill(pids[i], unix.SIGKILL)
		}
	}
}

// folder is one that any user may enter, and that is removed whoever has left what in it.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// child is the first of a process, 0 if it has none.
func child(pid int) (first int) {
	list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	fmt.Sscan(string(list), &first)
	return first
}

// TestStartKeepsAttributes: the caller's are kept beside the signal, and aren't changed.
func TestStartKeepsAttributes(t *testing.T) {
	t.Parallel()
	session := &syscall.SysProcAttr{Setsid: true}
	cmd := exec.Command("cat")
	cmd.SysProcAttr = session
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := servers.StartToDieWithUs(cmd); err != nil {
		t.Fatal(err)
	}
	if sid, err := unix.Getsid(cmd.Process.Pid); err != nil || sid != cmd.Process.Pid {
		t.Errorf("session %d, %v; want its own, %d", sid, err, cmd.Process.Pid)
	}
	if session.Pdeathsig != 0 || cmd.SysProcAttr.Pdeathsig != syscall.SIGKILL {
		t.Errorf("the caller's attributes are %+v, the command's %+v", session, cmd.SysProcAttr)
	}
	cmd.Process.Kill()
	cmd.Wait()
}
