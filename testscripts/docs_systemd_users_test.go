//go:build linux

package testscripts

import "strings"

// unitUser: a folder of its own, since systemd gives it to the unit's user with all
// that is in it.
func unitUser(m *machine, dropIn block) {
	m.script("report.sh", "cat /proc/self/cgroup >$STATE_DIRECTORY/report\necho $FLOCKD_BACKEND >>$STATE_DIRECTORY/report\n")
	m.sh("install -d -m 700 /var/lib/flockd; " + tryIt)
	m.install(dropIn)
	m.starts("nightly-report", "success")
	m.matches("/var/lib/report/report", "^0::/system.slice/nightly-report.service/flockd-")
	m.matches("/var/lib/report/report", "^sqlite:///var/lib/report/flockd.db$")
	m.sh("stat -c %U /var/lib/flockd/flockd.db | grep -x root")
	m.override("StateDirectory=", "StateDirectory=flockd", "Delegate=no")
	m.starts("nightly-report", "success")
	m.sh("stat -c %U /var/lib/flockd/flockd.db | grep -x report")
	m.matches("/var/lib/flockd/report", "^0::/system.slice/nightly-report.service$") // marks, then
}

func unitDynamic(m *machine) {
	m.script("report.sh", "cat /proc/self/cgroup >$STATE_DIRECTORY/report\n")
	m.override("DynamicUser=yes", "StateDirectory=", "StateDirectory=report", "Environment=FLOCKD_BACKEND=sqlite:///var/lib/report/flockd.db")
	m.starts("nightly-report", "success")
	m.matches("/var/lib/private/report/report", "^0::/system.slice/nightly-report.service/flockd-")
	m.override("DynamicUser=yes", "UnsetEnvironment=FLOCKD_BACKEND")
	m.starts("nightly-report", "exit-code")
	m.has("nightly-report", "ExecMainStatus", "64")
}

// userManager is user@.service, without the login that it belongs to.
const userManager = `[Service]
User=%i
Type=notify
Delegate=yes
Slice=user.slice
Environment=XDG_RUNTIME_DIR=/run/user/%i
ExecStart=/usr/lib/systemd/systemd --user --unit=basic.target
`

// unitOfUser: a user's manager runs its units, and the shell's line, from a cgroup that
// is root's, as that of a login is.
func unitOfUser(m *machine, unit, shell block) {
	m.write(unitDir+"user@.service", 0o644, userManager)
	m.write("/home/report/bin/sync.sh", 0o755, "#!/bin/sh\ngrep ^0:: /proc/self/cgroup >>/home/report/sync\necho $FLOCKD_BACKEND >>/home/report/sync\n")
	unit.name = strings.Replace(unit.name, "~", "/home/report", 1)
	m.install(unit)
	m.write("/home/report/shell", 0o755, "#!/bin/sh -e\n"+strings.Replace(shell.text, "--user start", "--user start --wait", 1))
	m.sh("chown -R report:report /home/report; install -d -o report /run/user/1500")
	m.sh("systemctl daemon-reload; systemctl start dbus user@1500")
	m.sh("systemd-run -q --wait -u shell -p User=report -p WorkingDirectory=~ -p Environment=XDG_RUNTIME_DIR=/run/user/1500 /home/report/shell")
	m.matches("/home/report/sync", "^0::/user.slice/user@1500.service/app.slice/sync.service/flockd-.*\nsqlite://"+home+"$")
	m.matches("/home/report/sync", "^0::/user.slice/user@1500.service/app.slice/run-.*scope/flockd-.*\nsqlite://"+home+"$")
}

// unitSecret: a credential that only root may read, for a unit of another user.
func unitSecret(m *machine, dropIn, secret block) {
	m.redis()
	m.script("report.sh", "echo \"$FLOCKD_BACKEND\"\n")
	m.write("/password", 0o600, password)
	m.sh("cd /; " + secret.text)
	m.install(dropIn)
	m.override("User=report")
	m.starts("nightly-report", "success")
	m.matches("/var/log/nightly-report", `^redis://redis.example.org\?password-file=/run/credentials/nightly-report.service/flockd$`)
	m.sh("redis-cli -a secret --no-auth-warning keys '*' | grep nightly-report")
}

// unitVariable: a file with the variable; without the file nothing runs, unless a "-"
// says that it may be missing.
func unitVariable(m *machine, dropIn, env block) {
	m.redis()
	m.script("report.sh", "echo \"$FLOCKD_BACKEND\" >>/var/log/report\n")
	m.write("/nightly-report.env", 0o600, "FLOCKD_BACKEND=redis://:secret@redis.example.org\n")
	m.sh("cd /; " + env.text)
	m.install(dropIn)
	m.starts("nightly-report", "success")
	m.matches("/var/log/report", "^redis://:secret@redis.example.org$")
	m.sh("redis-cli -a secret --no-auth-warning keys '*' | grep nightly-report; rm /etc/flockd/nightly-report.env")
	m.starts("nightly-report", "resources")
	m.override("EnvironmentFile=", "EnvironmentFile=-/etc/flockd/nightly-report.env")
	m.starts("nightly-report", "success")
	m.matches("/var/log/report", "^"+rootsDB+"$")
}

// verbosely makes the service say which containment it has.
const verbosely = "ExecStart=\nExecStart=/usr/local/bin/flockd run -v --key nightly-report -- /usr/local/bin/report.sh"

func unitHardening(m *machine, user, hardening block) {
	m.script("report.sh", "until ps -o comm= -C lockguard >$STATE_DIRECTORY/guard; do sleep 0.02; done\n") // it is named when it has begun
	m.install(user)
	m.install(hardening)
	m.override(verbosely)
	m.sh("systemd-analyze verify " + unitDir + "nightly-report.service")
	m.starts("nightly-report", "success")
	m.matches("/var/lib/report/guard", "^lockguard$")
	m.matches("/var/log/nightly-report", `containment="cgroup`)
}

// unitRestricted: what the page's table says.
func unitRestricted(m *machine, user block) {
	m.script("report.sh", "true\n")
	m.install(user)
	for option, want := range map[string]string{
		"ProtectControlGroups=yes": `containment="process group, marks"`,
		"RestrictNamespaces=yes":   `containment="process group, marks"`,
		"PrivateUsers=yes":         `containment="cgroup`,
		"ProtectHome=yes":          "config.toml: permission denied",
		"ProtectHome=yes\nEnvironment=FLOCKD_CONFIG=/etc/flockd/config.toml": `containment="cgroup`,
		"ProcSubset=pid": "can't tell which boot this is",
	} {
		m.write("/var/log/nightly-report", 0o644, "")
		m.write("/etc/flockd/config.toml", 0o644, "")
		m.override(verbosely, option)
		result := "success"
		if !strings.HasPrefix(want, "containment") {
			result = "exit-code"
		}
		m.starts("nightly-report", result)
		if got := m.text("/var/log/nightly-report"); !strings.Contains(got, want) {
			m.Errorf("%s: no %q in:\n%s", option, want, got)
		}
	}
}
