//go:build linux

package testscripts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// cronConfig: with a store that both name, cron's run skips what root's holds.
func cronConfig(m *machine, store, folder, line block) {
	m.script("report.sh", "echo printed\n")
	m.sh(folder.text)
	m.install(store)
	m.install(line)
	m.hold("-b sqlite:///var/lib/locks/flockd.db -k nightly-report")
	m.atOne()
	m.idle()
	m.noMail(ops)
	m.noMail("report")
	if out, status := m.try("flockd", "run", "-b", "sqlite:///var/lib/locks/flockd.db", "-k", "other", "--", "printenv", "FLOCKD_TOKEN"); status != 0 {
		m.Errorf("the store: status %d\n%s", status, out)
	}
}

func cronPercent(m *machine, line block) {
	m.script("export.sh", `echo "$FLOCKD_KEY $1"`+"\n")
	m.install(line)
	m.atOne()
	m.idle()
	m.mails("report", `^export/90% \d{4}-\d\d-\d\d\n$`)
}

func cronStdin(m *machine, line block) {
	m.script("import.sh", "while read -r line; do echo \"[$line]\"; done\n")
	m.install(line)
	m.atOne()
	m.idle()
	m.mails("report", `^\[first line\]\n\[second line\]\n$`)
}

// cronHosts: the other host, whose clock is late, finds the key taken although the
// report has ended; without --min-hold it doesn't.
func cronHosts(m *machine, store, password, line block) {
	m.redis()
	m.script("report.sh", "echo $FLOCKD_BACKEND >/tmp/report\nexit 7\n")
	m.write("/password", 0o600, "secret\n")
	m.sh(password.text)
	m.install(store)
	m.install(line)
	m.atOne()
	m.await("/tmp/report", "redis://redis.example.org")
	m.idle()
	if out, status := m.try("flockd", "run", "-k", "nightly-report", "--", "true"); status != 75 || !strings.Contains(out, "cooling for another ") || !strings.Contains(out, "after report@") {
		m.Errorf("the other host: status %d\n%s", status, out)
	}
	if out, status := m.try("flockd", "break", "nightly-report", "--reason", "enough", "--force", "--yes"); status != 0 || !strings.Contains(out, "is free") {
		m.Errorf("break: status %d\n%s", status, out)
	}
	if out, status := m.try("flockd", "run", "-k", "nightly-report", "--", "true"); status != 0 {
		m.Errorf("after the min-hold: status %d\n%s", status, out)
	}
}

// counting is a job that writes a line for each TERM, and ends with the first.
const counting = `echo $$ >/tmp/job
trap 'echo term >>/var/log/job; exit 0' TERM
echo up >>/var/log/job
while :; do sleep 0.01; done
`

// counts has cron start such a job.
func (m *machine) counts(line block) {
	m.Helper()
	m.sh("touch /var/log/job; chown report /var/log/job")
	m.script("report.sh", counting)
	m.install(line)
	m.atOne()
	m.await("/var/log/job", "up")
}

// cronStop: a job outlives its cron, and gives the key back when it ends.
func cronStop(m *machine, line block) {
	m.counts(line)
	m.sh("systemctl stop cron")
	try := asReport + "flockd run -q -k nightly-report -- true"
	if out, status := m.try("sh", "-c", try); status != 75 {
		m.Errorf("after cron's end: status %d\n%s", status, out)
	}
	m.lacks("/var/log/job", "term")
	m.sh("kill $(cat /tmp/job)")
	until(m, "the key is given back", func() bool {
		_, status := m.try("sh", "-c", try)
		return status == 0
	})
}

// cronPoweroff: at shutdown the job gets TERM, and flockd gives the key back.
func cronPoweroff(m *machine, line block) {
	m.counts(line)
	disk, err := os.Open(m.path("/")) // it outlives the machine
	must(m, err)
	defer disk.Close()
	m.powerOff()
	at := func(name string) string { return fmt.Sprintf("/proc/self/fd/%d%s", disk.Fd(), name) }
	job, err := os.ReadFile(at("/var/log/job"))
	if err != nil || !strings.Contains(string(job), "term") {
		m.Errorf("the job: %q, %v", job, err)
	}
	copied := filepath.Join(m.TempDir(), "flockd.db")
	for _, part := range []string{"", "-wal"} {
		if text, err := os.ReadFile(at(home + part)); err == nil {
			must(m, os.WriteFile(copied+part, text, 0o600))
		}
	}
	db := openDB(copied)
	defer db.Close()
	var claims int
	if err := db.QueryRow("SELECT count(*) FROM claims").Scan(&claims); err != nil || claims != 0 {
		m.Errorf("%d claims are left, %v", claims, err)
	}
}

// cronDaily: run-parts says nothing of a skip.
func cronDaily(m *machine, script block) {
	m.script("report.sh", "echo printed\n")
	m.install(script)
	if out := m.sh("run-parts --report /etc/cron.daily"); out != "/etc/cron.daily/nightly-report:\nprinted\n" {
		m.Errorf("run-parts: %q", out)
	}
	m.hold("-k nightly-report")
	if out := m.sh("run-parts --report /etc/cron.daily"); out != "" {
		m.Errorf("run-parts with the key taken: %q", out)
	}
	script.text = strings.Replace(script.text, " -E 0", "", 1)
	m.install(script)
	if out, status := m.try("run-parts", "--report", "/etc/cron.daily"); status == 0 || !strings.Contains(out, "return code 75") {
		m.Errorf("run-parts without -E 0: %d, %q", status, out)
	}
}
