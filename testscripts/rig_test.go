//go:build linux

package testscripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"flockd/backends/backendtest/servers"
)

// rig is a store's real server, a way to it that can be disturbed, and a folder for
// what the program's users start.
type rig struct {
	*testing.T
	dir    string
	path   string // PATH with the program and the awkward commands
	store  store
	server *servers.Process
	link   *servers.TCPProxy
	direct string // the server's URL
	via    string // the same through the link
}

// store is one kind of server.
type store struct {
	name  string
	start func(t testing.TB) *servers.Process // keeps its data over a restart
	url   func(addrs ...string) string
	first func(r *rig)      // nil, or has made before what the first use makes
	wipe  func(r *rig)      // removes all data behind flockd's back
	lose  map[string]string // by step: what only the request that does it first has

	// clocked starts a server that goes by a clock; nil where none can be set.
	clocked func(testing.TB, *servers.WallClock) *servers.Process

	// late is how much later than promised a lease may end: for Redis what a busy
	// machine may take, for etcd also a lease that a restart has begun anew.
	late time.Duration
}

var redis = store{
	name: "redis",
	start: func(t testing.TB) *servers.Process {
		return servers.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	},
	url:  func(addrs ...string) string { return "redis://" + addrs[0] },
	wipe: func(r *rig) { r.tool("redis-cli", "-u", r.direct, "FLUSHALL") },
	lose: map[string]string{ // a new server is sent each script once
		"grant": "return {'granted'", "renewal": "return {'renewed'", "release": "local function release(",
	},
	clocked: func(t testing.TB, clock *servers.WallClock) *servers.Process { return clock.Redis(t) },
	late:    time.Second,
}

var etcd, oldEtcd = etcdOf("etcd", servers.Current), etcdOf("etcd-debian", servers.Debian)

func etcdOf(name string, v servers.Version) store {
	return store{
		name:  name,
		start: func(t testing.TB) *servers.Process { return servers.Etcd(t, v) },
		url:   func(addrs ...string) string { return "etcd://" + strings.Join(addrs, ",") },
		wipe:  func(r *rig) { r.etcdctl(r.server, "del", "--prefix", "") },
		lose: map[string]string{ // what is written or read by the step; a watch of the claim has a longer request
			"grant": `"state":"holding"`, "renewal": "\n0\n.flockd/line/k/", "release": `"sign":`,
		},
		late: 5 * time.Second,
	}
}

var postgres = store{
	name:  "postgres",
	start: func(t testing.TB) *servers.Process { return servers.Postgres(t) },
	url: func(addrs ...string) string {
		return "postgres://" + servers.PostgresUser + ":" + servers.PostgresPassword + "@" + strings.Join(addrs, ",") + "/" + servers.PostgresDatabase
	},
	first:   firstUse,
	wipe:    func(r *rig) { servers.PostgresSays(r, r.server, "DROP SCHEMA flockd CASCADE") },
	lose:    map[string]string{"grant": "acquire_1(", "renewal": "renew_1(", "release": "release_1("},
	clocked: func(t testing.TB, clock *servers.WallClock) *servers.Process { return clock.Postgres(t) },
	late:    time.Second,
}

var mysql = store{
	name:  "mysql",
	start: func(t testing.TB) *servers.Process { return servers.MariaDB(t) },
	url: func(addrs ...string) string {
		return "mysql://" + servers.MariaDBUser + ":" + servers.MariaDBPassword + "@" + strings.Join(addrs, ",") + "/" + servers.MariaDBDatabase
	},
	first:   firstUse,
	wipe:    func(r *rig) { servers.MariaDBSays(r, r.server, "DROP DATABASE flockd; CREATE DATABASE flockd") },
	lose:    map[string]string{"grant": "CALL flockd_acquire_1(", "renewal": "CALL flockd_renew_1(", "release": "CALL flockd_release_1("},
	clocked: func(t testing.TB, clock *servers.WallClock) *servers.Process { return clock.MariaDB(t) },
	late:    time.Second,
}

// firstUse makes tables, and takes the token of another key.
func firstUse(r *rig) { r.token() }

// newFolder is a rig without a server.
func newFolder(t *testing.T) *rig {
	return &rig{T: t, dir: folder(t), path: bin + ":" + os.Getenv("PATH")}
}

// folder is removed in the end, once nobody works in it any more.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "flockd-test-")
	must(t, err)
	must(t, os.Chmod(dir, 0o755)) // other users work in it
	t.Cleanup(func() {
		endIn(dir)
		until(t, "an empty folder", func() bool { return os.RemoveAll(dir) == nil })
	})
	return dir
}

// newRig starts a server of the store, and a proxy before it.
func newRig(t *testing.T, s store) *rig {
	t.Helper()
	r := served(t, s, s.start(t))
	r.link = servers.Proxy(t, r.server.Addr)
	r.via = s.url(r.link.Addr)
	if s.first != nil {
		s.first(r)
	}
	return r
}

// served is a rig with a server that the test has started, and nothing before it.
func served(t *testing.T, s store, server *servers.Process) *rig {
	r := newFolder(t)
	r.store, r.server, r.direct, r.via = s, server, s.url(server.Addr), s.url(server.Addr)
	return r
}

func (r *rig) etcdctl(server *servers.Process, args ...string) {
	r.Helper()
	r.tool("env", append([]string{"ETCDCTL_API=3", "etcdctl", "--endpoints", server.Addr}, args...)...)
}

