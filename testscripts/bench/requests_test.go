//go:build linux

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
				t.Run(strconv.Itoa(n), func(t *testing.T) {
					for op, requests := range s.measure(t, n) {
						counts[op] = append(counts[op], requests)
					}
				})
			}
			for _, op := range []string{"acquire", "renew", "release", "skip", "ask again", "hand-over"} {
				t.Logf("%-10s %v requests with lines of %v", op, counts[op], lines)
				least, most := slices.Min(counts[op]), slices.Max(counts[op])
				if least == 0 || float64(most) > steady*float64(least) {
					t.Errorf("%s: %d to %d requests", op, least, most)
				}
			}
		})
	}
}

// steady is how much more an operation may cost with a long line than with a short one.
const steady = 1.2

// counted is a server that tells how much it was asked.
type counted struct {
	name      string
	url       string
	requests  func() (int, error) // so far
	listeners func() (int, error) // who wait for a hint
}

// measure counts the requests of each operation with n waiters in line.
func (s counted) measure(t *testing.T, n int) map[string]int {
	q := s.queue(t, n)
	counts := map[string]int{}
	count := func(op string, f func()) {
		before := s.number(t, s.requests)
		f()
		counts[op] = s.number(t, s.requests) - before
	}
	var free backends.Lease
	count("acquire", func() { free, _ = q.ask(q.holder, q.key+"-free", backends.NewID(), 0) })
	count("release", func() { q.release(free) })
	count("renew", func() { q.renew(q.lease) })
	count("skip", func() { q.ask(q.holder, q.key, backends.NewID(), 0) })
	count("ask again", func() { q.ask(q.waiter, q.key, q.last, time.Minute) })
	count("hand-over", func() {
		q.release(q.lease)
		if err := <-q.woken; err != nil {
			t.Error(err)
		}
		if lease, held := q.ask(q.waiter, q.key, q.first, time.Minute); held != nil {
			t.Errorf("the first in line got %+v, %+v", lease, held)
		}
	})
	return counts
}

// queue is a key that is held, and a line of whom all listen for a hint.
type queue struct {
	*testing.T
	ctx            context.Context // ends the waits
	holder, waiter backends.Backend
	key            string
	lease          backends.Lease
	first, last    string     // IDs in line
	woken          chan error // what the first heard
}

// queue makes a line of n. All connections are there by then, and the server knows
// every script.
func (s counted) queue(t *testing.T, n int) *queue {
	ctx, cancel := context.WithCancel(t.Context())
	q := &queue{T: t, ctx: ctx, holder: s.open(t), waiter: s.open(t), key: "line-" + strconv.Itoa(n), woken: make(chan error, 1)}
	warm, _ := q.ask(q.holder, q.key+"-warm", backends.NewID(), 0)
	q.renew(warm)
	q.release(warm)
	q.lease, _ = q.ask(q.holder, q.key, backends.NewID(), 0)
	for i := range n {
		q.last = backends.NewID()
		_, held := q.ask(q.waiter, q.key, q.last, time.Minute)
		if i == 0 {
			q.first = q.last
		}
		go func() {
			waiter, _ := backends.As[backends.Waiter](q.waiter)
			if err := waiter.Wait(ctx, held); i == 0 {
				q.woken <- err
			}
		}()
	}
	s.listen(t, n)
	t.Cleanup(func() { cancel(); s.listen(t, 0) })
	return q
}

// ask asks once; nil: it was granted.
func (q *queue) ask(b backends.Backend, key, id string, place time.Duration) (backends.Lease, *backends.HeldError) {
	q.Helper()
	lease, err := b.Acquire(q.ctx, backends.Request{Key: key, ID: id, Mode: backends.Exclusive, TTL: 5 * time.Minute, Place: place})
	var held *backends.HeldError
	if err != nil && !errors.As(err, &held) {
		q.Fatal(err)
	}
	return lease, held
}

func (q *queue) renew(lease backends.Lease) {
	q.Helper()
	if _, err := q.holder.Renew(q.ctx, lease); err != nil {
		q.Error(err)
	}
}

func (q *queue) release(lease backends.Lease) {
	q.Helper()
	if err := q.holder.Release(q.ctx, lease.Key, lease.ID, backends.Outcome{Class: "finished", Success: true}); err != nil {
		q.Error(err)
	}
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
