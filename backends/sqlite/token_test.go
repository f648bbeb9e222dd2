//go:build cgo && linux

package sqlite

import (
	"flockd/backends"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// copyFiles copies the database with its log as a power cut would leave them.
func copyFiles(t testing.TB, from, to string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(from + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTokensGrowOverAPowerCutWithASlowClock(t *testing.T) {
	dir := t.TempDir()
	a := open(t, dir+"/a.db")
	if err := a.raise(t.Context()); err != nil {
		t.Fatal(err)
	}
	copyFiles(t, dir+"/a.db", dir+"/b.db") // all that the disk is sure to have
	var last backends.Token
	for range 3 {
		r := request("k")
		last = acquire(t, a, r).Token
		a.Release(t.Context(), r.Key, r.ID, backends.Outcome{})
	}
	b := open(t, dir+"/b.db")
	b.clock.boot = "another boot"
	b.wall = func() int64 { return 1000 }
	if got := acquire(t, b, request("k")).Token; got <= last {
		t.Errorf("after the power cut token %d, which is not above %d", got, last)
	}
}

func TestTokensGrowUnderAnyWallClock(t *testing.T) {
	s := open(t, t.TempDir()+"/a.db")
	var last backends.Token
	year := int64(365 * 24 * 3600 * 1e6)
	for _, wall := range []int64{50 * year, 0, -1, 51 * year, 400 * year, 52 * year, 20 * year} {
		s.wall = func() int64 { return wall }
		r := request("k")
		got := acquire(t, s, r).Token
		if got <= last || got >= 1<<53 {
			t.Errorf("at %d µs token %d, after %d", wall, got, last)
		}
		last = got
		s.Release(t.Context(), r.Key, r.ID, backends.Outcome{})
	}
}

// A token must not be out before the disk has its ceiling: the commit that raises
// it is the only one that waits for the disk.
func TestCeilingIsRaisedBeforeATokenIsOut(t *testing.T) {
	s := open(t, t.TempDir()+"/a.db")
	for i := range 3 {
		s.wall = func() int64 { return int64(i) * 2 * reserve }
		r := request("k")
		token := acquire(t, s, r).Token
		var ceiling backends.Token
		if err := s.db.QueryRow(`SELECT ceiling FROM tokens`).Scan(&ceiling); err != nil {
			t.Fatal(err)
		}
		if token > ceiling {
			t.Errorf("token %d is out, the ceiling is %d", token, ceiling)
		}
		s.Release(t.Context(), r.Key, r.ID, backends.Outcome{})
	}
}

func TestAnotherBootEndsEveryHold(t *testing.T) {
	path := t.TempDir() + "/a.db"
	before, after := open(t, path), open(t, path)
	old := acquire(t, before, request("k"))
	after.clock.boot = "another boot"
	lease := acquire(t, after, request("k"))
	if lease.Token <= old.Token {
		t.Errorf("token %d after %d", lease.Token, old.Token)
	}
}

// TestClockInATimeNamespace sees a real one: its clock is shifted, what is read
// from it is the host's.
func TestClockInATimeNamespace(t *testing.T) {
	if os.Getenv("FLOCKD_TEST_CLOCK") != "" {
		c, err := readClock()
		fmt.Printf("%s %d %d %v\n", c.boot, c.offset, c.now(), err)
		os.Exit(0)
	}
	here, err := readClock()
	if err != nil {
		t.Fatal(err)
	}
	const shift = 86400
	before := here.now()
	cmd := exec.Command("unshare", "--time", "--fork", "--monotonic", fmt.Sprint(shift), os.Args[0], "-test.run=^TestClockInATimeNamespace$")
	cmd.Env = append(os.Environ(), "FLOCKD_TEST_CLOCK=1")
	out, err := cmd.CombinedOutput()
	var boot string
	var offset, now int64
	if _, scanErr := fmt.Sscan(string(out), &boot, &offset, &now); err != nil || scanErr != nil {
		t.Fatalf("%v %v: %s", err, scanErr, out)
	}
	if boot != here.boot || offset != shift*1e9 || now < before || now > here.now() {
		t.Errorf("in the namespace %s %d %d, here %+v %d", boot, offset, now, here, here.now())
	}
}

// What nobody has used for long is dropped, and the tokens grow all the same.
func TestOldRunsAreForgotten(t *testing.T) {
	s := open(t, t.TempDir()+"/a.db")
	r := request("k")
	old := acquire(t, s, r).Token
	if err := s.Release(t.Context(), "k", r.ID, backends.Outcome{Class: "finished"}); err != nil {
		t.Fatal(err)
	}
	later := s.wall() + (forgetRuns + time.Hour).Microseconds()
	s.wall = func() int64 { return later }
	if token := acquire(t, s, request("other")).Token; token <= old {
		t.Errorf("token %d after %d", token, old)
	}
	if status, err := s.Inspect(t.Context(), "k"); err != nil || status.Last != nil {
		t.Errorf("%+v, %v", status, err)
	}
}
