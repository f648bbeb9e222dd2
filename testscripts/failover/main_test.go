//go:build linux

package failover

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"flockd/backends/backendtest/servers"
)

// bin is the folder of the program, and of the command that a leader runs. Its name is in the
// environment of the tests proper.
var bin = os.Getenv(binVariable)

const binVariable = "FLOCKD_FAILOVER_BIN"

// The first thread is none of the hosts', since it is the one by which others know the test.
func init() { runtime.LockOSThread() }

// TestMain is the daemon too, by that name. It makes all that needs the machine's network, and
// then begins anew in a network of its own.
func TestMain(m *testing.M) {
	switch {
	case filepath.Base(os.Args[0]) == "daemon":
		daemon(os.Args[1])
	case bin == "":
		err := prepare()
		if err == nil {
			err = inNetwork()
		}
		os.RemoveAll(bin)
		fatal(err)
	default:
		os.Setenv("PATH", bin+":"+os.Getenv("PATH"))
		flag.Parse()
		flag.Set("test.parallel", "100") // they wait far more than they work
		code := m.Run()
		os.RemoveAll(bin)
		os.Exit(code)
	}
}

// prepare builds the program as users get it.
func prepare() (err error) {
	if err := servers.BuildEtcd(); err != nil {
		return err
	}
	if bin, err = os.MkdirTemp("", "flockd-failover-"); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	out, err := exec.Command("make", "-s", "-C", "../..", "build", "FLOCKD="+filepath.Join(bin, "flockd")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return os.Symlink(self, filepath.Join(bin, "daemon"))
}

// inNetwork has this process start from its beginning, in a network of its own.
func inNetwork() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("a network name space: %w (these tests need root)", err)
	}
	return syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), binVariable+"="+bin))
}

func fatal(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
