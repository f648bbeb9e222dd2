//go:build linux

package testscripts

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"flockd/backends/backendtest/servers"
)

// manager is a service manager: a socket, and what came through it.
type manager struct {
	socket string

	mu       sync.Mutex
	messages []string
}

func newManager(r *rig) *manager {
	r.Helper()
	m := &manager{socket: filepath.Join(r.dir, "notify")}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	must(r, err)
	go m.listen(conn)
	r.Cleanup(func() { conn.Close() })
	return m
}

func (m *manager) listen(conn *net.UnixConn) {
	for buf := make([]byte, 4096); ; {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		m.mu.Lock()
		m.messages = append(m.messages, string(buf[:n]))
		m.mu.Unlock()
	}
}

func (m *manager) told() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.messages)
}

// gist is the first word of each message but the watchdog's, and not the same one twice in a row.
func (m *manager) gist() (words []string) {
	for _, message := range m.told() {
		if message != "WATCHDOG=1" {
			words = append(words, regexp.MustCompile(`^[A-Z]+=\w+`).FindString(message))
		}
	}
	return slices.Compact(words)
}

// hears waits for a message that begins so.
func (m *manager) hears(r *rig, text string) {
	r.Helper()
	until(r, text, func() bool {
		return slices.ContainsFunc(m.told(), func(s string) bool { return strings.HasPrefix(s, text) })
	})
}

// elects starts a candidate for the key k with the store at url.
func (r *rig) elects(url string, args ...string) *job {
	r.Helper()
	return r.managed(nil, url, args...)
}

// managed starts a candidate that m is told about, and with a watchdog.
func (r *rig) managed(m *manager, url string, args ...string) *job {
	r.Helper()
	hearAll()
	cmd := exec.Command(filepath.Join(bin, "flockd"), append([]string{"elect", "--backend", url, "--key", "k"}, args...)...)
	if m != nil {
		cmd.Env = []string{"NOTIFY_SOCKET=" + m.socket, "WATCHDOG_USEC=100000"}
	}
	return r.launch(cmd)
}

// awaits waits until a candidate has said a text.
func (j *job) awaits(text string) {
	j.r.Helper()
	until(j.r, text, func() bool { return strings.Contains(j.stderr.String(), text) })
}

