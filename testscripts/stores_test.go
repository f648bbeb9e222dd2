//go:build linux

package testscripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// onStores runs a test on each store, in a folder of its own and at the same time as on
// the others.
func onStores(t *testing.T, test func(*rig)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		r := newFolder(t)
		r.direct = "sqlite://" + r.dir + "/flockd.db"
		test(r)
	})
	for _, s := range []store{redis, etcd, postgres, mysql} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			test(served(t, s, s.start(t)))
		})
	}
}

// lines is what a file of the rig's has.
func (r *rig) lines(name string) []string {
	text, _ := os.ReadFile(filepath.Join(r.dir, name))
	return strings.Fields(string(text))
}

// script runs a command in the rig's folder to its end. It must say nothing but what a
// shell says of a child that was killed, and what flockd says of a server that takes its
// time on a busy host.
func (r *rig) script(name string, args ...string) {
	r.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "PATH="+r.path, "HOME="+r.dir, "FLOCKD_CONFIG="+os.DevNull)
	out, err := cmd.CombinedOutput()
	said := strings.SplitAfter(string(out), "\n")
	said = slices.DeleteFunc(said, func(line string) bool {
		slow := strings.Contains(line, "asking again") || strings.Contains(line, "trying again")
		return line == "" || line == "Killed\n" || r.server != nil && slow
	})
	if err != nil || len(said) > 0 {
		r.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
