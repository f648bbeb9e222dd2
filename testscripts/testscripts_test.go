//go:build linux

// Package testscripts holds the program to what its users see: the real binary,
// run by scripts. The test binary doubles as the awkward commands that it runs.
package testscripts

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(withProgram{m}, map[string]func(){
		"probe":     probe,
		"locker":    locker,
		"closed":    closed,
		"unread":    unread,
		"awkward":   awkward,
		"nocgroup":  nocgroup,
		"machine":   machineInit,
		"hears":     hears,
		"blocked":   blocked,
		"counts":    counts,
		"sharer":    sharer,
		"bereave":   bereave,
		"elsewhere": elsewhere,
	})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	// As nohup leaves it, an ignored SIGHUP would be inherited by the scripts; a
	// caught one is reset.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	if os.Geteuid() != 0 {
		t.Fatal("these tests mount small file systems and become other users: run them as root, in a container for example")
	}
	testscript.Run(t, testscript.Params{
		Dir:                 ".",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setup,
		Cmds:                commands,
	})
}

// bin is the folder of the program.
var bin string

// withProgram runs the tests with the program as users get it.
type withProgram struct{ *testing.M }

func (m withProgram) Run() int {
	if cgroup2() == "" {
		fatal(errors.New("no cgroup2 file system is mounted"))
	}
	var err error
	bin, err = os.MkdirTemp("", "flockd-test-")
	fatal(err)
	defer os.RemoveAll(bin)
	fatal(os.Chmod(bin, 0o755)) // other users run it too
	cmd := exec.Command("make", "-s", "-C", "..", "build", "FLOCKD="+filepath.Join(bin, "flockd"))
	if out, err := cmd.CombinedOutput(); err != nil {
		fatal(fmt.Errorf("%w\n%s", err, out))
	}
	fatal(flag.Set("test.parallel", "12")) // the tests wait far more than they work
	return m.M.Run()
}

// beside calls all, n at a time. The subtests that they run, unlike parallel ones, don't
// wait for each other test to have its turn before.
func beside(n int, all []func()) {
	var workers sync.WaitGroup
	next := make(chan func())
	for range n {
		workers.Go(func() {
			for f := range next {
				f()
			}
		})
	}
	for _, f := range all {
		next <- f
	}
	close(next)
	workers.Wait()
}

// setup gives each script a store and a home of its own, and nothing of the
// host's configuration.
func setup(env *testscript.Env) error {
	env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
	env.Setenv("FLOCKD", filepath.Join(bin, "flockd")) // where PATH is not to be relied on
	env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
	env.Setenv("XDG_STATE_HOME", "")
	env.Setenv("XDG_CONFIG_HOME", "")
	env.Setenv("FLOCKD_CONFIG", filepath.Join(env.WorkDir, "config.toml"))
	env.Setenv("DB", filepath.Join(env.WorkDir, "flockd.db"))
	env.Setenv("FLOCKD_BACKEND", "sqlite://"+filepath.Join(env.WorkDir, "flockd.db"))
	env.Values[jobsKey{}] = jobs{}
	env.Defer(func() {
		env.Values[jobsKey{}].(jobs).end()
		endIn(env.WorkDir)
	})
	if err := os.WriteFile(filepath.Join(env.WorkDir, "config.toml"), nil, 0o600); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(env.WorkDir, "home"), 0o700); err != nil {
		return err
	}
	return errors.Join(os.Chmod(env.WorkDir, 0o755), os.Chmod(filepath.Dir(env.WorkDir), 0o755))
}

// jobs are the background processes of a script, by name.
type jobs map[string]*exec.Cmd

type jobsKey struct{}

// end kills what a script that failed has left.
func (j jobs) end() {
	for _, cmd := range j {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	}
}

// endIn kills what works in a folder, until nobody does, and removes the cgroups that it
// had: who is killed with its guard leaves one.
func endIn(dir string) {
	var left []string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		pids := processes(func(pid int) bool { return within(pid, dir) })
		if len(pids) == 0 {
			break
		}
		for _, pid := range pids {
			left = append(left, leafOf(pid))
			left = append(left, leaves(pid)...)
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	for _, leaf := range left {
		os.Remove(leaf)
	}
}

// within reports whether a process works in a folder.
func within(pid int, dir string) bool {
	cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	return cwd == dir || strings.HasPrefix(cwd, dir+"/")
}

// fatal ends a helper process. A test would take all others with it, and their clean-up:
// see must.
func fatal(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// must ends a test where something fails that can't be what is tested.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
