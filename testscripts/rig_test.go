package testscripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
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
	url   func(addr string) string
	wipe  func(r *rig)  // removes all data behind flockd's back
	late  time.Duration // how much later than promised a lease may end
}

var stores = []store{
	{
		name: "redis",
		start: func(t testing.TB) *servers.Process {
			return servers.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
		},
		url:  func(addr string) string { return "redis://" + addr },
		wipe: func(r *rig) { r.tool("redis-cli", "-u", r.direct, "FLUSHALL") },
		late: time.Second,
	},
	{
		name:  "etcd",
		start: func(t testing.TB) *servers.Process { return servers.Etcd(t, servers.Current) },
		url:   func(addr string) string { return "etcd://" + addr },
		wipe:  wipeEtcd,
		late:  5 * time.Second, // a restart begins each lease anew
	},
	{
		name:  "etcd-debian",
		start: func(t testing.TB) *servers.Process { return servers.Etcd(t, servers.Debian) },
		url:   func(addr string) string { return "etcd://" + addr },
		wipe:  wipeEtcd,
		late:  5 * time.Second,
	},
}

func wipeEtcd(r *rig) {
	r.tool("env", "ETCDCTL_API=3", "etcdctl", "--endpoints", r.server.Addr, "del", "--prefix", "")
}

// newRig starts a server of the store.
func newRig(t *testing.T, s store) *rig {
	t.Helper()
	server := s.start(t)
	link := servers.Proxy(t, server.Addr)
	return &rig{
		T: t, dir: t.TempDir(), path: bin + ":" + os.Getenv("PATH"), store: s, server: server, link: link,
		direct: s.url(server.Addr), via: s.url(link.Addr),
	}
}

// tool runs a command of the store's own, which must succeed.
func (r *rig) tool(argv ...string) string {
	r.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		r.Fatalf("%s: %v\n%s", argv, err, out)
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

// output is what a job has printed so far.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// run starts flockd run with the store at url; the arguments begin with the key.
func (r *rig) run(url, key string, args ...string) *job {
	r.Helper()
	return r.start(append([]string{"run", "--backend", url, "--key", key}, args...)...)
}

func (r *rig) start(args ...string) *job {
	r.Helper()
	j := &job{r: r, cmd: exec.Command(filepath.Join(bin, "flockd"), args...), done: make(chan error, 1)}
	j.cmd.Dir = r.dir
	j.cmd.Env = []string{"PATH=" + r.path, "HOME=" + r.dir, "FLOCKD_CONFIG=" + os.DevNull}
	j.cmd.Stderr = &j.stderr
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
	select {
	case err := <-j.done:
		j.done <- err // for whoever looks again
		if got, ok := exitStatus(err); !ok || got != status {
			j.r.Errorf("%s: status %d, want %d; it said:\n%s", strings.Join(j.cmd.Args[1:], " "), got, status, j.stderr.String())
		}
	case <-time.After(patience):
		j.r.Fatalf("%s: it runs for too long", strings.Join(j.cmd.Args[1:], " "))
	}
	return j
}

// says looks for a text in what it printed, once it has ended.
func (j *job) says(text string) *job {
	j.r.Helper()
	if !strings.Contains(j.stderr.String(), text) {
		j.r.Errorf("%s: it doesn't say %q:\n%s", strings.Join(j.cmd.Args[1:], " "), text, j.stderr.String())
	}
	return j
}

// await waits until a file has a line.
func (r *rig) await(file string) {
	r.Helper()
	r.until("a line in "+file, func() bool {
		text, _ := os.ReadFile(filepath.Join(r.dir, file))
		return strings.HasSuffix(string(text), "\n")
	})
}

// until waits for what is known to come.
func (r *rig) until(what string, happened func() bool) {
	r.Helper()
	for end := time.Now().Add(patience); !happened(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// exists looks for a file that a command would have made.
func (r *rig) exists(file string) bool {
	_, err := os.Stat(filepath.Join(r.dir, file))
	return err == nil
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
