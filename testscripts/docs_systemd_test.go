//go:build linux

package testscripts

import (
	"regexp"
	"strings"
	"testing"
)

const (
	unitDir  = "/etc/systemd/system/"
	dropIns  = unitDir + "nightly-report.service.d/"
	rootsDB  = "sqlite:///var/lib/flockd/flockd.db"
	tryIt    = "flockd run -q -b " + rootsDB + " -k nightly-report -- true"
	password = "secret\n"
)

func TestSystemdPage(t *testing.T) {
	t.Parallel()
	p := readPage(t, "systemd.md")
	service, timer, enable := p.take("ini", unitDir+"nightly-report.service"), p.take("ini", unitDir+"nightly-report.timer"), p.take("sh", "")
	export := p.take("ini", unitDir+"export.service")
	user := p.take("ini", dropIns+"user.conf")
	users, shell := p.take("ini", "~/.config/systemd/user/sync.service"), p.take("sh", "")
	credential, secret := p.take("ini", dropIns+"store.conf"), p.take("sh", "")
	variable, env := p.take("ini", dropIns+"store.conf"), p.take("sh", "")
	hold := p.take("ini", dropIns+"hold.conf")
	importer, cleanup := p.take("ini", unitDir+"importer.service"), p.take("ini", unitDir+"importer.service.d/cleanup.conf")
	hardening := p.take("ini", dropIns+"hardening.conf")
	p.done()
	inMachines(t, bootWith(service), map[string]func(*machine){
		"timer":       func(m *machine) { unitTimer(m, timer, enable) },
		"outcomes":    unitOutcomes,
		"restart":     unitRestart,
		"oneshot":     unitOneshot,
		"export":      func(m *machine) { unitExport(m, export) },
		"stop":        unitStop,
		"stop all":    unitStopAll,
		"timeout":     unitTimeout,
		"killed":      unitKilled,
		"max-runtime": unitMaxRuntime,
		"user":        func(m *machine) { unitUser(m, user) },
		"dynamic":     unitDynamic,
		"user units":  func(m *machine) { unitOfUser(m, users, shell) },
		"credential":  func(m *machine) { unitSecret(m, credential, secret) },
		"variable":    func(m *machine) { unitVariable(m, variable, env) },
		"hold":        func(m *machine) { unitHold(m, hold) },
		"importer":    func(m *machine) { unitImporter(m, importer, env) },
		"reload":      func(m *machine) { unitReload(m, importer, env) },
		"watchdog":    func(m *machine) { unitWatchdog(m, importer, env) },
		"leader dies": func(m *machine) { unitLeaderDies(m, importer, env) },
		"clean-up":    func(m *machine) { unitCleanUp(m, importer, env, cleanup) },
		"notify":      unitNotify,
		"hardening":   func(m *machine) { unitHardening(m, user, hardening) },
		"restricted":  func(m *machine) { unitRestricted(m, user) },
		"SIGPIPE":     unitSIGPIPE,
	})
}

// bootWith boots a machine with the service, and the alert that it names.
func bootWith(service block) func(*testing.T) *machine {
	return func(t *testing.T) *machine {
		m := boot(t)
		m.script("report.sh", "cat /proc/self/cgroup >/var/log/report\necho \"$STATE_DIRECTORY\" >>/var/log/report\n")
		m.write(unitDir+"alert@.service", 0o644, "[Service]\nType=oneshot\nExecStart=/usr/bin/touch /var/log/alert-%i\n")
		m.install(service)
		return m
	}
}

// override adds lines to the service.
func (m *machine) override(lines ...string) {
	m.Helper()
	m.write(dropIns+"z-test.conf", 0o644, "[Service]\n"+strings.Join(lines, "\n")+"\n")
}

// starts starts the service, which must come to an end with a result.
func (m *machine) starts(unit, result string) {
	m.Helper()
	m.sh("systemctl daemon-reload; systemctl reset-failed")
	m.try("systemctl", "start", unit)
	until(m, unit+" has ended", func() bool {
		state := m.property(unit, "ActiveState")
		return state == "inactive" || state == "failed"
	})
	if got := m.property(unit, "Result"); got != result {
		m.Errorf("%s: result %s, want %s; it said:\n%s", unit, got, result, m.text("/var/log/"+unit))
	}
}

// runs starts the service, and waits for a text in a file.
func (m *machine) runs(unit, file, text string) {
	m.Helper()
	m.sh("systemctl daemon-reload; systemctl start --no-block " + unit)
	m.await(file, text)
}

// tries wants a status of another flockd that asks for the key.
func (m *machine) tries(status int) {
	m.Helper()
	if out, got := m.try("sh", "-c", tryIt); got != status {
		m.Errorf("another run: status %d, want %d\n%s", got, status, out)
	}
}

// matches wants a file of the machine that matches a pattern.
func (m *machine) matches(file, pattern string) {
	m.Helper()
	if !regexp.MustCompile("(?m)" + pattern).MatchString(m.text(file)) {
		m.Errorf("%s doesn't match %q:\n%s", file, pattern, m.text(file))
	}
}