// tool runs a command of the store's own, which must succeed.
func (r *rig) tool(name string, args ...string) string {
	r.Helper()
	cmd := exec.Command(name, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// job is one flockd.
type job struct {
	r      *rig
	cmd    *exec.Cmd
	stderr output
	done   chan error
}

// output is what a job has printed so far. It is a file, and no pipe of which
// whoever outlives the job would hold the end.
type output struct{ *os.File }

func (o output) String() string {
	text, err := os.ReadFile(o.Name())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// run starts flockd run with the store at url; the arguments begin with the key.
func (r *rig) run(url, key string, args ...string) *job {
	r.Helper()
	return r.start(append([]string{"run", "--backend", url, "--key", key}, args...)...)
}

func (r *rig) start(args ...string) *job {
	r.Helper()
	return r.launch(exec.Command(filepath.Join(bin, "flockd"), args...))
}

// launch starts a command that is flockd, or becomes it.
func (r *rig) launch(cmd *exec.Cmd) *job {
	r.Helper()
	stderr, err := os.CreateTemp(r.dir, "stderr-")
	if err != nil {
		r.Fatal(err)
	}
	defer stderr.Close()
	j := &job{r: r, cmd: cmd, stderr: output{stderr}, done: make(chan error, 1)}
	j.cmd.Dir = r.dir
	j.cmd.Env = append([]string{"PATH=" + r.path, "HOME=" + r.dir, "FLOCKD_CONFIG=" + os.DevNull}, j.cmd.Env...)
	j.cmd.Stderr = stderr
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := j.cmd.Start(); err != nil {
		r.Fatal(err)
	}
	go func() { j.done <- j.cmd.Wait() }()
	r.Cleanup(func() {
		if j.cmd.ProcessState == nil {
			j.cmd.Process.Kill()
			<-j.done
		}
	})
	return j
}

// ends waits for its end, which must have this status.
func (j *job) ends(status int) *job {
	j.r.Helper()
	if got := j.status(); got != status {
		j.r.Errorf("%s: status %d, want %d; it said:\n%s", j.line(), got, status, j.stderr.String())
	}
	return j
}

// status waits for its end, and is the one that it has.
func (j *job) status() int {
	j.r.Helper()
	select {
	case err := <-j.done:
		j.done <- err // for whoever looks again
		status, ok := exitStatus(err)
		if !ok {
			j.r.Fatalf("%s: %v", j.line(), err)
		}
		return status
	case <-time.After(patience):
		j.r.Fatalf("%s: it runs for too long; it said:\n%s", j.line(), j.stderr.String())
	}
	return -1
}

func (j *job) line() string { return strings.Join(j.cmd.Args[1:], " ") }

// over reports whether it has ended.
func (j *job) over() bool {
	select {
	case err := <-j.done:
		j.done <- err
		return true
	default:
		return false
	}
}

// says looks for a text in what it printed, once it has ended.
func (j *job) says(text string) *job {
	j.r.Helper()
	if !strings.Contains(j.stderr.String(), text) {
		j.r.Errorf("%s: it doesn't say %q:\n%s", j.line(), text, j.stderr.String())
	}
	return j
}

// await waits until a file has a line.
func (r *rig) await(file string) {
	r.Helper()
	until(r, "a line in "+file, func() bool {
		text, _ := os.ReadFile(filepath.Join(r.dir, file))
		return strings.HasSuffix(string(text), "\n")
	})
}

// exists looks for a file that a command would have made.
func (r *rig) exists(file string) bool {
	_, err := os.Stat(filepath.Join(r.dir, file))
	return err == nil
}

// text of a file, "" if there is none.
func (r *rig) text(file string) string {
	text, _ := os.ReadFile(filepath.Join(r.dir, file))
	return string(text)
}

// forget removes what a probe has written.
func (r *rig) forget(stamps string) {
	r.Helper()
	for _, ending := range []string{"", ".first", ".pid"} {
		if err := os.Remove(filepath.Join(r.dir, stamps+ending)); err != nil {
			r.Fatal(err)
		}
	}
}

// noFile wants no file but the store's, what jobs have said, and some patterns.
func (r *rig) noFile(but ...string) {
	r.Helper()
	files, err := os.ReadDir(r.dir)
	if err != nil {
		r.Fatal(err)
	}
	known := append(but, "flockd.db", "flockd.db-wal", "flockd.db-shm", "flockd.db-bell", "flockd.db-journal", "stderr-*")
	for _, file := range files {
		if !slices.ContainsFunc(known, func(pattern string) bool { ok, _ := filepath.Match(pattern, file.Name()); return ok }) {
			r.Errorf("%s is left", file.Name())
		}
	}
}

// number is the one in a file.
func (r *rig) number(file string) int64 {
	r.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, file))
	if err != nil {
		r.Fatal(err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		r.Fatal(err)
	}
	return n
}

// before wants the probe a to have written for the last time before b did for the
// first.
func (r *rig) before(a, b string) {
	r.Helper()
	last, first := r.number(a), r.number(b+".first")
	r.Logf("%s was dead %v before %s began", a, time.Duration(first-last), b)
	if last >= first {
		r.Errorf("%s and %s ran together for %v", a, b, time.Duration(last-first))
	}
}
