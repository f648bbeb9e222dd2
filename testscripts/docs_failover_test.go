//go:build linux

package testscripts

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestFailoverPage(t *testing.T) {
	t.Parallel()
	p := readPage(t, "failover.md")
	elect, leader, write := p.take("sh", ""), p.take("sh", ""), p.take("sh", "./write.sh")
	drills, report := p.take("sh", ""), p.take("text", "")
	address, moves := p.take("sh", "./address.sh"), p.take("sh", "")
	p.done()
	tests := map[string]func(*rig){
		"elect":   func(r *rig) { failoverElect(r, elect, leader) },
		"write":   func(r *rig) { failoverWrite(r, write) },
		"address": func(r *rig) { failoverAddress(r, address, moves) },
	}
	for line := range strings.Lines(drills.text) {
		tests[strings.TrimSpace(line)] = func(r *rig) { failoverDrill(r, line, report) }
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newFolder(t))
		})
	}
}

// failoverElect: the one who leads is named, and asked to step down; the next one leads.
func failoverElect(r *rig, elect, asks block) {
	r.writes("daemon", "echo $WRITER $FLOCKD_TOKEN >>terms; exec sleep 1000\n")
	first := r.block(elect, "WRITER=1")
	r.await("terms")
	second := r.block(elect, "WRITER=2")
	until(r, "one in line", func() bool { return strings.Contains(r.looks(), "1 candidate") })
	r.block(asks).ends(0)
	until(r, "another leader", func() bool { return len(r.lines("terms")) > 2 })
	if got := r.lines("terms")[2]; got != "2" {
		r.Errorf("after the first %s leads", got)
	}
	for _, j := range []*job{first, second} {
		must(r.T, syscall.Kill(-j.cmd.Process.Pid, syscall.SIGTERM))
		j.status()
	}
}

// looks is what flockd leader says of the page's key.
func (r *rig) looks() string {
	cmd := exec.Command(filepath.Join(bin, "flockd"), "leader", "--key", "svc", "--backend", "sqlite://"+r.dir+"/flockd.db")
	out, _ := cmd.CombinedOutput() // 1: nobody leads
	return string(out)
}

// failoverDrill: the report of the one with a cut has the lines that the page shows.
func failoverDrill(r *rig, drill string, report block) {
	r.block(block{text: strings.TrimSpace(drill) + " >report\n"}).ends(0)
	if got, want := heads(r.text("report")), heads(report.text); got != want && strings.Contains(drill, "--cut") {
		r.Errorf("the report has the lines %s, the page has %s:\n%s", got, want, r.text("report"))
	}
}

// heads are the first words of lines, but for the names of contenders.
func heads(text string) string {
	var words []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 0 && len(fields[0]) > 1 {
			words = append(words, fields[0])
		}
	}
	return strings.Join(words, " ")
}

// failoverWrite: a term that has ended writes nothing any more.
func failoverWrite(r *rig, write block) {
	r.installs(write)
	r.writes("state.sh", "echo $FLOCKD_TOKEN\n")
	r.start("run", "--backend", "sqlite://"+r.dir+"/flockd.db", "--key", "svc", "--", "./write.sh").ends(0)
	wrote := r.lines("state")
	if len(wrote) != 1 {
		r.Fatalf("it wrote %q", wrote)
	}
	r.block(block{text: "./write.sh"}, "FLOCKD_TOKEN=1").ends(80).says("stale")
	if got := r.lines("state"); !slices.Equal(got, wrote) {
		r.Errorf("term 1 wrote %q, after %q", got, wrote)
	}
}

// failoverAddress: the leader's host has the address, and not what comes before or after.
func failoverAddress(r *rig, address, moves block) {
	r.installs(address)
	r.writes("daemon", "trap 'exit 0' TERM; until ip address show dev eth0 | grep 192.0.2.10; do sleep 0.02; done >had; sleep 1000 & wait\n")
	const network = "ip link add eth0 type veth peer name switch; ip link set eth0 up; ./address.sh take; ./address.sh take\n"
	script := network + moves.text + "ip address show dev eth0 >has\n"
	j := r.launch(unshared(script, "FLOCKD_BACKEND=sqlite://"+r.dir+"/flockd.db"))
	r.await("had")
	must(r.T, syscall.Kill(j.elector(), syscall.SIGTERM))
	j.ends(0)
	if text := strings.Join(r.lines("has"), "\n"); strings.Contains(text, "192.0.2.10") {
		r.Errorf("the host keeps the address:\n%s", text)
	}
}

// unshared runs lines of shell in a network of their own.
func unshared(script string, env ...string) *exec.Cmd {
	cmd := exec.Command("unshare", "--net", "sh", "-ec", script)
	cmd.Env = env
	return cmd
}

// elector is the flockd that the job has started.
func (j *job) elector() (elector int) {
	j.r.Helper()
	until(j.r, "a flockd", func() bool {
		for _, pid := range descendants(j.cmd.Process.Pid) {
			if strings.HasPrefix(argv(pid), "flockd elect ") {
				elector = pid
			}
		}
		return elector != 0
	})
	return elector
}
