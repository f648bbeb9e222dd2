//go:build linux

package testscripts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"flockd/backends/backendtest/servers"
)

// place is where a command runs: a line for bash with {} for the command.
type place struct {
	name   string
	line   string
	status int
	users  bool // it takes a store that other users reach
	parts  bool // it ends before the command
}

// In a mount namespace of its own.
const (
	sudoers      = `mount --bind sudoers /etc/sudoers && `
	hardlyAnyDev = `mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && `
	readOnlyRoot = `mount --bind . . && cd "$PWD" && mount -o remount,bind,ro / && `
)

var places = []place{
	{name: "a job of a shell with job control", line: `set -m; {} & wait $!`, status: 7},
	{name: "a background process of a script", line: `{} & wait $!`, status: 7},
	{name: "start of a pipeline", line: `{} | cat; exit ${PIPESTATUS[0]}`, status: 7},
	{name: "middle of a pipeline", line: `echo x | {} | cat; exit ${PIPESTATUS[1]}`, status: 7},
	{name: "end of a pipeline", line: `echo x | {}`, status: 7},
	{name: "command substitution", line: `out=$({})`, status: 7},
	{name: "signals ignored", line: `trap '' HUP INT TSTP TTIN TTOU; {}`, status: 7},

	{name: "nohup", line: `nohup {}`, status: 7},
	{name: "setsid", line: `exec setsid {}`, parts: true},
	{name: "setsid -w", line: `exec setsid -w {}`, status: 7},
	{name: "timeout", line: `timeout 60 {}`, status: 7},
	{name: "env -i", line: `env -i {}`, status: 7},
	{name: "xargs", line: `echo x | xargs -I X {}`, status: 123},
	{name: "nice", line: `nice -n 5 {}`, status: 7},
	{name: "ionice", line: `ionice -c 3 {}`, status: 7},

	{name: "umask 077", line: `umask 077; {}`, status: 7},
	{name: "umask 0", line: `umask 0; {}`, status: 7},
	{name: "20 descriptors", line: `ulimit -n 20; {}`, status: 7},
	{name: "many descriptors inherited", line: `ulimit -n 40; for n in {10..25}; do eval "exec $n</dev/null"; done; {}`, status: 7},
	{name: "endless stack", line: `ulimit -s unlimited; {}`, status: 7},
	{name: "small stack", line: `ulimit -s 512; {}`, status: 7},
	{name: "4 GB of addresses", line: `ulimit -v 4000000; {}`, status: 7},
	{name: "no limit of locks to set", line: `ulimit -x 0; {}`, status: 7},

	{name: "no HOME", line: `unset HOME; {}`, status: 7},
	{name: "odd language", line: `export LC_ALL=xx_YY.foo LANG=tr_TR TZ=Nowhere/None; {}`, status: 7},
	{name: "odd PATH", line: `PATH=":/nonexistent:/$(printf x%.0s {1..5000})::$PATH:"; {}`, status: 7},
	{name: "deleted folder", line: `mkdir x; cd x; rmdir ../x; {}`, status: 7},
	{name: "read-only root", line: `unshare -m bash -c '` + readOnlyRoot + `{}'`, status: 7},
	{name: "hardly any /dev", line: `unshare -m bash -c '` + hardlyAnyDev + `{}'`, status: 7},
	{name: "no room for temporary files", line: `unshare -m bash -c 'mount -t tmpfs -o nr_inodes=1 none /var/tmp && TMPDIR=/var/tmp {}'`, status: 7},
	{name: "no capabilities", line: `setpriv --no-new-privs --bounding-set=-all --inh-caps=-all {}`, status: 7},

	{name: "user without an entry", line: `setpriv --reuid 12345 --regid 12345 --clear-groups {}`, status: 7, users: true},
	{name: "user without an entry or HOME", line: `unset HOME; setpriv --reuid 12345 --regid 12345 --clear-groups {}`, status: 7, users: true},
	{name: "su", line: `su -s /bin/sh nobody -c '{}'`, status: 7, users: true},
	{name: "sudo to a user", line: `sudo -n -u nobody {}`, status: 7, users: true},
	{name: "a user's sudo", line: `unshare -m bash -c '` + sudoers + `setpriv --reuid nobody --regid nogroup --clear-groups sudo -n {}'`, status: 7, users: true},
	{name: "a user's sudo with use_pty", line: `echo "Defaults use_pty" >>sudoers; unshare -m bash -c '` + sudoers + `setpriv --reuid nobody --regid nogroup --clear-groups sudo -n {}'`, status: 7, users: true},

	{name: "process 1", line: `exec unshare -pfm --mount-proc {}`, status: 7},
	{name: "process 1 without cgroups", line: `exec unshare -pfm --mount-proc nocgroup {}`, status: 7},
	{name: "below a process 1", line: `exec unshare -pfm --mount-proc sh -c '{}; exit $?'`, status: 7},
	{name: "process 1 of a strict container", line: `exec unshare -pfm --mount-proc bash -c '` + hardlyAnyDev + readOnlyRoot + `exec {}'`, status: 7},
	{name: "user namespace", line: `exec unshare -Ur {}`, status: 7},
	{name: "without cgroups", line: `nocgroup {}`, status: 7},
}

