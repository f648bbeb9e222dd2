//go:build linux

package testscripts

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The signals are caught before the program's heavy packages are initialised.
func TestSignalsAreCaughtEarly(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "flockd"), "run", "nothing", "-k")
	cmd.Env = []string{"GODEBUG=inittrace=1"}
	out, _ := cmd.CombinedOutput() // a usage error
	trace, err := initTrace(string(out))
	if err != nil {
		t.Fatal(err)
	}
	ours := slices.IndexFunc(trace, func(p initialised) bool { return p.path == "flockd/runner/signals" })
	if ours < 0 {
		t.Fatalf("they aren't caught:\n%s", out)
	}
	if faults := tooHeavy(trace[:ours]); len(faults) > 0 {
		t.Error(strings.Join(faults, "\n"))
	}
}

// dawn is many starts of flockd, each with a signal in its first moments.
type dawn struct {
	*rig
	signal  syscall.Signal
	mu      sync.Mutex
	results map[string]int
}

// A signal that comes while flockd starts ends it, with nothing held or started, or
// comes to the command. Before Go has started, what the kernel or Go does by default
// is done; after the signals are caught, none of it.
func TestSignalsWhileFlockdStarts(t *testing.T) {
	t.Parallel()
	for _, sig := range []string{"HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "WINCH", "CONT"} {
		t.Run(sig, func(t *testing.T) {
			d := &dawn{rig: embedded(t), signal: unix.SignalNum("SIG" + sig), results: map[string]int{}}
			d.run(d.via, "k", "true").ends(0)
			var all sync.WaitGroup
			for worker := range 2 {
				all.Go(func() {
					for n := range starts() / 2 {
						d.start(strconv.Itoa(2*n + worker))
					}
				})
			}
			all.Wait()
			t.Log(d.results)
		})
	}
}

// starts is how many there are of each signal: FLOCKD_STARTS, or what a test has time for.
func starts() int {
	if n, err := strconv.Atoi(os.Getenv("FLOCKD_STARTS")); err == nil {
		return n
	}
	return 40
}

func (d *dawn) start(name string) {
	flockd := d.run(d.via, name, "-c", `echo $$ >`+name+`; exec sleep 1000`)
	must(d, unix.Prlimit(flockd.cmd.Process.Pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)) // QUIT would leave files
	for end := time.Now().Add(rand.N(15 * time.Millisecond)); time.Now().Before(end); {  // busily: a sleep would be too long
	}
	caught := catches(flockd.cmd.Process.Pid)
	flockd.cmd.Process.Signal(d.signal)
	until(d, "the command or an end", func() bool { return d.pid(name) != 0 || flockd.over() })
	for range 3 { // two that are pending together may be taken in any order
		until(d, "rest, or an end", func() bool { return flockd.over() || atRest(flockd.cmd.Process.Pid) })
	}
	flockd.cmd.Process.Signal(syscall.SIGTERM) // for a command that it didn't end
	d.judge(name, flockd.status(), caught, flockd.stderr.String())
}

// catches reports whether a flockd catches all signals by now: the thread that waits for
// them lets through even the last one.
func catches(flockd int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", flockd))
	return slices.ContainsFunc(threads, func(file string) bool {
		blocked := mask(file, "SigBlk")
		return blocked != 0 && blocked&(1<<(syscall.SIGCONT-1)) == 0
	})
}

// mask is a set of signals in a status file of /proc.
func mask(file, name string) uint64 {
	status, _ := os.ReadFile(file)
	_, text, _ := strings.Cut(string(status), name+":")
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	set, _ := strconv.ParseUint(text, 16, 64)
	return set
}

// judge says how a start came out, and whether it may.
func (d *dawn) judge(name string, status int, caught bool, stderr string) {
	pid, started := d.pid(name), d.exists(name)
	deadly := d.signal != syscall.SIGWINCH && d.signal != syscall.SIGCONT
	result := "neither died"
	switch {
	case status == 128+int(d.signal) && started:
		result = "the command died"
	case status == 128+int(d.signal):
		result = "died with nothing started"
	case (strings.Contains(stderr, "goroutine") || strings.HasPrefix(stderr, "runtime: ")) && !started: // its dump, or its fault
		result = "died in Go's own way"
	case status == 128+int(syscall.SIGTERM) && started && deadly:
		result = "swallowed"
	case status != 128+int(syscall.SIGTERM):
		result = fmt.Sprint("status ", status)
	}
	d.mu.Lock()
	d.results[result]++
	if caught {
		d.results["caught"]++
	}
	d.mu.Unlock()
	if strings.HasPrefix(result, "status ") || caught && (result == "swallowed" || result == "died in Go's own way") {
		d.Errorf("%s: %s, caught %v, started %v:\n%s", name, result, caught, started, stderr)
	}
	if n := d.claims(name); n != 0 {
		d.Errorf("%s: %s, and %d claims are left", name, result, n)
	}
	if pid != 0 && !over(state(pid)) {
		d.Errorf("%s: %s, and the command lives", name, result)
	}
}

// pid is the number in a file; 0: none yet.
func (r *rig) pid(file string) int {
	text, _ := os.ReadFile(filepath.Join(r.dir, file))
	pid, _ := strconv.Atoi(strings.TrimSuffix(string(text), "\n"))
	return pid
}

// claims are those on a key, now.
func (r *rig) claims(key string) (n int) {
	r.Helper()
	r.row(`SELECT count(*) FROM claims WHERE key = ?`, key, &n)
	return n
}
