//go:build linux

package testscripts

import "path/filepath"

// terms is a job that counts the TERMs that it gets.
func (m *machine) terms() {
	m.Helper()
	m.script("report.sh", `trap 'echo term >>/var/log/job; n=5' TERM
n=1000
echo up >>/var/log/job
while [ $((n -= 1)) -gt 0 ]; do sleep 0.02; done
exit 0
`)
}

// unitStop: the command gets one TERM, what it leaves behind is killed, and the key
// is given back.
func unitStop(m *machine) {
	m.terms()
	m.override("ExecStart=", "ExecStart=/usr/local/bin/flockd run --key nightly-report --leftovers leave -c 'setsid sleep 1000 & exec /usr/local/bin/report.sh'")
	m.runs("nightly-report", "/var/log/job", "up")
	m.tries(75)
	m.sh("systemctl stop nightly-report")
	if got := m.text("/var/log/job"); got != "up\nterm\n" {
		m.Errorf("the job: %q", got)
	}
	m.has("nightly-report", "Result", "success")
	m.tries(0)
	if left, _ := filepath.Glob(m.path("/sys/fs/cgroup/system.slice/nightly-report.service/*")); left != nil {
		m.Errorf("left: %q", left)
	}
}

// unitStopAll: with control-group both of them send it. Two that come together are one.
func unitStopAll(m *machine) {
	m.terms()
	m.override("KillMode=control-group")
	m.runs("nightly-report", "/var/log/job", "up")
	m.sh("systemctl stop nightly-report")
	if got := m.text("/var/log/job"); got != "up\nterm\n" && got != "up\nterm\nterm\n" {
		m.Errorf("the job: %q", got)
	}
	m.has("nightly-report", "Result", "success")
	m.tries(0)
}

// deaf is a job that TERM doesn't end.
const deaf = "trap '' TERM\necho $$ >/var/log/job\nwhile :; do sleep 0.02; done\n"

// unitTimeout: what outlives the stop is killed, flockd and its guard with it.
func unitTimeout(m *machine) {
	m.override("TimeoutStopSec=200ms")
	m.leavesTaken("timeout", "systemctl stop nightly-report")
}

// leavesTaken wants a deaf job dead, its guard too, and its key taken, by an end of the
// unit. The guard is stopped before: it may be quicker than systemd otherwise.
func (m *machine) leavesTaken(result, end string) {
	m.Helper()
	m.script("report.sh", deaf)
	m.sh("rm -f /var/log/job; systemctl reset-failed")
	m.runs("nightly-report", "/var/log/job", "\n")
	m.sh("pgrep -f ^flockd-guard -P " + m.property("nightly-report", "MainPID") + " >/var/log/guard; kill -STOP $(cat /var/log/guard)")
	m.sh(end)
	m.has("nightly-report", "Result", result)
	m.dead("job")
	m.dead("guard")
	m.tries(75)
}

// dead wants the process gone whose number is in a log.
func (m *machine) dead(log string) {
	m.Helper()
	until(m, "the "+log+" is dead", func() bool {
		_, status := m.try("sh", "-c", "kill -0 $(cat /var/log/"+log+")")
		return status != 0
	})
}

const killMain = "kill -9 $(systemctl show -P MainPID nightly-report)"

// unitKilled: with mixed systemd takes flockd's guard along, with control-group it
// gives the key back.
func unitKilled(m *machine) {
	m.script("report.sh", deaf)
	m.override("KillMode=control-group")
	m.runs("nightly-report", "/var/log/job", "\n")
	m.sh(killMain)
	m.has("nightly-report", "Result", "signal")
	m.dead("job")
	until(m, "the key is given back", func() bool {
		_, status := m.try("sh", "-c", tryIt)
		return status == 0
	})

	m.override("KillMode=mixed")
	m.leavesTaken("signal", killMain)
}

// unitMaxRuntime: flockd's limit has a code of its own, systemd's is a timeout, and
// both give the key back.
func unitMaxRuntime(m *machine) {
	m.script("report.sh", "exec sleep 1000\n")
	m.override("RuntimeMaxSec=500ms")
	m.starts("nightly-report", "timeout")
	m.tries(0)
	m.override("ExecStart=", "ExecStart=/usr/local/bin/flockd run --key nightly-report --max-runtime 500ms -- /usr/local/bin/report.sh")
	m.starts("nightly-report", "exit-code")
	m.has("nightly-report", "ExecMainStatus", "124")
	m.tries(0)
}

// unitNotify: the command may tell systemd that it is ready.
func unitNotify(m *machine) {
	m.script("report.sh", "systemd-notify --ready\nexec sleep 1000\n")
	m.override("Type=notify", "NotifyAccess=all", "TimeoutStartSec=infinity",
		"ExecStart=", "ExecStart=/usr/local/bin/flockd run -k nightly-report --wait forever -- /usr/local/bin/report.sh")
	m.hold("-b " + rootsDB + " -k nightly-report")
	m.runs("nightly-report", "/var/log/nightly-report", "waiting for")
	m.has("nightly-report", "ActiveState", "activating")
	m.sh("kill $(cat /tmp/held)")
	m.has("nightly-report", "ActiveState", "active")
}

// unitSIGPIPE: flockd's own is ignored, its command's isn't.
func unitSIGPIPE(m *machine) {
	m.script("report.sh", "grep SigIgn /proc/self/status >/var/log/with\n")
	m.write(unitDir+"without.service", 0o644, "[Service]\nType=oneshot\nExecStart=/usr/bin/grep SigIgn /proc/self/status\n")
	m.starts("without", "success")
	m.starts("nightly-report", "success")
	m.matches("/var/log/without", "^SigIgn:\t00000000[08]0001000$")
	m.matches("/var/log/with", "^SigIgn:\t00000000[08]0000000$")
}
