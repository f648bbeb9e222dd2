//go:build linux

package failover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

// key is the one that is campaigned for.
const key = "svc"

// lab is three hosts that campaign, and their store.
type lab struct {
	*testing.T
	store      store
	ttl        time.Duration
	dir        string // what the hosts share
	net        *network
	hosts      []*host
	candidates map[string]*candidate // by their hosts' names
	cluster    *servers.Cluster      // etcd, a member on each of the hosts; else nil
	url        string
	zombies    map[backends.Token]bool // terms that began while the command before stood still
}

// candidate is a flockd elect.
type candidate struct {
	cmd    *exec.Cmd
	stderr string
	done   chan struct{} // closed when it has ended
}

func newLab(t *testing.T, s store, ttl time.Duration) *lab {
	t.Helper()
	l := &lab{T: t, store: s, ttl: ttl, dir: t.TempDir(), net: newNetwork(t), candidates: map[string]*candidate{}, zombies: map[backends.Token]bool{}}
	for i := range 3 {
		l.hosts = append(l.hosts, l.net.host(fmt.Sprint("web", i+1)))
	}
	l.url = s.start(l)
	t.Cleanup(l.retire)
	l.campaigns(l.hosts[0])
	l.until("a leader", func() bool { return l.present().token != 0 || l.over(l.hosts[0]) })
	if l.over(l.hosts[0]) {
		t.Fatalf("the first candidate has ended\n%s", l.said())
	}
	l.campaigns(l.hosts[1])
	l.campaigns(l.hosts[2])
	return l
}

// campaigns has a host campaign.
func (l *lab) campaigns(h *host) {
	l.Helper()
	stderr, err := os.OpenFile(filepath.Join(l.dir, h.name+".stderr"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	must(l.T, err)
	defer stderr.Close()
	c := &candidate{cmd: l.flockd(context.Background(), "elect", "--key", key, "--ttl", l.ttl.String(), "--", filepath.Join(bin, "daemon"), l.dir),
		stderr: stderr.Name(), done: make(chan struct{})}
	c.cmd.Stderr = stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal
	must(l.T, h.start(c.cmd))
	l.candidates[h.name] = c
	go func() {
		c.cmd.Wait() // how it ended is in ProcessState
		close(c.done)
	}()
}

// retire ends all candidates before their store, so that they leave nothing behind.
func (l *lab) retire() {
	for _, h := range l.hosts {
		if c := l.candidates[h.name]; c != nil {
			l.thaw(h)
			c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		}
	}
	for _, c := range l.candidates {
		select {
		case <-c.done:
		case <-time.After(patience):
			l.Errorf("a candidate doesn't end\n%s", l.said())
		}
	}
}

// over reports whether a host's candidate has ended.
func (l *lab) over(h *host) bool {
	select {
	case <-l.candidates[h.name].done:
		return true
	default:
		return false
	}
}

// flockd is the program with the store.
func (l *lab) flockd(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "flockd"), args...)
	cmd.Dir = l.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + l.dir, "FLOCKD_CONFIG=" + os.DevNull, "FLOCKD_BACKEND=" + l.url}
	return cmd
}

// on is the host of a name.
func (l *lab) on(name string) *host {
	l.Helper()
	for _, h := range l.hosts {
		if h.name == name {
			return h
		}
	}
	l.Fatalf("no host has the name %q", name)
	return nil
}

// besides is a host that isn't of the name.
func (l *lab) besides(name string) *host {
	for _, h := range l.hosts {
		if h.name != name {
			return h
		}
	}
	return nil
}

// view is what a host is told of the election.
type view struct {
	leader  string
	term    backends.Token
	waiting int
}

// answer is what flockd leader tells.
type answer struct {
	Leader *struct {
		Term    backends.Token
		Owner   struct{ Host string }
		Renewed time.Time
	}
	Candidates []struct{} // those in line
}

// asks is what a host is told; the error has what flockd says.
func (l *lab) asks(h *host, args ...string) (stdout string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out, said strings.Builder
	cmd := l.flockd(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := h.start(cmd); err != nil {
		return "", err
	}
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("%s: flockd %s: %w: %s%s", h.name, strings.Join(args, " "), err, out.String(), said.String())
	}
	return out.String(), nil
}

func (l *lab) leader(h *host) (a answer, err error) {
	out, err := l.asks(h, "leader", "--json", "--key", key)
	if err == nil {
		err = json.Unmarshal([]byte(out), &a)
	}
	if err == nil && a.Leader == nil {
		err = errors.New("nobody leads")
	}
	return a, err
}

func (l *lab) view(h *host) (view, error) {
	a, err := l.leader(h)
	if err != nil {
		return view{}, err
	}
	return view{a.Leader.Owner.Host, a.Leader.Term, len(a.Candidates)}, nil
}

// renewed returns when the leader has proven its term from now on. The store's clock is the
// machine's.
func (l *lab) renewed(leader event) {
	l.Helper()
	began := time.Now()
	l.looking(200*time.Millisecond, "a renewal", func() bool {
		a, err := l.leader(l.on(leader.host))
		return err == nil && a.Leader.Renewed.After(began)
	})
}

// settled returns when the two others stand in line behind the leader, each host says so, and
// its command runs: with the term's start.
func (l *lab) settled() (leader event) {
	l.Helper()
	l.looking(200*time.Millisecond, "every host names the same leader, and the others stand in line", func() bool {
		leader = l.present()
		want := view{leader.host, leader.token, len(l.hosts) - 1}
		for _, h := range l.hosts {
			if got, err := l.view(h); err != nil || got != want {
				return false
			}
		}
		return l.count(leader.token, "admitted") > 0
	})
	return leader
}

// said is what the candidates have printed, for a test that fails.
func (l *lab) said() string {
	var all strings.Builder
	for _, h := range l.hosts {
		text, _ := os.ReadFile(filepath.Join(l.dir, h.name+".stderr"))
		fmt.Fprintf(&all, "%s says:\n%s", h.name, text)
	}
	text, _ := os.ReadFile(filepath.Join(l.dir, historyFile))
	fmt.Fprintf(&all, "the daemons say:\n%s", text)
	return all.String()
}
