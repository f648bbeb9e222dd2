//go:build linux

package failover

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flockd/backends/backendtest/servers"
)

// network is a switch, which the test is plugged into as well.
type network struct {
	*testing.T
	number int64
	hosts  int
}

// networks counts those of this process.
var networks atomic.Int64

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{T: t, number: networks.Add(1)}
	must(t, ip("link set lo up", "link add "+n.bridge()+" type bridge",
		fmt.Sprintf("addr add 10.0.%d.254/24 dev %s", n.number, n.bridge()), "link set "+n.bridge()+" up"))
	return n
}

func (n *network) bridge() string { return fmt.Sprintf("br%d", n.number) }

// ip has iproute2 change the network of the calling thread.
func ip(lines ...string) error { return batch((*exec.Cmd).Start, lines...) }

// ip changes the host's network.
func (h *host) ip(lines ...string) error { return batch(h.start, lines...) }

func batch(start func(*exec.Cmd) error, lines ...string) error {
	var said bytes.Buffer
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(strings.Join(lines, "\n")), &said, &said
	if err := start(cmd); err != nil {
		return fmt.Errorf("ip: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("ip %q: %w: %s", lines, err, said.Bytes())
	}
	return nil
}

// host is one that is plugged into a network.
type host struct {
	servers.Host
	name  string // what its processes take for the host's
	net   *network
	port  string // of the switch
	calls chan func()
	space string // its network, as the kernel calls it
}

// host makes one. What is left of its processes in the end is killed.
func (n *network) host(name string) *host {
	n.Helper()
	n.hosts++
	h := &host{name: name, net: n, port: fmt.Sprintf("p%d.%d", n.number, n.hosts), calls: make(chan func())}
	h.IP, h.Start = fmt.Sprintf("10.0.%d.%d", n.number, n.hosts), h.start
	made := make(chan error)
	go h.live(made)
	must(n, <-made)
	n.Cleanup(func() {
		h.killAll()
		close(h.calls)
	})
	must(n, h.ip("link set lo up", "addr add "+h.IP+"/24 dev eth0", "link set eth0 up"))
	return h
}

// live is the host's thread, which ends with the host: it isn't one that others could use.
func (h *host) live(made chan<- error) {
	runtime.LockOSThread()
	made <- h.plugIn()
	for call := range h.calls {
		call()
	}
}

func (h *host) plugIn() error {
	test := os.Getpid()
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("the name spaces of %s: %w", h.name, err)
	}
	if err := unix.Sethostname([]byte(h.name)); err != nil {
		return err
	}
	var err error
	if h.space, err = os.Readlink("/proc/thread-self/ns/net"); err != nil {
		return err
	}
	// From here on this thread's network is the host's own.
	if err := ip(fmt.Sprintf("link add eth0 type veth peer name %s netns %d", h.port, test)); err != nil {
		return err
	}
	result := make(chan error)
	go func() { result <- ip("link set "+h.port+" up", "link set "+h.port+" master "+h.net.bridge()) }()
	return <-result
}

// start starts a process on the host, which dies with it.
func (h *host) start(cmd *exec.Cmd) error {
	result := make(chan error)
	h.calls <- func() { result <- servers.StartToDieWithThread(cmd) }
	return <-result
}

// cut takes the host from the switch: whatever is sent to it or by it is lost, and neither
// end is told.
func (h *host) cut() {
	h.net.Helper()
	must(h.net, ip("link set "+h.port+" nomaster"))
}

func (h *host) heal() {
	h.net.Helper()
	must(h.net, ip("link set "+h.port+" master "+h.net.bridge()))
}

// stalled reports whether a connection of the host still waits to send again what was lost when
// the host was cut off: the pauses between its tries have grown, to seconds.
func (h *host) stalled() bool {
	h.net.Helper()
	cmd := exec.Command("ss", "--tcp", "--info", "--no-header", "state", "established")
	var out bytes.Buffer
	cmd.Stdout = &out
	must(h.net, h.start(cmd))
	must(h.net, cmd.Wait())
	return strings.Contains(out.String(), " backoff:")
}

// processes are those of the host that live.
func (h *host) processes() (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		space, _ := os.Readlink(filepath.Join(name, "ns/net")) // that of a dead one can't be read
		if pid, err := strconv.Atoi(filepath.Base(name)); err == nil && space == h.space {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (h *host) killAll() {
	for pids := h.processes(); len(pids) > 0; pids = h.processes() {
		for _, pid := range pids {
			unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(time.Millisecond) // a kill takes its time, and isn't told of
	}
}
