//go:build linux

package testscripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestOncePage(t *testing.T) {
	t.Parallel()
	p := readPage(t, "once.md")
	quarter := p.take("cron", "/etc/cron.d/sync")
	migrate, again := p.take("sh", ""), p.take("sh", "")
	deploy, wait, workers := p.take("sh", ""), p.take("sh", ""), p.take("sh", "")
	export, restore, ping := p.take("sh", ""), p.take("sh", ""), p.take("sh", "")
	p.done()
	inMachines(t, bootCron, map[string]func(*machine){
		"quarter": func(m *machine) { onceQuarter(m, quarter) },
	})
	for name, test := range map[string]func(*rig){
		"migrate":   func(r *rig) { onceMigrate(r, migrate, again) },
		"supersede": func(r *rig) { onceDeploy(r, deploy, "superseded by") },
		"wait":      func(r *rig) { onceDeploy(r, wait, "no more than 1 may wait") },
		"workers":   func(r *rig) { onceWorkers(r, workers) },
		"readers":   func(r *rig) { onceReaders(r, export, restore) },
		"ping":      func(r *rig) { oncePing(r, ping) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newFolder(t))
		})
	}
}

// onceQuarter: one run, and whoever comes later in the quarter has nothing to do.
func onceQuarter(m *machine, line block) {
	m.script("sync.sh", "echo ran >>/tmp/ran\n")
	m.sh("touch /tmp/ran; chmod 666 /tmp/ran")
	m.install(line)
	m.atOne()
	m.idle()
	m.await("/tmp/ran", "ran\n")
	again := strings.TrimSpace(line.text[strings.Index(line.text, "/usr/local"):])
	if out, status := m.try("sh", "-c", asReport+again); status != 0 || m.text("/tmp/ran") != "ran\n" {
		m.Errorf("the next one: status %d, ran %q\n%s", status, m.text("/tmp/ran"), out)
	}
}

// writes makes a command of the folder.
func (r *rig) writes(name, lines string) {
	r.Helper()
	must(r.T, os.WriteFile(filepath.Join(r.dir, name), []byte("#!/bin/sh\n"+lines), 0o755))
}

// untilGo says that a command is started, and has it wait for a word.
const untilGo = "echo $FLOCKD_SLOT. >>running; until [ -e go ]; do sleep 0.02; done\n"

// block starts a block of a page.
func (r *rig) block(b block, variables ...string) *job {
	r.Helper()
	cmd := exec.Command("sh", "-c", b.text)
	cmd.Env = append(variables, "FLOCKD_BACKEND=sqlite://"+r.dir+"/flockd.db")
	return r.launch(cmd)
}

func (r *rig) goOn() {
	r.Helper()
	must(r.T, os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o600))
}

func (r *rig) running(n int) {
	r.Helper()
	until(r, "so many run", func() bool { return len(r.lines("running")) == n })
}

func (r *rig) stands(j *job) {
	r.Helper()
	until(r, "waiting", func() bool { return strings.Contains(j.stderr.String(), "waiting for ") })
}

func onceMigrate(r *rig, migrate, again block) {
	r.writes("serve.sh", "echo serves >>serve\n")
	r.writes("migrate.sh", untilGo+"mkdir failed || exit 0; exit 5\n")
	first := r.block(migrate, "RELEASE=v1")
	r.running(1)
	others := []*job{r.block(migrate, "RELEASE=v1"), r.block(migrate, "RELEASE=v1")}
	for _, j := range others {
		r.stands(j)
	}
	r.goOn()
	first.ends(5)
	for _, j := range others {
		j.ends(0)
	}
	r.running(2)
	if n := len(r.lines("serve")); n != 2 {
		r.Errorf("%d serve", n)
	}
	r.block(again, "RELEASE=v1").ends(0)
	r.block(migrate, "RELEASE=v1").ends(0)
	r.running(3)
	r.block(migrate).ends(64)
}

func onceDeploy(r *rig, deploy block, says string) {
	r.writes("deploy.sh", untilGo+"echo $1 >>deployed\n")
	first := r.block(deploy, "RELEASE=v1")
	r.running(1)
	second := r.block(deploy, "RELEASE=v2")
	r.stands(second)
	third := r.block(deploy, "RELEASE=v3")
	winner, loser := third, second
	if strings.Contains(deploy.text, "--max-waiters") {
		winner, loser = second, third
	}
	loser.ends(75).says(says)
	r.goOn()
	first.ends(0)
	winner.ends(0)
	if n := len(r.lines("deployed")); n != 2 {
		r.Errorf("deployed: %q", r.lines("deployed"))
	}
}

func onceWorkers(r *rig, workers block) {
	r.writes("worker.sh", `echo "$2" >>shards; `+untilGo)
	var jobs []*job
	for n := range 5 {
		jobs = append(jobs, r.block(workers))
		if n < 4 {
			r.running(n + 1)
		}
	}
	r.stands(jobs[4])
	if got := strings.Join(r.lines("shards"), " "); got != "0 1 2 3" {
		r.Errorf("shards %q", got)
	}
	r.goOn()
	for _, j := range jobs {
		j.ends(0)
	}
	r.running(5)
}

func onceReaders(r *rig, export, restore block) {
	r.writes("export.sh", untilGo)
	r.writes("restore.sh", "echo restored >>order\n")
	jobs := []*job{r.block(export), r.block(export)}
	r.running(2)
	jobs = append(jobs, r.block(restore))
	r.stands(jobs[2])
	r.writes("export.sh", "echo exported >>order\n")
	jobs = append(jobs, r.block(export))
	r.stands(jobs[3])
	r.goOn()
	for _, j := range jobs {
		j.ends(0)
	}
	if got := strings.Join(r.lines("order"), " "); got != "restored exported" {
		r.Errorf("order: %q", got)
	}
}

func oncePing(r *rig, ping block) {
	r.writes("ping.sh", "echo x >>pinged; exit 1\n")
	r.block(ping).ends(1)
	r.block(ping).ends(75).says("cooling")
	if n := len(r.lines("pinged")); n != 1 {
		r.Errorf("%d pings", n)
	}
}
