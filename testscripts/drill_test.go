//go:build linux

package testscripts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"flockd/backends/backendtest/servers"
)

// drill is a flockd drill, in a folder and with a key of its own.
type drill struct {
	*job
	key    string // of the election
	report output
}

// drillReport is what of the report the tests look at.
type drillReport struct {
	Passed      bool
	TTL         float64
	Terms       []drillTerm
	Gap, Change float64
	Stale       struct{ Tried, Refused int } `json:"stale_writes"`
	Followed    *float64                     `json:"followed_after"`
}

type drillTerm struct {
	Token   int64
	EndedBy string `json:"ended_by"`
}

func (r *rig) drill(args ...string) *drill {
	r.Helper()
	must(r, os.MkdirAll(filepath.Join(r.dir, "tmp"), 0o700))
	report, err := os.Create(filepath.Join(r.dir, "report"))
	must(r, err)
	defer report.Close()
	key := filepath.Base(r.dir)
	cmd := exec.Command(filepath.Join(bin, "flockd"), append([]string{"drill", "--json", "--key", key}, args...)...)
	cmd.Env = []string{"TMPDIR=" + filepath.Join(r.dir, "tmp"), "FLOCKD_BACKEND=" + r.direct}
	cmd.Stdout = report
	return &drill{r.launch(cmd), key, output{report}}
}

// all are the processes of a drill, by their command lines: each has its folder or its key.
func (d *drill) all() []int {
	return processes(func(pid int) bool {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return bytes.Contains(line, []byte(d.key))
	})
}

// leavesNothing: no process, no file, and the key is free.
func (d *drill) leavesNothing() {
	d.r.Helper()
	until(d.r, "nobody is left of the drill", func() bool { return len(d.all()) == 0 })
	left, err := os.ReadDir(filepath.Join(d.r.dir, "tmp"))
	must(d.r, err)
	if len(left) > 0 {
		d.r.Errorf("%v is left", left)
	}
	d.r.tool(filepath.Join(bin, "flockd"), "status", "-q", d.key+".drill", "--backend", d.r.direct)
}

// passes holds a drill to its promises.
func (d *drill) passes(fault string) {
	d.r.Helper()
	d.ends(0)
	var v drillReport
	if err := json.Unmarshal([]byte(d.report.String()), &v); err != nil {
		d.r.Fatalf("%v\n%s", err, d.report.String())
	}
	d.r.Logf("%s: gap %vs, %vs from the fault, TTL %vs", fault, v.Gap, v.Change, v.TTL)
	if !v.Passed || len(v.Terms) < 2 || v.Stale.Tried < 2 || v.Stale.Refused != v.Stale.Tried || (v.Followed == nil) != (fault == "kill") {
		d.r.Errorf("%s\n%s", d.report.String(), d.stderr.String())
	}
	if !slices.ContainsFunc(v.Terms, func(t drillTerm) bool { return t.EndedBy == fault }) {
		d.r.Errorf("nobody was ended by %s: %s", fault, d.report.String())
	}
	if said := d.report.String() + d.stderr.String(); strings.Contains(said, ":"+servers.PostgresPassword+"@") {
		d.r.Errorf("a secret is shown:\n%s", said)
	}
	d.leavesNothing()
}

// TestDrill: each fault on the store of this host and on Redis, and a cut on the others.
func TestDrill(t *testing.T) {
	t.Parallel()
	faults := []string{"resign", "kill", "freeze", "cut"}
	t.Run("sqlite", func(t *testing.T) { drillAll(t, func(t *testing.T) *rig { return newFolder(t) }, faults) })
	for s, faults := range map[*store][]string{&redis: faults, &etcd: faults[3:], &postgres: faults[3:], &mysql: faults[3:]} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			server := s.start(t)
			drillAll(t, func(t *testing.T) *rig { return served(t, *s, server) }, faults)
		})
	}
}

// drillAll carries out drills beside each other, each with a key of its own.
func drillAll(t *testing.T, newRig func(*testing.T) *rig, faults []string) {
	for _, fault := range faults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			args := []string{"--ttl", "3s"}
			if r.direct == "" {
				r.direct = "sqlite://" + r.dir + "/flockd.db"
			}
			if fault != "resign" {
				args = append(args, "--"+fault)
			}
			r.drill(args...).passes(fault)
		})
	}
}

// TestDrillEnds: whatever ends a drill in its midst, nobody runs on, and the key is free long
// before a lease would end.
func TestDrillEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault, ttl, by string
		status         int
	}{
		{"freeze", "2m", "INT", 130},
		{"freeze", "2m", "KILL", 137},
		{"cut", "12s", "TERM", 143},
		{"cut", "12s", "KILL", 137},
	} {
		t.Run(c.fault+"/"+c.by, func(t *testing.T) {
			t.Parallel()
			r := newFolder(t)
			r.direct = "sqlite://" + r.dir + "/flockd.db"
			d := r.drill("--ttl", c.ttl, "--verbose", "--"+c.fault)
			until(r, "the fault", func() bool { return d.struck(c.fault) })
			r.signals(d.cmd.Process.Pid, unix.SignalNum("SIG"+c.by))
			d.ends(c.status)
			d.leavesNothing()
			if text := d.report.String(); text != "" {
				t.Errorf("it reports:\n%s", text)
			}
		})
	}
}

// struck reports whether the leader has been disturbed.
func (d *drill) struck(fault string) bool {
	if fault == "cut" {
		return strings.Contains(d.stderr.String(), "renewal failed")
	}
	return slices.ContainsFunc(d.all(), func(pid int) bool { return state(pid) == 'T' })
}

// TestDrillWithoutAContender: one that is killed by somebody else is named.
func TestDrillWithoutAContender(t *testing.T) {
	t.Parallel()
	r := newFolder(t)
	r.direct = "sqlite://" + r.dir + "/flockd.db"
	d := r.drill("--ttl", "2m", "--freeze")
	until(r, "a frozen leader", func() bool { return d.struck("freeze") })
	for _, pid := range d.all() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if bytes.HasPrefix(line, []byte("flockd-drill-contender")) && state(pid) != 'T' {
			r.signals(pid, unix.SIGKILL)
		}
	}
	d.ends(70).says("has come to nothing: contender ")
	d.leavesNothing()
}
