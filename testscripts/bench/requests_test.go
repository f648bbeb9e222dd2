package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/all"
	"flockd/backends/backendtest/servers"
)

// TestRequestsDontGrowWithTheLine counts what a server is asked for each operation,
// with lines of different lengths, and all of whom wait listening.
func TestRequestsDontGrowWithTheLine(t *testing.T) {
	redis := servers.Redis(t)
	etcd := servers.Etcd(t, servers.Current)
	for _, s := range []counted{
		{"redis", "redis://" + redis.Addr, func() (int, error) { return redisCalls(redis.Addr) }, func() (int, error) { return redisBlocked(redis.Addr) }},
		{"etcd", "etcd://" + etcd.Addr, func() (int, error) { return metric(etcd.Addr, "grpc_server_started_total") }, func() (int, error) { return metric(etcd.Addr, "etcd_debugging_mvcc_watcher_total") }},
	} {
		t.Run(s.name, func(t *testing.T) {
			lines := []int{2, 20, 200, 500}
			counts := map[string][]int{}
			for _, n := range lines {
				for op, requests := range s.measure(t, n) {
					counts[op] = append(counts[op], requests)
				}
			}
			for _, op := range []string{"acquire", "renew", "release", "skip", "ask again", "hand-over"} {
				t.Logf("%-10s %v requests with lines of %v", op, counts[op], lines)
				least, most := slices.Min(counts[op]), slices.Max(counts[op])
				if least == 0 || float64(most) > 1.2*float64(least) {
					t.Errorf("%s: %d to %d requests", op, least, most)
				}
			}
		})
	}
}

// counted is a server that tells how much it was asked.
type counted struct {
	name      string
	url       string
	requests  func() (int, error) // so far
	listeners func() (int, error) // who wait for a hint
}

// measure counts the requests of each operation with n waiters in line.
func (s counted) measure(t *testing.T, n int) map[string]int {
	ctx, cancel := context.WithCancel(t.Context())
	defer func() {
		cancel()
		s.listen(t, 0)
	}()
	holder, line := s.open(t), s.open(t)
	counts := map[string]int{}
	count := func(op string, f func()) {
		before := s.number(t, s.requests)
		f()
		counts[op] = s.number(t, s.requests) - before
	}
	key := "line-" + strconv.Itoa(n)
	ask := func(b backends.Backend, key, id string, place time.Duration) (backends.Lease, *backends.HeldError) {
		lease, err := b.Acquire(ctx, backends.Request{Key: key, ID: id, Mode: backends.Exclusive, TTL: 5 * time.Minute, Place: place})
		var held *backends.HeldError
		if err != nil && !errors.As(err, &held) {
			t.Fatal(err)
		}
		return lease, held
	}
	release := func(lease backends.Lease) {
		if err := holder.Release(ctx, lease.Key, lease.ID, backends.Outcome{Class: "finished", Success: true}); err != nil {
			t.Error(err)
		}
	}
	renew := func(lease backends.Lease) {
		if _, err := holder.Renew(ctx, lease); err != nil {
			t.Error(err)
		}
	}
	warm, _ := ask(holder, key+"-warm", backends.NewID(), 0) // makes the connection, and loads the scripts
	renew(warm)
	release(warm)

	var lease backends.Lease
	count("acquire", func() { lease, _ = ask(holder, key, backends.NewID(), 0) })
	woken := make(chan error, n)
	var first, last string
	for i := range n {
		id := backends.NewID()
		if i == 0 {
			first = id
		}
		last = id
		_, held := ask(line, key, id, time.Minute)
		go func() {
			waiter, _ := backends.As[backends.Waiter](line)
			err := waiter.Wait(ctx, held)
			if i == 0 {
				woken <- err
			}
		}()
	}
	s.listen(t, n)
	count("renew", func() { renew(lease) })
	count("skip", func() { ask(holder, key, backends.NewID(), 0) })
	count("ask again", func() { ask(line, key, last, time.Minute) })
	count("hand-over", func() {
		release(lease)
		if err := <-woken; err != nil {
			t.Error(err)
		}
		if lease, held := ask(line, key, first, time.Minute); held != nil {
			t.Errorf("the first in line got %+v, %+v", lease, held)
		}
	})
	free, _ := ask(holder, key+"-free", backends.NewID(), 0)
	count("release", func() { release(free) })
	return counts
}

// listen waits until n listen.
func (s counted) listen(t *testing.T, n int) {
	t.Helper()
	if err := await(func() (bool, error) { listening, err := s.listeners(); return listening == n, err }); err != nil {
		t.Fatalf("%d listen, not %d: %v", s.number(t, s.listeners), n, err)
	}
}

// open connects to the server; the end of the test disconnects, and so ends the waits.
func (s counted) open(t *testing.T) backends.Backend {
	u, err := backends.ParseURL(s.url)
	if err != nil {
		t.Fatal(err)
	}
	b, err := all.Open(context.Background(), u)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func (s counted) number(t *testing.T, of func() (int, error)) int {
	n, err := of()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// redisCalls counts the commands that a driver sends. Others, in the same figures, are
// those that its scripts call.
func redisCalls(addr string) (n int, err error) {
	out, err := redisInfo(addr, "commandstats")
	for _, m := range regexp.MustCompile(`(?m)^cmdstat_(eval|evalsha|evalsha_ro|script|blpop|rpush|wait):calls=(\d+)`).FindAllStringSubmatch(out, -1) {
		calls, _ := strconv.Atoi(m[2])
		n += calls
	}
	return n, err
}

func redisBlocked(addr string) (int, error) {
	out, err := redisInfo(addr, "clients")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(regexp.MustCompile(`blocked_clients:(\d+)`).FindStringSubmatch(out)[1])
}

func redisInfo(addr, section string) (string, error) {
	out, err := exec.Command("redis-cli", "-u", "redis://"+addr, "info", section).Output()
	return string(out), err
}

// metric sums a metric of etcd over its labels.
func metric(addr, name string) (int, error) {
	resp, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, name+"{") && !strings.HasPrefix(line, name+" ") {
			continue
		}
		value, err := strconv.ParseFloat(strings.Fields(line[strings.LastIndexByte(line, ' '):])[0], 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		sum += value
	}
	return int(sum), nil
}
