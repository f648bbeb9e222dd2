//go:build linux

package testscripts

import (
	"os"
	"strings"
	"testing"
)

// candidacy makes a machine one of the importer's hosts, on which other settings come last.
func (m *machine) candidacy(unit, env block, settings ...string) {
	m.Helper()
	m.script("importer", "trap 'echo TERM >>/var/log/heard; exit 0' TERM\ntrap 'echo HUP >>/var/log/heard' HUP\n"+
		"echo up $FLOCKD_TOKEN >>/var/log/up\nwhile :; do sleep 0.02; done\n")
	m.write("/importer.env", 0o600, "FLOCKD_BACKEND="+rootsDB+"\n")
	m.sh("mkdir -p /var/lib/flockd; cd /;" + strings.ReplaceAll(env.text, "nightly-report", "importer"))
	m.install(unit)
	m.sh("systemd-analyze verify " + unit.name)
	if len(settings) > 0 {
		m.write(unit.name+".d/z-test.conf", 0o644, "[Service]\n"+strings.Join(settings, "\n")+"\n")
	}
}

// elect is the importer's line with flags.
func elect(flags string) string {
	return "ExecStart=\nExecStart=/usr/local/bin/flockd elect --key importer " + flags + " -- /usr/local/bin/importer"
}

// shows waits until systemctl status has a text of a unit.
func (m *machine) shows(unit, text string) {
	m.Helper()
	until(m, unit+" shows "+text, func() bool { return strings.Contains(m.property(unit, "StatusText"), text) })
}

// ups is how often the importer has been started.
func (m *machine) ups() int { return strings.Count(m.text("/var/log/up"), "up") }

// unitImporter: it is active in line, can be stopped there, takes over, and resigns.
func unitImporter(m *machine, unit, env block) {
	m.candidacy(unit, env)
	m.hold("-b " + rootsDB + " -k importer")
	m.sh("systemctl daemon-reload; systemctl start importer") // which waits until it is ready
	m.has("importer", "ActiveState", "active")
	m.shows("importer", "campaigning; led by root@")
	m.sh("systemctl reload importer; systemctl stop importer")
	m.has("importer", "Result", "success")
	m.sh("systemctl start importer")
	m.lacks("/var/log/up", "up")
	m.sh("kill $(cat /tmp/held)")
	m.await("/var/log/up", "up")
	m.shows("importer", "leading, term ")
	m.sh("systemctl stop importer")
	m.has("importer", "Result", "success")
	m.has("importer", "ActiveState", "inactive")
	if got := m.text("/var/log/heard"); got != "TERM\n" {
		m.Errorf("the importer has heard %q", got)
	}
	m.sh("flockd run -b " + rootsDB + " -k importer -- true")
}

// unitReload: HUP is the importer's.
func unitReload(m *machine, unit, env block) {
	m.candidacy(unit, env)
	m.runs("importer", "/var/log/up", "up")
	pid := m.property("importer", "MainPID")
	m.sh("systemctl reload importer")
	m.await("/var/log/heard", "HUP")
	m.has("importer", "MainPID", pid)
	m.has("importer", "ActiveState", "active")
}

// unitWatchdog: as long as it does its work the watchdog lets it live; one that is frozen is ended,
// and campaigns anew.
func unitWatchdog(m *machine, unit, env block) {
	m.candidacy(unit, env, "WatchdogSec=8", "RestartSec=10ms", elect("--ttl 6s"))
	m.runs("importer", "/var/log/up", "up")
	first := m.property("importer", "WatchdogTimestampMonotonic")
	until(m, "two signs of life", func() bool { return m.property("importer", "WatchdogTimestampMonotonic") != first })
	m.has("importer", "NRestarts", "0")
	m.sh("kill -STOP $(systemctl show -P MainPID importer)")
	frozen := m.ups()
	m.has("importer", "NRestarts", "1")
	until(m, "another term", func() bool { return m.ups() > frozen })
	m.has("importer", "NRestarts", "1")
}

// unitLeaderDies: with mixed the key stays taken until the lease ends, with control-group it
// is given back.
func unitLeaderDies(m *machine, unit, env block) {
	const kill = "kill -9 $(systemctl show -P MainPID importer)"
	m.candidacy(unit, env, "KillMode=control-group", "RestartSec=10ms", elect("--ttl 1d"))
	m.runs("importer", "/var/log/up", "up")
	m.sh(kill)
	until(m, "a second term", func() bool { return m.ups() == 2 })
	m.sh("systemctl stop importer")
	m.candidacy(unit, env, "Restart=no", elect("--ttl 1d"))
	m.sh("systemctl daemon-reload; systemctl reset-failed; systemctl start importer")
	until(m, "a third term", func() bool { return m.ups() == 3 })
	m.sh("pgrep -f ^flockd-guard -P " + m.property("importer", "MainPID") + " >/var/log/guard; kill -STOP $(cat /var/log/guard); " + kill)
	m.has("importer", "Result", "signal")
	m.dead("guard")
	if out, status := m.try("sh", "-c", "flockd run -b "+rootsDB+" -k importer -- true"); status != 75 {
		m.Errorf("the key: status %d\n%s", status, out)
	}
}

// unitCleanUp: the unit clears away before each start and after each end, also where flockd is
// killed and no on-deposed runs.
func unitCleanUp(m *machine, unit, env, cleanup block) {
	m.script("importer-cleanup", "echo clean >>/var/log/steps\n")
	m.candidacy(unit, env, "KillMode=control-group", "RestartSec=10ms", elect("--ttl 1d --on-deposed 'echo deposed >>/var/log/steps'"))
	m.script("importer", "echo up >>/var/log/steps\necho up >>/var/log/up\nexec sleep 1000\n")
	m.install(cleanup)
	m.sh("systemd-analyze verify " + unit.name)
	m.runs("importer", "/var/log/up", "up")
	m.sh("kill -9 $(systemctl show -P MainPID importer)")
	until(m, "a second term", func() bool { return m.ups() == 2 })
	m.sh("systemctl stop importer")
	if got, want := strings.Fields(m.text("/var/log/steps")), "clean up clean clean up deposed clean"; strings.Join(got, " ") != want {
		m.Errorf("the steps: %v, want %s", got, want)
	}
}

// TestReadmeUnit: the README has the page's unit.
func TestReadmeUnit(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../README.md")
	must(t, err)
	var unit string
	for _, b := range readPage(t, "systemd.md").blocks {
		if b.name == unitDir+"importer.service" {
			_, unit, _ = strings.Cut(b.text, "[Service]\n")
			unit, _, _ = strings.Cut(unit, "\n\n")
		}
	}
	if unit == "" || !strings.Contains(string(text), "    [Service]\n    "+strings.ReplaceAll(unit, "\n", "\n    ")+"\n") {
		t.Errorf("the README has another unit than docs/systemd.md:\n%s", unit)
	}
}
