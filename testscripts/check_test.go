//go:build linux

package testscripts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// elsewhere runs a command that can make no Unix socket, as a service with
// RestrictAddressFamilies= can't: as if flockd were on another host, with the servers in reach.
func elsewhere() {
	runtime.LockOSThread()
	number, family := uint32(0), uint32(16) // where seccomp_data has them, on hosts of either order of bytes but the big one
	refused := uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EAFNOSUPPORT)
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_SOCKET, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: family},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.AF_UNIX, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: refused},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	fatal(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	fatal(unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0))
	path, err := exec.LookPath(os.Args[1])
	fatal(err)
	fatal(syscall.Exec(path, os.Args[1:], os.Environ()))
}

// holds starts a run whose command does nothing, and whose variables the checks get.
func (r *rig) holds(key string, args ...string) *job {
	r.Helper()
	j := r.run(r.direct, key, append(args, "--", "sh", "-c", `env >env.new; mv env.new "env-$FLOCKD_KEY"; echo >>"is-$FLOCKD_KEY"; exec sleep 1000`)...)
	r.await("is-" + key)
	return j
}

// checked is what a check has said.
type checked struct {
	r    *rig
	line string
	out  string // stdout
	err  string
	code int
}

// check checks the hold of a key, with a command before that of its own.
func (r *rig) check(key string, before []string, args ...string) checked {
	r.Helper()
	env, err := os.ReadFile(filepath.Join(r.dir, "env-"+key))
	must(r, err)
	line := append(append(before, filepath.Join(bin, "flockd"), "check"), args...)
	cmd := exec.Command(line[0], line[1:]...)
	if path, err := exec.LookPath(line[0]); err == nil {
		cmd.Path = path
	}
	cmd.Env = slices.DeleteFunc(strings.Split(strings.TrimSpace(string(env)), "\n"), func(variable string) bool {
		return strings.HasPrefix(variable, "FLOCKD_HELD=") // by which flockd would know it for one of its own, and stop it
	})
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	code, ok := exitStatus(cmd.Run())
	if !ok {
		r.Fatalf("%s: it can't be run", cmd)
	}
	return checked{r, strings.Join(line, " "), out.String(), said.String(), code}
}

var (
	here  []string
	apart = []string{"elsewhere"}
)

// is holds a check to an exit code and to what it says, a pattern.
func (c checked) is(code int, says string) {
	c.r.Helper()
	if c.code != code || !regexp.MustCompile(says).MatchString(c.out+c.err) {
		c.r.Errorf("%s: status %d, want %d and %q:\n%s%s", c.line, c.code, code, says, c.out, c.err)
	}
}

const (
	stands   = `^([1-9]|1[0-9])(\.[0-9])?s\n$` // of 20 s
	byFlockd = `"state":"held","remaining":1[0-9][.0-9]*,"ttl":20,"why":null,"answered_by":"flockd"`
	byStore  = `"state":"held","remaining":1[0-9][.0-9]*,"ttl":20,"why":null,"answered_by":"store"`
)

// TestCheck checks a hold on each store, through flockd and through the store.
func TestCheck(t *testing.T) {
	onStores(t, func(r *rig) {
		for name, show := range map[string]func(*rig){"stands": checkStands, "removed": checkRemoved, "expired": checkExpired} {
			r.Run(name, func(t *testing.T) {
				t.Parallel()
				own := newFolder(t)
				own.store, own.server, own.direct = r.store, r.server, r.direct
				if r.server == nil {
					own.direct = "sqlite://" + own.dir + "/flockd.db"
				}
				show(own)
			})
		}
	})
}

