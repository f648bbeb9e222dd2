//go:build linux

package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

// BenchmarkManyKeys has one process hold 10,000 keys and renew each every 30 s, as flockd
// does, for a minute: its memory, and the time of the processors that it and the server
// take.
func BenchmarkManyKeys(b *testing.B) {
	const held = 10_000
	redis, etcd, postgres, mariaDB := servers.Redis(b), servers.Etcd(b, servers.Current), servers.Postgres(b), servers.MariaDB(b)
	for _, s := range []struct {
		url    string
		server *servers.Process
	}{
		{"sqlite://" + b.TempDir() + "/flockd.db", nil},
		{"redis://" + redis.Addr, redis},
		{"etcd://" + etcd.Addr, etcd},
		{postgresURL(postgres.Addr), postgres},
		{mariaDBURL(mariaDB.Addr), mariaDB},
	} {
		b.Run(strings.SplitN(s.url, ":", 2)[0], func(b *testing.B) {
			for b.Loop() {
				holdMany(b, s.url, s.server, held)
			}
		})
	}
}

func holdMany(b *testing.B, url string, server *servers.Process, held int) {
	const every, lasts = 30 * time.Second, time.Minute
	store := (&counted{url: url}).open(b)
	ctx, cancel := context.WithCancel(context.Background())
	var keepers sync.WaitGroup
	var failed atomic.Int64
	began := time.Now()
	for n := range held {
		lease, err := store.Acquire(ctx, backends.Request{
			Key: fmt.Sprint("key/", n), ID: backends.NewID(), Mode: backends.Exclusive, TTL: 5 * time.Minute,
		})
		check(b, err)
		keepers.Go(func() {
			due := every * time.Duration(n+1) / time.Duration(held) // all of them evenly, as jitter would have it
			for ; ; due = every {
				select {
				case <-time.After(due):
				case <-ctx.Done():
					return
				}
				if _, err := store.Renew(ctx, lease); err != nil && ctx.Err() == nil {
					failed.Add(1) // flockd tries again
				}
			}
		})
	}
	b.ReportMetric(float64(held)/time.Since(began).Seconds(), "grants/s")
	ours, theirs := processors(b, os.Getpid()), processorsOf(b, server)
	time.Sleep(lasts)
	b.ReportMetric(100*(processors(b, os.Getpid())-ours)/lasts.Seconds(), "own-cpu-%")
	b.ReportMetric(100*(processorsOf(b, server)-theirs)/lasts.Seconds(), "store-cpu-%")
	b.ReportMetric(status(b, os.Getpid(), "RssAnon")/1024, "own-MB")
	if server != nil {
		b.ReportMetric(memoryOf(b, server)/1024, "store-MB")
	}
	b.ReportMetric(status(b, os.Getpid(), "Threads"), "threads")
	b.ReportMetric(float64(failed.Load()), "failed-renewals")
	b.ReportMetric(0, "ns/op")
	cancel()
	keepers.Wait()
}

func processorsOf(b *testing.B, server *servers.Process) float64 {
	if server == nil {
		return 0
	}
	return sum(server, func(pid int) float64 { return processors(b, pid) })
}

// memoryOf is how much a server takes, in KB. What its processes share counts once.
func memoryOf(b *testing.B, server *servers.Process) float64 {
	return sum(server, func(pid int) float64 {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return 0 // it has ended
		}
		return field(b, text, "Pss")
	})
}

// sum is of a server and its children: PostgreSQL has one for each connection.
func sum(server *servers.Process, part func(pid int) float64) (total float64) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		var pid, parent int
		text, _ := os.ReadFile(file)
		fmt.Sscan(string(text), &pid)
		if _, rest, found := strings.Cut(string(text), ") "); found {
			fmt.Sscan(rest[2:], &parent)
		}
		if pid != 0 && (pid == server.PID() || parent == server.PID()) {
			total += part(pid)
		}
	}
	return total
}

// processors is the time that the threads of a process have taken of them, in seconds.
func processors(b *testing.B, pid int) (total float64) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	check(b, err)
	for _, task := range tasks {
		var ns float64
		if text, err := os.ReadFile(task); err == nil {
			fmt.Sscan(string(text), &ns)
		}
		total += ns / 1e9
	}
	return total
}

// status is a number of /proc/PID/status.
func status(b *testing.B, pid int, name string) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	check(b, err)
	return field(b, text, name)
}

// field is the number that follows a name.
func field(b *testing.B, text []byte, name string) float64 {
	n, err := strconv.ParseFloat(regexp.MustCompile(`(?m)^` + name + `:\s+(\d+)`).FindStringSubmatch(string(text))[1], 64)
	check(b, err)
	return n
}
