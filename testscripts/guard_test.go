//go:build linux

package testscripts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// initialised is a package of a GODEBUG=inittrace=1.
type initialised struct {
	path  string
	bytes int
}

// initTrace reads lines as `init net/http @5.9 ms, 0.002 ms clock, 64 bytes, 2 allocs`.
func initTrace(text string) (trace []initialised, err error) {
	for line := range strings.Lines(text) {
		var p initialised
		var at, clock float64
		if !strings.HasPrefix(line, "init ") {
			continue
		}
		if _, err := fmt.Sscanf(line, "init %s @%f ms, %f ms clock, %d bytes,", &p.path, &at, &clock, &p.bytes); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		trace = append(trace, p)
	}
	return trace, nil
}

// heavy packages have more to do than a guard should wait for, or need such. Some small
// ones that are below them are initialised before a guard, as they need nothing.
var heavy = []string{
	"flockd/backends/sqlite", "flockd/backends/redis", "flockd/backends/etcd", "flockd/cmd", "net", "net/http", "crypto/tls", "crypto/x509",
	"google.golang.org/grpc", "google.golang.org/protobuf/internal/impl", "go.etcd.io/etcd/client/v3", "github.com/redis/go-redis/v9", "github.com/spf13/cobra",
}

// mostInits is what all packages before the guard's may allocate. They do 45 kB.
const mostInits = 64 << 10

// tooHeavy says what is wrong with a guard's trace.
func tooHeavy(trace []initialised) (faults []string) {
	sum := 0
	for _, p := range trace {
		sum += p.bytes
		if slices.Contains(heavy, p.path) {
			faults = append(faults, p.path+" is initialised before a guard")
		}
	}
	if sum > mostInits {
		faults = append(faults, fmt.Sprintf("%d bytes are allocated before a guard, more than %d", sum, mostInits))
	}
	return faults
}

// A guard is at work before the program's heavy packages are initialised.
func TestGuardIsEarly(t *testing.T) {
	for name, args := range map[string][]string{"guard": {"flockd-guard", "k"}, "flockd": {"flockd", "version"}} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "flockd"))
			cmd.Args, cmd.Env = args, []string{"GODEBUG=inittrace=1"} // its pipe is closed, so that it ends
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			trace, err := initTrace(string(out))
			if err != nil || len(trace) == 0 {
				t.Fatalf("%v\n%s", err, out)
			}
			faults := tooHeavy(trace)
			if name == "guard" && len(faults) > 0 {
				t.Error(strings.Join(faults, "\n"))
			}
			if name == "flockd" && len(faults) < len(heavy) {
				t.Errorf("in the whole program no more is seen than\n%s", strings.Join(faults, "\n"))
			}
		})
	}
}

func TestTooHeavy(t *testing.T) {
	for text, want := range map[string]int{
		"init flag @8.2 ms, 0.001 ms clock, 128 bytes, 2 allocs\n":                                      0,
		"init flag @8.2 ms, 0.001 ms clock, 70000 bytes, 2 allocs\n":                                    1,
		"init netx @8.2 ms, 0 ms clock, 1 bytes, 1 allocs\nsomething else\n":                            0,
		"init net @8.2 ms, 0 ms clock, 1 bytes, 1 allocs\n":                                             1,
		"init google.golang.org/protobuf/internal/impl @8.2 ms, 12 ms clock, 99000 bytes, 999 allocs\n": 2,
	} {
		trace, err := initTrace(text)
		if got := tooHeavy(trace); err != nil || len(got) != want {
			t.Errorf("%s: %v, %q", text, err, got)
		}
	}
	if _, err := initTrace("init net: another form\n"); err == nil {
		t.Error("a trace of another form is taken")
	}
}

// embedded is a rig with a store of its own in a file.
func embedded(t *testing.T) *rig {
	r := newFolder(t)
	r.via = "sqlite://" + filepath.Join(r.dir, "flockd.db")
	r.direct = r.via
	return r
}

// row reads one of a key's from the store, behind flockd's back.
func (r *rig) row(statement, key string, into ...any) {
	r.Helper()
	db := openDB(filepath.Join(r.dir, "flockd.db"))
	defer db.Close()
	must(r, db.QueryRow(statement, key).Scan(into...))
}

// holdsUntil is until when the hold of k can be proven.
func (r *rig) holdsUntil() int64 {
	r.Helper()
	var renewed, expires int64
	r.row(holdOf, "k", &renewed, &expires)
	return provenUntil(renewed, expires)
}