// checkStands: a hold stands, and renewals by another than its holder leave that alone, which
// hears of a wish as before.
func checkStands(r *rig) {
	j := r.holds("stands", "--ttl", "20s")
	store := []string{"--backend", r.direct}
	r.check("stands", here).is(0, stands)
	r.check("stands", here, "--json").is(0, byFlockd)
	r.check("stands", here, "-q", "--min-remaining", "10s").is(0, `^$`)
	r.check("stands", here, "--min-remaining", "1m").is(64, `--min-remaining 1m can't be left of a TTL of 20s\n.*hint: flockd run --ttl (6[0-9.]*s|1m[0-9.]*s) `)
	for range 3 {
		r.check("stands", apart, append(store, "--json")...).is(0, byStore)
	}
	r.check("stands", apart, append(store, "--min-remaining", "1m")...).is(64, `--min-remaining 1m can't be left of a TTL of 20s`)
	if strings.Contains(r.direct, "@") { // its secret is known to flockd alone
		r.check("stands", apart).is(64, `\*\*\*`)
	}
	r.tool(filepath.Join(bin, "flockd"), "break", "stands", "--backend", r.direct, "--reason", "deploy", "--yes")
	r.check("stands", apart, store...).is(79, `to stop: asked to stop by .*: deploy|lost the lock on stands`)
	r.check("stands", apart, store...).is(79, `deploy|lost the lock on stands`)
	j.ends(79).says("deploy")
	r.check("stands", here, store...).is(79, `lost the lock on stands \(token [0-9]+\): the hold is gone`)
}

// checkRemoved: whoever removed a hold by force is named, whether or not its flockd has heard.
func checkRemoved(r *rig) {
	j := r.holds("removed")
	r.tool(filepath.Join(bin, "flockd"), "break", "removed", "--backend", r.direct, "--reason", "burnt down", "--yes", "--force")
	const says = `lost the lock on removed \(token [0-9]+\): broken by .*: burnt down\n`
	r.check("removed", apart, "--backend", r.direct).is(79, says)
	r.check("removed", here, "--backend", r.direct).is(79, says)
	j.ends(79)
}

// checkExpired: a flockd that is frozen doesn't answer, and the store isn't asked in its
// stead; the store knows of a lease that has passed to the next.
func checkExpired(r *rig) {
	j := r.holds("expired", "--ttl", "5s")
	var guard int
	until(r, "a guard", func() bool { guard = guardOf(j.cmd.Process.Pid); return guard != 0 })
	both := []int{j.cmd.Process.Pid, guard} // flockd first, or it would start another guard
	for _, pid := range both {
		r.signals(pid, unix.SIGSTOP)
		until(r, "frozen", func() bool { return state(pid) == 'T' })
	}
	next := r.run(r.direct, "expired", "--wait", "30s", "--", "sh", "-c", "echo >next; exec sleep 1000")
	r.check("expired", here).is(69, fmt.Sprintf(`can't tell whether expired \(token [0-9]+\) is still held: .* \(pid %d\) doesn't answer\n`, j.cmd.Process.Pid))
	r.await("next")
	r.check("expired", apart, "--backend", r.direct).is(79, `lost the lock on expired \(token [0-9]+\): the hold is gone`)
	r.signals(next.cmd.Process.Pid, unix.SIGTERM)
	next.ends(143)
	for _, pid := range slices.Backward(both) {
		r.signals(pid, unix.SIGCONT)
	}
	j.ends(79)
}

// TestCheckWithoutTheStore: with the store down nobody can tell, and the holder keeps to its
// deadline.
func TestCheckWithoutTheStore(t *testing.T) {
	for _, s := range []store{redis, etcd, postgres, mysql} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			r := served(t, s, s.start(t))
			j := r.holds("k")
			r.check("k", here).is(0, `^4m`)
			r.server.Kill()
			r.check("k", here).is(69, `can't tell whether k \(token [0-9]+\) is still held: flockd could not renew: .`)
			r.check("k", apart, "--backend", r.direct).is(69, `can't tell whether k \(token [0-9]+\) is still held: the store .* is unavailable: .`)
			if j.over() {
				t.Errorf("it hasn't kept to its deadline:\n%s", j.stderr.String())
			}
		})
	}
}
