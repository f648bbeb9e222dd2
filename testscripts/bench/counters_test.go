//go:build linux

package bench

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	_ "github.com/mattn/go-sqlite3"

	"flockd/backends/backendtest/servers"
)

// counted is a store that tells how much was asked of it.
type counted struct {
	name      string
	url       string
	spent     func() (cost, error)
	listeners func(want int) (int, error) // who wait for a hint
	looks     bool                        // who waits looks for a hint every so often
	often     float64                     // how many operations a second a waiter may do
	free      map[string]bool             // operations that cost nothing that is counted
	steady    float64                     // how much more bytes may be with a long line than with a short one
}

// counters are the stores. Redis and etcd count requests themselves; with the databases it
// is round trips. The bytes of all of them are those on the wire.
func counters(t testing.TB) []*counted {
	return []*counted{ofFile(t), ofRedis(t), ofEtcd(t), ofPostgres(t), ofMariaDB(t)}
}

func ofRedis(t testing.TB) *counted {
	server := servers.Redis(t)
	return through(t, func(addr string) string { return "redis://" + addr }, server,
		func(*servers.TCPProxy) (int, error) { return redisCalls(server.Addr) },
		func(int) (int, error) { return redisBlocked(server.Addr) })
}

func ofEtcd(t testing.TB) *counted {
	server := servers.Etcd(t, servers.Current)
	return through(t, func(addr string) string { return "etcd://" + addr }, server,
		func(*servers.TCPProxy) (int, error) { return etcdRequests(server.Addr) },
		func(int) (int, error) { return etcdWatches(server.Addr) })
}

// through is a store whose URL has the address of a proxy, which counts bytes.
func through(t testing.TB, url func(addr string) string, server *servers.Process,
	requests func(*servers.TCPProxy) (int, error), listeners func(int) (int, error),
) *counted {
	link := servers.Proxy(t, server.Addr)
	scheme, _, _ := strings.Cut(url(""), ":")
	return &counted{
		name: scheme, url: url(link.Addr), listeners: listeners, often: 0.5, steady: 1.2,
		spent: func() (cost, error) {
			n, err := requests(link)
			return cost{float64(n), float64(link.Passed(servers.Requests)), float64(link.Passed(servers.Replies))}, err
		},
	}
}

// ofFile is a database, of which the log is counted: its transactions that wrote, and
// their bytes. Nobody can begin the log anew, for a reader is in it.
func ofFile(t testing.TB) *counted {
	file := filepath.Join(t.TempDir(), "flockd.db")
	s := &counted{
		name: "sqlite", url: "sqlite://" + file, often: 0.5, steady: 4, // whole pages, of trees that grow by a level, and split here and there
		spent:     func() (cost, error) { return logged(file + "-wal") },
		listeners: func(want int) (int, error) { return want, nil }, // who comes late misses no hint
		free:      map[string]bool{"skip": true},
	}
	s.open(t)
	db, err := sql.Open("sqlite3", "file:"+file)
	check(t, err)
	t.Cleanup(func() { db.Close() })
	reader, err := db.Begin()
	check(t, err)
	var tables int
	check(t, reader.QueryRow("SELECT count(*) FROM sqlite_schema").Scan(&tables))
	t.Cleanup(func() { reader.Rollback() })
	return s
}

// logged reads a write-ahead log: after a header of 32 bytes frames of a header of 24 and
// a page, of which the last of a transaction has the size of the database as its second
// word. See https://sqlite.org/fileformat2.html#walformat.
func logged(file string) (c cost, err error) {
	text, err := os.ReadFile(file)
	if err != nil || len(text) < 32 {
		return cost{}, err
	}
	salt, frame := string(text[16:24]), 24+int(binary.BigEndian.Uint32(text[8:]))
	for text = text[32:]; len(text) >= frame && string(text[8:16]) == salt; text = text[frame:] {
		c.bytes += float64(frame)
		if binary.BigEndian.Uint32(text[4:]) != 0 {
			c.requests++
		}
	}
	return c, nil
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

// etcdRequests counts calls, and of those that watch the messages, of which each asks for a
// watch. With the others the server counts the end of what is sent as one more message.
func etcdRequests(addr string) (int, error) {
	watch := func(labels string) bool { return strings.Contains(labels, `grpc_method="Watch"`) }
	calls, err1 := metric(addr, "grpc_server_started_total", func(labels string) bool { return !watch(labels) })
	watches, err2 := metric(addr, "grpc_server_msg_received_total", watch)
	return calls + watches, errors.Join(err1, err2)
}

func etcdWatches(addr string) (int, error) {
	return metric(addr, "etcd_debugging_mvcc_watcher_total", func(string) bool { return true })
}

// metric sums a metric of etcd over those of its labels that count.
func metric(addr, name string, counts func(labels string) bool) (int, error) {
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
		labels, is := strings.CutPrefix(line, name)
		if !is || labels[0] != '{' && labels[0] != ' ' || !counts(labels) {
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
