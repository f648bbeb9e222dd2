//go:build linux

package testscripts

import (
	"os"
	"strings"
	"testing"
)

const ops = "ops@example.org"

// home is the default store of the machine's user.
const home = "/home/report/.local/state/flockd/flockd.db"

// asReport runs flockd as the machine's user.
const asReport = "setpriv --reuid report --regid report --init-groups env HOME=/home/report "

func TestCronPage(t *testing.T) {
	t.Parallel()
	p := readPage(t, "cron.md")
	crontab := p.take("cron", "crontab -e")
	crond, rights := p.take("cron", "/etc/cron.d/nightly-report"), p.take("sh", "")
	config, folder, named := p.take("toml", "/etc/flockd/config.toml"), p.take("sh", ""), p.take("cron", "/etc/cron.d/nightly-report")
	percent, stdin := p.take("cron", "crontab -e"), p.take("cron", "crontab -e")
	remote, password, slow := p.take("toml", "/etc/flockd/config.toml"), p.take("sh", ""), p.take("cron", "/etc/cron.d/nightly-report")
	daily := p.take("sh", "/etc/cron.daily/nightly-report")
	p.done()
	inMachines(t, bootCron, map[string]func(*machine){
		"crontab":     func(m *machine) { cronCrontab(m, crontab) },
		"skip":        func(m *machine) { cronSkip(m, crontab) },
		"cron.d":      func(m *machine) { cronD(m, crond, rights) },
		"environment": cronEnvironment,
		"mail":        cronMail,
		"config":      func(m *machine) { cronConfig(m, config, folder, crond) },
		"named":       func(m *machine) { cronConfig(m, named, folder, named) },
		"percent":     func(m *machine) { cronPercent(m, percent) },
		"stdin":       func(m *machine) { cronStdin(m, stdin) },
		"hosts":       func(m *machine) { cronHosts(m, remote, password, slow) },
		"stop":        func(m *machine) { cronStop(m, crond) },
		"poweroff":    func(m *machine) { cronPoweroff(m, crond) },
		"daily":       func(m *machine) { cronDaily(m, daily) },
	})
}

// cronCrontab: the command has what the page says, and what it prints is mailed.
func cronCrontab(m *machine, line block) {
	m.script("report.sh", `echo "key=$FLOCKD_KEY store=$FLOCKD_BACKEND path=$PATH home=$HOME user=$LOGNAME shell=$SHELL in=$(pwd)"
echo "state=[$XDG_STATE_HOME] stdin=[$(cat)]"
(: </dev/tty) 2>/dev/null && echo terminal
[ $(ps -o pgid= -p $$) = $$ ] && echo own group
`)
	m.install(line)
	m.atOne()
	m.idle()
	m.mails(ops, "key=nightly-report store=sqlite://"+home+" path=/usr/bin:/bin home=/home/report user=report shell=/bin/sh in=/home/report\n"+
		`state=\[\] stdin=\[\]\n *own group\n$`)
}

func cronSkip(m *machine, line block) {
	m.script("report.sh", "echo printed\n")
	m.install(line)
	m.sh("mkdir -p /home/report/.local/state && chown -R report /home/report/.local && " + asReport +
		"flockd run -k nightly-report -- sh -c 'echo held >/tmp/held; exec sleep 1000' >/dev/null 2>&1 &")
	m.await("/tmp/held", "held")
	m.atOne()
	m.idle()
	m.noMail(ops)
}

// cronD: a file of /etc/cron.d is read if it is root's, no one else may write it, and
// its name has no dot.
func cronD(m *machine, file, rights block) {
	m.script("report.sh", "id -un\n")
	m.install(file)
	m.sh("chown report /etc/cron.d/nightly-report; chmod 666 /etc/cron.d/nightly-report")
	m.sh(rights.text)
	for _, other := range []struct{ name, change string }{
		{"dotted.cron", "true"}, {"writable", "chmod 664"}, {"owned", "chown report"}, {"good", "true"},
	} {
		path := "/etc/cron.d/" + other.name
		m.write(path, 0o644, "0 1 * * * root echo ran >/tmp/"+other.name+"\n")
		m.sh(other.change + " " + path)
	}
	m.atOne()
	m.idle()
	m.mails(ops, `^report\n$`)
	m.await("/tmp/good", "ran")
	for _, name := range []string{"dotted.cron", "writable", "owned"} {
		m.lacks("/tmp/"+name, "ran")
	}
}

