//go:build linux

package testscripts

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flockd/backends/backendtest/servers"
)

// bootCron boots a machine whose cron has not been started. What it mails goes to
// /var/mail/ADDRESS.
func bootCron(t *testing.T) *machine {
	m := boot(t)
	m.write("/usr/sbin/sendmail", 0o755, "#!/bin/sh\nfor to; do :; done\ncat >>/var/mail/$to\n")
	m.write("/etc/cron.d/tick", 0o644, "0 1 * * * root echo tick >/tmp/tick\n")
	return m
}

// atOne starts Debian's cron, by whose clock it is just before one in the morning,
// and comes back when the jobs of that minute have been started.
func (m *machine) atOne() {
	m.Helper()
	clock := servers.Clock(m.T)
	var preload, offset string
	for _, setting := range clock.Env {
		name, path, _ := strings.Cut(setting, "=")
		if name == "LD_PRELOAD" {
			preload = path
		} else {
			offset = path
		}
	}
	m.copy(preload, "/usr/local/lib/clock.so")
	m.write("/etc/systemd/system/cron.service.d/clock.conf", 0o644,
		"[Service]\nEnvironment=LD_PRELOAD=/usr/local/lib/clock.so FLOCKD_TEST_CLOCK=/usr/local/lib/clock\n")
	m.sh("systemctl daemon-reload")
	one := nextOne(time.Now().UTC())
	var step time.Duration
	// On a busy machine cron may start when one has passed.
	for time.Until(one.Add(-step)) <= 0 || step == 0 {
		to := time.Until(one) - 2*time.Second
		clock.Step(to - step)
		step = to
		m.copy(offset, "/usr/local/lib/clock")
		m.sh("systemctl restart cron")
		until(m, "cron sleeps", m.cronSleeps)
	}
	m.await("/tmp/tick", "tick")
	until(m, "cron sleeps", m.cronSleeps)
}

func nextOne(now time.Time) time.Time {
	one := time.Date(now.Year(), now.Month(), now.Day(), 1, 0, 0, 0, time.UTC)
	for one.Sub(now) < time.Minute {
		one = one.Add(24 * time.Hour)
	}
	return one
}

func (m *machine) copy(from, to string) {
	m.Helper()
	text, err := os.ReadFile(from)
	must(m, err)
	m.write(to, 0o755, string(text))
}

// cronSleeps tells whether cron waits for its next minute.
func (m *machine) cronSleeps() bool {
	pid := m.property("cron", "MainPID")
	text := strings.Fields(m.text("/proc/" + pid + "/syscall"))
	return len(text) > 0 && (text[0] == strconv.Itoa(unix.SYS_CLOCK_NANOSLEEP) || text[0] == strconv.Itoa(unix.SYS_NANOSLEEP))
}

// idle waits until no job of cron is left.
func (m *machine) idle() {
	m.Helper()
	until(m, "cron's jobs have ended", func() bool {
		dir := m.path("/sys/fs/cgroup/system.slice/cron.service")
		procs, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		leaves, _ := filepath.Glob(filepath.Join(dir, "*/cgroup.procs"))
		return strings.Count(string(procs), "\n") == 1 && len(leaves) == 0
	})
}

// mailed is the text of a mail to an address, without its header, or nothing.
func (m *machine) mailed(to string) string {
	_, body, _ := strings.Cut(m.text("/var/mail/"+to), "\n\n")
	return body
}

// mails wants a mail with a text.
func (m *machine) mails(to, pattern string) {
	m.Helper()
	if !regexp.MustCompile(pattern).MatchString(m.mailed(to)) {
		m.Errorf("the mail to %s doesn't match %q:\n%s", to, pattern, m.mailed(to))
	}
}

// noMail wants none.
func (m *machine) noMail(to string) {
	m.Helper()
	if text := m.text("/var/mail/" + to); text != "" {
		m.Errorf("a mail to %s:\n%s", to, text)
	}
}
