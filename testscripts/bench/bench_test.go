//go:build linux

// Package bench measures the program beside other lockers in paired runs: each round
// runs one after the other, in turn first, so that a busy machine slows both. Reported
// is the median of the rounds' ratios.
//
//	go test ./testscripts/bench -bench . -benchtime 1x -flockd PATH
package bench

import (
	"errors"
	"flag"
	"fmt"
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

var flockd = flag.String("flockd", "flockd", "the program to measure")

const (
	waiters = 20 // in line in a hand-over

	// So many rounds make a median steady to a few percent, in a minute a store.
	starts    = 200
	handOvers = 15
)

// locker is a program that runs commands under a lock.
type locker struct {
	name    string
	skipped int                              // its exit status for a key that is taken
	try     func(key string) []string        // its arguments to run a command that follows, or skip it
	wait    func(key string) []string        // the same, waiting for its turn
	stands  func(cmd *exec.Cmd, n int) error // starts cmd, and returns when it is the nth to wait
}

func BenchmarkSQLite(b *testing.B) {
	dir := b.TempDir()
	compare(b, program("sqlite://"+dir+"/flockd.db"), flock(filepath.Join(dir, "flock")))
	b.Run("memory", func(b *testing.B) { memory(b, "sqlite://"+dir+"/flockd.db") })
}

func BenchmarkRedis(b *testing.B) {
	s := servers.Redis(b)
	compare(b, program("redis://"+s.Addr), flock(filepath.Join(b.TempDir(), "flock")))
}

func BenchmarkPostgres(b *testing.B) {
	compare(b, program(postgresURL(servers.Postgres(b).Addr)), flock(filepath.Join(b.TempDir(), "flock")))
}

func BenchmarkMariaDB(b *testing.B) {
	compare(b, program(mariaDBURL(servers.MariaDB(b).Addr)), flock(filepath.Join(b.TempDir(), "flock")))
}

// BenchmarkEtcd: both lockers take the same steps of the disk, the server's.
func BenchmarkEtcd(b *testing.B) {
	s := servers.Etcd(b, servers.Current)
	compare(b, program("etcd://"+s.Addr), etcdctl(s.Addr))
}

func program(url string) locker {
	args := func(key string, more ...string) []string {
		return slices.Concat([]string{*flockd, "run", "-q", "--backend", url, "--key", key}, more, []string{"--"})
	}
	return locker{
		name: "flockd", skipped: 75,
		try:  func(key string) []string { return args(key) },
		wait: func(key string) []string { return args(key, "--wait", "1m") },
		stands: func(cmd *exec.Cmd, _ int) error {
			i := slices.Index(cmd.Args, "-q")
			cmd.Args = slices.Delete(cmd.Args, i, i+1)
			stderr, err := cmd.StderrPipe()
			if err != nil {
				return err
			}
			if err := cmd.Start(); err != nil {
				return err
			}
			_, err = stderr.Read(make([]byte, 1)) // it says that it waits
			return err
		},
	}
}

func flock(file string) locker {
	return locker{
		name: "flock", skipped: 1,
		try:  func(key string) []string { return []string{"flock", "-n", file + key} },
		wait: func(key string) []string { return []string{"flock", file + key} },
		stands: func(cmd *exec.Cmd, n int) error {
			if err := cmd.Start(); err != nil {
				return err
			}
			return await(func() (bool, error) {
				blocked, err := blocked(cmd.Args[1])
				return blocked == n, err
			})
		},
	}
}

// etcdctl can't skip: it always waits.
func etcdctl(addr string) locker {
	lock := func(key string) []string { return []string{"etcdctl", "--endpoints", addr, "lock", "--", key} }
	return locker{
		name: "etcdctl", try: lock, wait: lock,
		stands: func(cmd *exec.Cmd, n int) error {
			if err := cmd.Start(); err != nil {
				return err
			}
			return await(func() (bool, error) {
				out, err := exec.Command("etcdctl", "--endpoints", addr, "get", "--prefix", "--keys-only", cmd.Args[5]+"/").Output()
				return strings.Count(string(out), "/") == n+1, err
			})
		},
	}
}

// compare reports ours beside theirs.
func compare(b *testing.B, ours, theirs locker) {
	b.Run("uncontended", func(b *testing.B) {
		sideBySide(b, starts, ours, theirs, func(l locker) time.Duration { return timed(b, 0, append(l.try("free"), "true")) })
	})
	if theirs.skipped != 0 {
		b.Run("skip", func(b *testing.B) {
			for _, l := range []locker{ours, theirs} {
				defer hold(b, l.try("held"))()
			}
			sideBySide(b, starts, ours, theirs, func(l locker) time.Duration { return timed(b, l.skipped, append(l.try("held"), "true")) })
		})
	}
	b.Run(fmt.Sprintf("handover-%d", waiters), func(b *testing.B) {
		sideBySide(b, handOvers, ours, theirs, func(l locker) time.Duration { return handOver(b, l) })
	})
}

// sideBySide reports the medians of the ratio and of both times.
func sideBySide(b *testing.B, rounds int, ours, theirs locker, measure func(locker) time.Duration) {
	for b.Loop() {
		var x, y []time.Duration
		var ratios []float64
		for i := range rounds + 3 {
			var o, t time.Duration
			if i%2 == 0 {
				o, t = measure(ours), measure(theirs)
			} else {
				t, o = measure(theirs), measure(ours)
			}
			if i < 3 {
				continue // the first rounds warm the caches
			}
			x, y, ratios = append(x, o), append(y, t), append(ratios, float64(o)/float64(t))
		}
		b.ReportMetric(median(ratios), "ratio")
		b.ReportMetric(float64(median(x).Microseconds())/1000, ours.name+"-ms")
		b.ReportMetric(float64(median(y).Microseconds())/1000, theirs.name+"-ms")
		b.ReportMetric(0, "ns/op") // of a whole series: says nothing
	}
}

func median[T float64 | time.Duration](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}

// timed runs a command, wants its exit status, and returns its time.
func timed(b *testing.B, status int, argv []string) time.Duration {
	cmd := exec.Command(argv[0], argv[1:]...)
	start := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(start)
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != status {
		b.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return took
}

// hold starts a command that holds until release is called. It waits at a pipe with a
// name, for etcdctl passes no stdin on.
func hold(b *testing.B, argv []string) (release func()) {
	pipe := filepath.Join(b.TempDir(), "go")
	check(b, syscall.Mkfifo(pipe, 0o600))
	cmd := exec.Command(argv[0], append(argv[1:], "sh", "-c", "echo; : <"+pipe)...)
	out, err := cmd.StdoutPipe()
	check(b, err)
	check(b, cmd.Start())
	_, err = out.Read(make([]byte, 1))
	check(b, err)
	return func() {
		f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
		check(b, err)
		f.Close()
		check(b, cmd.Wait())
	}
}

// handOver is how long it takes from a release until the last of the waiters has
// run true.
func handOver(b *testing.B, l locker) time.Duration {
	release := hold(b, l.wait("line"))
	var line []*exec.Cmd
	for n := range waiters {
		argv := append(l.wait("line"), "true")
		cmd := exec.Command(argv[0], argv[1:]...)
		check(b, l.stands(cmd, n+1))
		line = append(line, cmd)
	}
	start := time.Now()
	release()
	for _, cmd := range line {
		check(b, cmd.Wait())
	}
	return time.Since(start)
}

// blocked counts who waits for a file.
func blocked(file string) (n int, err error) {
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0, err
	}
	inode, err := exec.Command("stat", "-c", "%i", file).Output()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(locks)) {
		if strings.Contains(line, "-> FLOCK") && strings.Contains(line, ":"+strings.TrimSpace(string(inode))+" ") {
			n++
		}
	}
	return n, nil
}

// await waits for what comes within milliseconds on an idle machine.
func await(ready func() (bool, error)) error {
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		ok, err := ready()
		switch {
		case ok || err != nil:
			return err
		case time.Now().After(end):
			return errors.New("it takes too long")
		}
	}
}

// memory reports the high water mark of the program around a command, and how much of
// it is the process's own: the rest are pages of the program's file, which all share.
func memory(b *testing.B, url string) {
	for b.Loop() {
		argv := append(program(url).try("memory"), "sh", "-c", "cat /proc/$PPID/status")
		out, err := exec.Command(argv[0], argv[1:]...).Output()
		check(b, err)
		for line := range strings.Lines(string(out)) {
			field := strings.Fields(line)
			unit := map[string]string{"VmHWM:": "peak-MB", "RssAnon:": "own-MB"}[field[0]]
			if unit == "" {
				continue
			}
			kb, err := strconv.Atoi(field[1])
			check(b, err)
			b.ReportMetric(float64(kb)/1024, unit)
		}
		b.ReportMetric(0, "ns/op")
	}
}

func check(b testing.TB, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
