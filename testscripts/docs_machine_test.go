//go:build linux

package testscripts

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flockd/backends/backendtest/servers"
)

// machine is a host of its own, as a sysadmin has one: systemd as process 1, with
// namespaces, a network, a cgroup hierarchy and a root file system for itself. Of the
// host it has /usr, to read; its end takes all of its processes along.
type machine struct {
	*testing.T
	init *exec.Cmd
	over chan struct{} // closed once it has ended
}

// boot starts a machine, which has the program in /usr/local/bin, and the user report.
// What its services print goes to /var/log/NAME.
func boot(t *testing.T) *machine {
	t.Helper()
	cgroup := newCgroup(t)
	defer cgroup.Close()
	said, err := os.Create(filepath.Join(t.TempDir(), "said"))
	must(t, err)
	defer said.Close()
	m := &machine{T: t, init: exec.Command("machine", t.TempDir(), filepath.Join(bin, "flockd")), over: make(chan struct{})}
	m.init.Stdout, m.init.Stderr = said, said
	m.init.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET,
		Setsid:     true, UseCgroupFD: true, CgroupFD: int(cgroup.Fd()),
	}
	if err := servers.StartToDieWithUs(m.init); err != nil {
		t.Fatalf("start a machine: %v", err)
	}
	go func() {
		m.init.Wait()
		close(m.over)
	}()
	t.Cleanup(func() {
		m.init.Process.Kill()
		<-m.over
	})
	until(t, "the machine has booted", func() bool {
		select {
		case <-m.over:
			t.Fatalf("the machine's init said:\n%s", output{said})
		default:
		}
		out, _ := m.try("systemctl", "is-system-running")
		return out == "running\n"
	})
	return m
}

// newCgroup makes a cgroup for a machine, which goes with the test.
func newCgroup(t *testing.T) *os.File {
	name := fmt.Sprintf("machine-%d-%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-"))
	path := filepath.Join(ownCgroup(), name)
	must(t, os.Mkdir(path, 0o755))
	t.Cleanup(func() { removeCgroups(path) })
	dir, err := os.Open(path)
	must(t, err)
	return dir
}

// removeCgroups removes a folder of cgroups that nobody is in any more.
func removeCgroups(dir string) {
	inner, _ := filepath.Glob(filepath.Join(dir, "*/cgroup.procs"))
	for _, file := range inner {
		removeCgroups(filepath.Dir(file))
	}
	os.Remove(dir)
}

// path is a file of the machine, as seen from here.
func (m *machine) path(name string) string {
	return fmt.Sprintf("/proc/%d/root%s", m.init.Process.Pid, name)
}

// write makes a file of the machine, and its folder.
func (m *machine) write(name string, mode os.FileMode, text string) {
	m.Helper()
	if err := os.MkdirAll(m.path(filepath.Dir(name)), 0o755); err != nil {
		m.Fatal(err)
	}
	if err := os.WriteFile(m.path(name), []byte(text), mode); err != nil {
		m.Fatal(err)
	}
	if err := os.Chmod(m.path(name), mode); err != nil {
		m.Fatal(err)
	}
}

// text is what a file of the machine holds, nothing if there is none.
func (m *machine) text(name string) string {
	text, _ := os.ReadFile(m.path(name))
	return string(text)
}

// await waits until a file of the machine has a text.
func (m *machine) await(name, text string) {
	m.Helper()
	until(m, name+" has "+text, func() bool { return strings.Contains(m.text(name), text) })
}

// lacks wants a file of the machine without a text.
func (m *machine) lacks(name, text string) {
	m.Helper()
	if strings.Contains(m.text(name), text) {
		m.Errorf("%s has %q:\n%s", name, text, m.text(name))
	}
}

// try runs a command of the machine's root to its end.
func (m *machine) try(name string, args ...string) (string, int) {
	m.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	enter := []string{"-t", strconv.Itoa(m.init.Process.Pid), "-m", "-u", "-i", "-n", "-p", "-C", "--", "env", "-i",
		"HOME=/root", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin", name}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	status, ok := exitStatus(err)
	if !ok {
		m.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out), status
}

// sh runs lines of shell as the machine's root, which must succeed.
func (m *machine) sh(lines string) string {
	m.Helper()
	out, status := m.try("sh", "-ec", lines)
	if status != 0 {
		m.Fatalf("%s: status %d\n%s", lines, status, out)
	}
	return out
}

// property is one of a unit's.
func (m *machine) property(unit, name string) string {
	m.Helper()
	return strings.TrimSpace(m.sh("systemctl show -P " + name + " " + unit))
}

// has waits until a unit's property has a value.
func (m *machine) has(unit, name, value string) {
	m.Helper()
	until(m, unit+": "+name+"="+value, func() bool { return m.property(unit, name) == value })
}

// powerOff shuts it down as the button does, and waits until it is off.
func (m *machine) powerOff() {
	m.Helper()
	const startPoweroffTarget = 34 + 4 // SIGRTMIN+4, to the system's manager
	if err := m.init.Process.Signal(syscall.Signal(startPoweroffTarget)); err != nil {
		m.Fatal(err)
	}
	select {
	case <-m.over:
	case <-time.After(patience):
		m.Fatal("the machine isn't off")
	}
}

// redis starts a Redis at redis.example.org, with the password secret.
func (m *machine) redis() {
	m.Helper()
	m.sh("systemd-run -q -u redis redis-server --requirepass secret")
	until(m, "Redis answers", func() bool {
		out, _ := m.try("redis-cli", "ping")
		return strings.Contains(out, "NOAUTH")
	})
}

// script writes a command of the machine.
func (m *machine) script(name, lines string) {
	m.Helper()
	m.write("/usr/local/bin/"+name, 0o755, "#!/bin/sh\n"+lines)
}

// hold takes a key of a store until the machine's end.
func (m *machine) hold(args string) {
	m.Helper()
	m.sh(fmt.Sprintf("flockd run %s -- sh -c 'echo $$ >/tmp/held; exec sleep 1000' >/dev/null 2>&1 &", args))
	m.await("/tmp/held", "\n")
}