// A guard costs little, on hosts with hundreds of jobs.
func TestGuardIsSmall(t *testing.T) {
	const most = 1536 // kB
	r := embedded(t)
	j := r.probes("stamps", "--ttl", "1s")
	guard, end := j.guarded(), r.holdsUntil()
	for news := range 4 {
		private := privateMemory(t, guard)
		t.Logf("private memory after %d new deadlines: %d kB", news, private)
		if private == 0 || private > most {
			t.Errorf("%d kB of private memory, want at most %d", private, most)
		}
		until(t, "a renewal", func() bool { before := end; end = r.holdsUntil(); return end > before })
	}
	j.cmd.Process.Kill()
	r.free(time.Second)
}

// privateMemory of a process in kB.
func privateMemory(t testing.TB, pid int) (sum int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var n int
		for _, kind := range []string{"Clean", "Dirty"} {
			if _, err := fmt.Sscanf(line, "Private_"+kind+": %d kB", &n); err == nil {
				sum += n
			}
		}
	}
	return sum
}

// In a time namespace the clocks of flockd and its guard are off by the same.
func TestGuardInATimeNamespace(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ monotonic, boottime time.Duration }{
		"ahead":  {100_000 * time.Second, 300_000 * time.Second},
		"behind": {-30 * time.Second, -20 * time.Second},
		"apart":  {-30 * time.Second, 1_000_000 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := embedded(t)
			r.run(r.direct, "k", "--", "true").ends(0)
			j := r.elsewhen(tc.monotonic, tc.boottime, "frozen")
			r.frozen(j, "frozen", tc.monotonic)
			j.cmd.Process.Kill()
			r.free(2 * time.Second)
			j = r.elsewhen(tc.monotonic, tc.boottime, "killed")
			j.cmd.Process.Kill()
			r.died("killed")
			r.free(2 * time.Second)
		})
	}
	t.Run("remote", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, redis)
		j := r.elsewhen(0, 1_000_000*time.Second, "stamps")
		next := r.successor()
		j.freeze()
		next.ends(0)
		r.before("stamps", "next")
		j.cmd.Process.Kill()
	})
}

// elsewhen holds k for 2 s with a probe, in a namespace whose clocks are ahead.
func (r *rig) elsewhen(monotonic, boottime time.Duration, stamps string) *job {
	r.Helper()
	j := r.launch(exec.Command("unshare", "--time", fmt.Sprint("--monotonic=", int64(monotonic.Seconds())), fmt.Sprint("--boottime=", int64(boottime.Seconds())),
		filepath.Join(bin, "flockd"), "run", "--backend", r.via, "--key", "k", "--ttl", "2s", "--", "probe", stamps, "deaf"))
	r.await(stamps)
	return j
}

// On a host with far more work than processors, too, a frozen flockd's command is dead
// in time.
func TestGuardOnABusyHost(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("as root a guard runs before others: run this test as root")
	}
	r := embedded(t)
	j := r.probes("stamps", "--ttl", "4s")
	j.guarded()
	for range 64 {
		hog := exec.Command("sh", "-c", "ulimit -t 1; while :; do :; done") // far more than it gets
		hog.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := hog.Start(); err != nil {
			t.Fatal(err)
		}
		unix.Setpriority(unix.PRIO_PROCESS, hog.Process.Pid, 19)
		defer hog.Wait()
		defer hog.Process.Kill()
	}
	r.frozen(j, "stamps", 0)
	j.cmd.Process.Kill()
	r.free(4 * time.Second)
}

// guarded waits for its guard.
func (j *job) guarded() (guard int) {
	j.r.Helper()
	until(j.r, "a guard", func() bool { guard = guardOf(j.cmd.Process.Pid); return guard != 0 })
	return guard
}

// freeze stops it, once it has a guard.
func (j *job) freeze() {
	j.r.Helper()
	j.guarded()
	pid := j.cmd.Process.Pid
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		j.r.Fatal(err)
	}
	until(j.r, "stopped", func() bool { return state(pid) == 'T' })
}

// died waits for the end of a probe, which isn't our child.
func (r *rig) died(stamps string) {
	r.Helper()
	pid := int(r.number(stamps + ".pid"))
	until(r, "dead", func() bool { return over(state(pid)) })
}

// frozen freezes a flockd, and wants its probe to die before the lease ends, and not
// at once. ahead is how far the probe's clock is.
func (r *rig) frozen(j *job, stamps string, ahead time.Duration) {
	r.Helper()
	j.freeze()
	began, end := monotonic(), r.holdsUntil()
	r.died(stamps)
	last := r.number(stamps) - int64(ahead)
	r.Logf("last instruction %v before the lease could not be proven any more", time.Duration(end-last))
	if last >= end {
		r.Errorf("alive %v too long", time.Duration(last-end))
	}
	if last <= began {
		r.Errorf("dead %v before it was frozen", time.Duration(began-last))
	}
}