// unitTimer: systemd has nothing to say against the units, and the timer runs them.
func unitTimer(m *machine, timer, enable block) {
	m.install(timer)
	m.write(unitDir+"nightly-report.timer.d/often.conf", 0o644, "[Timer]\nOnCalendar=\nOnCalendar=*:*:*\n")
	m.script("report.sh", "echo $FLOCKD_TOKEN >>/var/log/report\n")
	if out := m.sh(enable.text); strings.Contains(strings.ToLower(out), "nightly-report.service:") {
		m.Errorf("systemd-analyze: %s", out)
	}
	until(m, "the timer runs it twice", func() bool { return strings.Count(m.text("/var/log/report"), "\n") >= 2 })
	if out := m.sh("systemctl is-enabled nightly-report.timer; systemd-analyze verify " + timer.name); out != "enabled\n" {
		m.Errorf("the timer: %s", out)
	}
}

// unitOutcomes: a skip is none of OnFailure's, everything else is.
func unitOutcomes(m *machine) {
	const alert = "/var/log/alert-nightly-report.service"
	m.starts("nightly-report", "success")
	m.matches("/var/log/report", "^0::/system.slice/nightly-report.service/flockd-")
	m.matches("/var/log/report", "^/var/lib/flockd$")
	m.sh("stat -c %a /var/lib/flockd | grep -x 700")
	m.hold("-b " + rootsDB + " -k nightly-report")
	m.starts("nightly-report", "success")
	m.matches("/var/log/nightly-report", "^flockd: skipped nightly-report: held by root@")
	if _, status := m.try("test", "-e", alert); status == 0 {
		m.Error("an alert of a skip")
	}
	for flags, status := range map[string]string{
		"-b redis://127.0.0.1:1 -k other -- true": "69", "-k other -- sh -c 'exit 3'": "3", "-k other --nonsense -- true": "64",
	} {
		m.override("ExecStart=", "ExecStart=/usr/local/bin/flockd run "+flags)
		m.starts("nightly-report", "exit-code")
		if got := m.property("nightly-report", "ExecMainStatus"); got != status {
			m.Errorf("%s: status %s, want %s", flags, got, status)
		}
		until(m, "an alert", func() bool { _, status := m.try("rm", alert); return status == 0 })
	}
}

// unitRestart: Restart=on-failure leaves a skip alone, and not a loss.
func unitRestart(m *machine) {
	m.redis()
	m.override("Restart=on-failure", "RestartSec=10ms")
	m.hold("-b " + rootsDB + " -k nightly-report")
	m.starts("nightly-report", "success")
	if got := m.property("nightly-report", "NRestarts"); got != "0" {
		m.Errorf("%s restarts after a skip", got)
	}
	m.override("Restart=on-failure", "RestartSec=10ms", "Environment=FLOCKD_BACKEND=redis://:secret@redis.example.org",
		"ExecStart=", "ExecStart=/usr/local/bin/flockd run -k nightly-report --ttl 12s -- /usr/local/bin/report.sh")
	m.script("report.sh", "echo up $FLOCKD_TOKEN >>/var/log/report\nexec sleep 1000\n")
	m.runs("nightly-report", "/var/log/report", "up")
	m.sh("redis-cli -a secret flushall 2>&1")
	until(m, "a second run", func() bool { return strings.Count(m.text("/var/log/report"), "up") >= 2 })
	m.matches("/var/log/nightly-report", "lost")
}

// unitOneshot: systemctl start waits, and a stop counts as a failure unless it is
// said that it is none.
func unitOneshot(m *machine) {
	m.override("Type=oneshot")
	m.sh("systemctl daemon-reload; systemctl start nightly-report")
	m.matches("/var/log/report", "flockd")
	m.script("report.sh", "echo up >>/var/log/slow\nexec sleep 1000\n")
	m.runs("nightly-report", "/var/log/slow", "up\n")
	m.sh("systemctl stop nightly-report")
	m.has("nightly-report", "ActiveState", "failed")
	m.override("Type=oneshot", "SuccessExitStatus=75 SIGTERM")
	m.runs("nightly-report", "/var/log/slow", "up\nup\n")
	m.sh("systemctl stop nightly-report")
	m.has("nightly-report", "ActiveState", "inactive")
}

func unitExport(m *machine, unit block) {
	m.install(unit)
	m.sh("systemd-analyze verify " + unit.name)
	m.starts("export", "success")
	m.matches("/var/log/export", `^export/90% of \d{4}-\d\d-\d\d$`)
}

// unitHold: the key is held for longer than the report takes.
func unitHold(m *machine, dropIn block) {
	m.install(dropIn)
	m.script("report.sh", "echo $$ >/var/log/report\nexit 7\n")
	m.runs("nightly-report", "/var/log/report", "\n")
	until(m, "the report has ended", func() bool {
		_, status := m.try("sh", "-c", "kill -0 $(cat /var/log/report)")
		return status != 0
	})
	m.tries(75)
	m.sh("kill $(ps -o pid= -C sleep)")
	m.has("nightly-report", "ExecMainStatus", "7")
	m.tries(0)
}