// cronEnvironment: what the page's table says of settings.
func cronEnvironment(m *machine) {
	m.write("/etc/profile", 0o644, "export FLOCKD_BACKEND=redis://127.0.0.1:1 XDG_STATE_HOME=/tmp\n")
	m.write("/home/report/.profile", 0o644, "export FLOCKD_BACKEND=redis://127.0.0.1:1\n")
	m.write("/etc/cron.d/a", 0o644, strings.ReplaceAll(`MAILTO=short
0 1 * * * report RUN bare -- true
MAILTO=first
0 1 * * * report /usr/local/bin/flockd run -q --key first -- report.sh
MAILTO=default
0 1 * * * report /usr/local/bin/flockd run -q --key default -c 'echo "$FLOCKD_BACKEND"'
MAILTO=hash
0 1 * * * report echo one # two
MAILTO=bash
SHELL=/bin/bash
0 1 * * * report echo $BASH_VERSION; /usr/local/bin/flockd run -q --key bash -c 'echo "[$BASH_VERSION]"'
MAILTO=path
PATH=/usr/local/bin:/usr/bin:/bin
0 1 * * * report flockd run -q --key path -- report.sh
MAILTO=literal
X=$HOME/x
0 1 * * * report printenv X
`, "RUN", "flockd run -q --key"))
	m.script("report.sh", "echo found\n")
	m.atOne()
	m.idle()
	m.mails("short", `flockd: not found`)
	m.mails("first", `report.sh.*not found`)
	m.mails("default", `^sqlite://`+home+`\n$`)
	m.mails("hash", `^one\n$`)
	m.mails("bash", `^5\..*\n\[\]\n$`)
	m.mails("path", `^found\n$`)
	m.mails("literal", `^\$HOME/x\n$`)
}

// cronMail: the rows of the page's table.
func cronMail(m *machine) {
	m.redis()
	run := "0 1 * * * root /usr/local/bin/flockd run -b sqlite:///tmp/db -q --key "
	m.write("/etc/cron.d/a", 0o644, `MAILTO=skipped
`+run+`skip -- true; echo $? >/tmp/skipped
MAILTO=unnamed
0 1 * * * root /usr/local/bin/flockd run --key unnamed -- true
MAILTO=left
`+run+`left -c 'sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >/tmp/pid'; echo $? >/tmp/left
MAILTO=unavailable
0 1 * * * root /usr/local/bin/flockd run -q -b redis://127.0.0.1:1 --key k -- touch /tmp/ran; echo $? >/tmp/unavailable
MAILTO=lost
0 1 * * * root /usr/local/bin/flockd run -q -b "redis://:secret@redis.example.org" --key k --ttl 12s -c 'echo up >/tmp/up; exec sleep 1000'; echo $? >/tmp/lost
MAILTO=late
`+run+`late --max-runtime 1s -- sleep 1000; echo $? >/tmp/late
`)
	m.hold("-b sqlite:///tmp/db -k skip")
	m.atOne()
	m.await("/tmp/up", "up")
	m.sh("redis-cli -a secret flushall 2>&1")
	for name, status := range map[string]string{"skipped": "75", "left": "0", "unavailable": "69", "lost": "79", "late": "124"} {
		m.await("/tmp/"+name, status+"\n")
	}
	m.sh("kill $(cat /tmp/pid)")
	m.idle()
	m.noMail("skipped")
	m.mails("unnamed", `no store is named`)
	m.mails("left", `has left processes behind`)
	m.mails("unavailable", `the command did not run`)
	m.mails("lost", `lost`)
	m.mails("late", `max-runtime`)
	if _, err := os.Stat(m.path("/tmp/ran")); err == nil {
		m.Error("a command ran without its store")
	}
}