// The service manager is told each change of a candidate; its command has no part in that.
func TestElectNotifies(t *testing.T) {
	t.Parallel()
	r := embedded(t)
	m := newManager(r)
	leader := r.elects(r.via, "-c", "echo x >led; exec sleep 1000")
	r.await("led")
	j := r.managed(m, r.via, "--on-elected", "env >hook; echo >>hook", "-c", "env >env; echo >>env; exec sleep 1000")
	m.hears(r, "READY=1")
	m.hears(r, "STATUS=campaigning; led by ")
	m.hears(r, "WATCHDOG=1")
	leader.resigns()
	m.hears(r, "STATUS=leading, term ")
	r.await("env")
	r.await("hook")
	j.resigns()
	want := []string{"STATUS=campaigning", "READY=1", "STATUS=campaigning", "STATUS=leading", "STOPPING=1", "STATUS=stopping"}
	if got := m.gist(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, file := range []string{"env", "hook"} {
		if text := r.text(file); strings.Contains(text, "NOTIFY_SOCKET") || strings.Contains(text, "WATCHDOG_") || !strings.Contains(text, "FLOCKD_TOKEN") {
			t.Errorf("the environment, %s:\n%s", file, text)
		}
	}
}

// resigns makes a candidate do so, as systemctl stop does.
func (j *job) resigns() {
	j.r.Helper()
	must(j.r, j.cmd.Process.Signal(syscall.SIGTERM))
	j.ends(0)
}

// A store that is out of reach keeps nobody from being ready, nor from being elected later.
func TestElectWithoutAStore(t *testing.T) {
	t.Parallel()
	r := newRig(t, redis)
	m := newManager(r)
	r.link.Refuse(true)
	j := r.managed(m, r.via, "-c", "echo x >led; exec sleep 1000")
	m.hears(r, "READY=1")
	m.hears(r, "STATUS=campaigning; no answer from the store: ")
	m.hears(r, "WATCHDOG=1")
	other := r.elects(r.via, "touch", "led")
	other.awaits("no answer from the store, asking again")
	other.resigns()
	r.link.Refuse(false)
	r.await("led")
	m.hears(r, "STATUS=leading, term ")
	j.resigns()
}

// A store that refuses from the start is worth no waiting, and nobody is told to be ready.
func TestElectRefused(t *testing.T) {
	t.Parallel()
	r := newFolder(t)
	m := newManager(r)
	locked := servers.Redis(t, "--requirepass", secret)
	j := r.managed(m, "redis://:"+secret+"x@"+locked.Addr, "touch", "led").ends(69)
	said := j.stderr.String()
	if !strings.HasPrefix(said, "flockd: can't campaign for k: ") || strings.Count(said, "\n") > 2 || strings.Contains(said, secret) || r.exists("led") {
		t.Errorf("it said:\n%s", said)
	}
	if got := m.gist(); slices.Contains(got, "READY=1") {
		t.Errorf("%q", got)
	}
}

// Candidates of a network store take turns, and terms grow; who has lost the store stops its command,
// and leads again when it is back.
func TestElectOverNetwork(t *testing.T) {
	t.Parallel()
	r := newRig(t, redis)
	leads := "echo $FLOCKD_TOKEN >>terms; echo x >>"
	a := r.elects(r.direct, "--ttl", "6s", "-c", leads+"a; exec sleep 1000")
	r.await("a")
	b := r.elects(r.via, "--ttl", "6s", "-c", leads+"b; exec sleep 1000")
	b.awaits("campaigning for k: led by ")
	a.resigns()
	r.await("b")
	r.link.Refuse(true)
	r.link.Cut()
	b.awaits("deposed as leader of k, term ")
	b.awaits("the lease was lost: ")
	r.link.Refuse(false)
	until(r, "it leads again", func() bool { return r.text("b") == "x\nx\n" })
	b.resigns()
	terms := strings.Fields(r.text("terms"))
	if len(terms) != 3 || !slices.IsSorted(terms) || len(slices.Compact(terms)) != 3 {
		t.Errorf("terms: %q", terms)
	}
}

// Without a terminal HUP and the like are the command's. They end no candidate, and what is
// elected later hears nothing of them.
func TestElectPassesSignals(t *testing.T) {
	t.Parallel()
	m := begin(t)
	leader := m.elects(m.via, "hears")
	m.await("pid")
	m.flockd, m.command = leader.cmd.Process.Pid, m.pid("pid")
	must(t, os.Mkdir(filepath.Join(m.dir, "next"), 0o755))
	follower := m.elects(m.via, "-c", "cd next; exec hears")
	follower.awaits("led by")
	passed := []syscall.Signal{syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT}
	for _, sig := range passed {
		m.send(sig)
		m.hears(sig)
		must(t, follower.cmd.Process.Signal(sig))
	}
	until(m, "a follower that is at rest", func() bool { return atRest(follower.cmd.Process.Pid) })
	if got := m.record(); len(got) != len(passed) {
		t.Errorf("the leader's command has heard %q", got)
	}
	must(t, leader.cmd.Process.Signal(syscall.SIGTERM))
	m.hears(syscall.SIGTERM) // and goes on
	must(t, leader.cmd.Process.Signal(syscall.SIGTERM))
	leader.ends(0)
	m.await("next/pid")
	if text := m.text("next/signals"); text != "" {
		t.Errorf("the follower's command has heard %q", text)
	}
	must(t, follower.cmd.Process.Signal(syscall.SIGINT))
	until(m, "its command hears TERM", func() bool { return strings.Contains(m.text("next/signals"), "SIGTERM\n") })
	must(t, follower.cmd.Process.Signal(syscall.SIGINT)) // now
	follower.ends(130)
}