// facts.sh FOLDER KEY writes what a command can tell of its place, and exits with 7
// when it is told to. A user's locks are not counted: the limit of them is our mark.
const factsScript = `
ls /proc/$$/fd >"$1/descriptors"
streams=$(for n in 0 1 2; do readlink /proc/$$/fd/$n; done | sed -e 's/\[.*//' -e 's/stderr-.*//')
ignored=$(sed -n 's/^SigIgn:.*\(........\)$/\1/p' /proc/$$/status)
{
	pwd; umask; id; nice; ionice; chrt -p $$ | sed 's/.*: //'
	grep -v 'file locks' /proc/$$/limits
	cat "$1/descriptors"; echo "$streams"; echo "ignored $((0x$ignored & 0x380003))"
	env | grep -v -e ^FLOCKD_ -e ^_= -e ^SUDO_COMMAND= | sort
} >"$1/facts" 2>&1
echo out; echo err >&2
echo x >"$1/running"
read -r _ <"$1/go"
exit 7
`

// A command finds what it would find without us, in each place; it runs alone, and
// nothing is left of it and of us.
func TestPlaces(t *testing.T) {
	t.Parallel()
	server := redis.start(t)
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			r := p.rig(t, server)
			job := fmt.Sprintf("sh %s/facts.sh %s ", r.dir, r.dir)
			bare := r.visit(p, job+"bare", nil)
			key := "place-" + strings.ReplaceAll(p.name, " ", "-") + "."
			key = strings.NewReplacer("'", "", "/", "").Replace(key)
			run := fmt.Sprintf("%s/flockd run --config /dev/null --backend %s --key %s -- ", bin, r.direct, key)
			under := r.visit(p, run+job+key, func() {
				r.run(r.direct, key, "--", "touch", "ran").ends(75).says("skipped " + key)
			})
			if under != bare {
				t.Errorf("without flockd:\n%swith flockd:\n%s", notIn(under, bare), notIn(bare, under))
			}
			until(t, "nobody is left", func() bool {
				return len(processes(func(pid int) bool { return strings.Contains(argv(pid), key) })) == 0
			})
			var wait []string
			if p.parts {
				wait = []string{"--wait", patience.String()}
			}
			r.run(r.direct, key, append(wait, "--", "true")...).ends(0)
			if r.exists("ran") {
				t.Error("two ran at once")
			}
		})
	}
}

func (p place) rig(t *testing.T, server *servers.Process) *rig {
	var r *rig
	if p.users {
		r = served(t, redis, server)
	} else {
		r = embedded(t)
	}
	for name, text := range map[string]string{"facts.sh": factsScript, "sudoers": "ALL ALL=(ALL) NOPASSWD: ALL\n"} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	must(t, os.Chmod(filepath.Join(r.dir, "sudoers"), 0o440))
	must(t, os.Chmod(filepath.Dir(r.dir), 0o755)) // other users come here
	must(t, os.Chmod(r.dir, 0o777))
	return r
}

// visit runs a command in a place and is what came of it: its facts and what was
// printed. meanwhile is called when it runs.
func (r *rig) visit(p place, command string, meanwhile func()) string {
	r.Helper()
	for _, file := range []string{"facts", "descriptors", "running", "go"} {
		os.Remove(filepath.Join(r.dir, file))
	}
	must(r, syscall.Mkfifo(filepath.Join(r.dir, "go"), 0o600))
	must(r, os.Chmod(filepath.Join(r.dir, "go"), 0o666))
	cmd := exec.Command("bash", "-c", strings.ReplaceAll(p.line, "{}", command))
	out, err := os.Create(filepath.Join(r.dir, "out"))
	must(r, err)
	defer out.Close()
	cmd.Stdout = out
	j := r.launch(cmd)
	until(r, "it runs: "+j.stderr.String(), func() bool { return r.exists("running") })
	if meanwhile != nil {
		meanwhile()
	}
	must(r, os.WriteFile(filepath.Join(r.dir, "go"), []byte("x\n"), 0))
	j.ends(p.status)
	facts, err := os.ReadFile(filepath.Join(r.dir, "facts"))
	must(r, err)
	return fmt.Sprintf("%s%s%s", facts, output{out}, strings.ReplaceAll(j.stderr.String(), command, "{}"))
}

// notIn are the lines of one text that another one hasn't.
func notIn(other, text string) (lines string) {
	has := strings.SplitAfter(other, "\n")
	for line := range strings.Lines(text) {
		if !slices.Contains(has, line) {
			lines += line
		}
	}
	return lines
}
