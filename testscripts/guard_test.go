package testscripts

import (
	"bytes"
	"database/sql"
	"errors"
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

// guardAtWork waits until the guard of a flockd waits for news.
func (r *rig) guardAtWork(flockd int) (guard int) {
	r.Helper()
	until(r, "a guard at work", func() bool {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", flockd, flockd))
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", flockd))
		for _, list := range lists {
			more, _ := os.ReadFile(list)
			text = append(append(text, ' '), more...)
		}
		for field := range strings.FieldsSeq(string(text)) {
			name, _ := os.ReadFile("/proc/" + field + "/comm")
			waiting, _ := os.ReadFile("/proc/" + field + "/wchan")
			if string(name) == "flockd-guard\n" && bytes.Contains(waiting, []byte("poll")) {
				guard, _ = strconv.Atoi(field)
			}
		}
		return guard != 0
	})
	return guard
}

// hold is until when the hold of k can be proven, as reckoned by provenUntil; 0: nobody
// holds it.
func (r *rig) hold(db *sql.DB) int64 {
	r.Helper()
	var renewed, expires int64
	err := db.QueryRow(holdOf, "k").Scan(&renewed, &expires)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		r.Fatal(err)
	}
	return provenUntil(renewed, expires)
}

func (r *rig) database() *sql.DB {
	db := openDB(filepath.Join(r.dir, "flockd.db"))
	r.Cleanup(func() { db.Close() })
	return db
}

// stop freezes a process, and waits until it is.
func (r *rig) stop(pid int) {
	r.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		r.Fatal(err)
	}
	until(r, "stopped", func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return bytes.Contains(stat, []byte(") T "))
	})
}

// died waits for the end of a process that isn't our child.
func (r *rig) died(pid int) {
	r.Helper()
	until(r, "dead", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || bytes.Contains(stat, []byte(") Z "))
	})
}

// A guard costs little, on hosts with hundreds of jobs.
func TestGuardIsSmall(t *testing.T) {
	const most = 1536 // kB
	r := embedded(t)
	j := r.probes("stamps", "--ttl", "1s")
	guard := r.guardAtWork(j.cmd.Process.Pid)
	for _, after := range []time.Duration{0, 3 * time.Second} { // by then it has been told a few deadlines
		time.Sleep(after)
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", guard))
		if err != nil {
			t.Fatal(err)
		}
		private := 0
		for line := range strings.Lines(string(text)) {
			var n int
			if _, err := fmt.Sscanf(line, "Private_Clean: %d kB", &n); err == nil {
				private += n
			}
			if _, err := fmt.Sscanf(line, "Private_Dirty: %d kB", &n); err == nil {
				private += n
			}
		}
		t.Logf("private memory after %v: %d kB", after, private)
		if private == 0 || private > most {
			t.Errorf("%d kB of private memory, want at most %d", private, most)
		}
	}
}

// In a time namespace the clocks of flockd and its guard are off by the same.
func TestGuardInATimeNamespace(t *testing.T) {
	for name, tc := range map[string]struct{ monotonic, boottime time.Duration }{
		"ahead":  {100_000 * time.Second, 300_000 * time.Second},
		"behind": {-30 * time.Second, -20 * time.Second},
		"apart":  {-30 * time.Second, 1_000_000 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := embedded(t)
			r.run(r.direct, "k", "--", "true").ends(0)
			flockd := r.elsewhen(tc.monotonic, tc.boottime, "frozen")
			r.frozen(flockd, "frozen", tc.monotonic)
			syscall.Kill(flockd, syscall.SIGKILL)
			r.free(2 * time.Second)
			flockd = r.elsewhen(tc.monotonic, tc.boottime, "killed")
			syscall.Kill(flockd, syscall.SIGKILL)
			r.died(int(r.number("killed.pid")))
			r.free(2 * time.Second)
		})
	}
	t.Run("remote", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, redis)
		flockd := r.elsewhen(0, 1_000_000*time.Second, "stamps")
		next := r.successor()
		r.stop(flockd)
		next.ends(0)
		r.before("stamps", "next")
		syscall.Kill(flockd, syscall.SIGKILL)
	})
}

// elsewhen holds k for 2 s with a probe, in a namespace whose clocks are ahead. It returns
// the number of its flockd.
func (r *rig) elsewhen(monotonic, boottime time.Duration, stamps string) (flockd int) {
	r.Helper()
	cmd := exec.Command("unshare", "--time", fmt.Sprint("--monotonic=", int64(monotonic.Seconds())), fmt.Sprint("--boottime=", int64(boottime.Seconds())),
		filepath.Join(bin, "flockd"), "run", "--backend", r.via, "--key", "k", "--ttl", "2s", "--", "probe", stamps, "deaf")
	cmd.Dir = r.dir
	cmd.Env = []string{"PATH=" + r.path, "HOME=" + r.dir, "FLOCKD_CONFIG=" + os.DevNull}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	r.await(stamps)
	return cmd.Process.Pid
}

// On a host with far more work than processors, too, a frozen flockd's command is dead
// in time.
func TestGuardOnABusyHost(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("as root a guard runs before others: run this test as root")
	}
	r := embedded(t)
	j := r.probes("stamps", "--ttl", "4s")
	flockd := j.cmd.Process.Pid
	r.guardAtWork(flockd)
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
	r.frozen(flockd, "stamps", 0)
}

// frozen freezes a flockd, and wants its probe to die before the lease ends, and not
// before it has to. ahead is how far the probe's clock is.
func (r *rig) frozen(flockd int, stamps string, ahead time.Duration) {
	r.Helper()
	db := r.database()
	r.stop(flockd)
	began, end := monotonic(), r.hold(db)
	r.died(int(r.number(stamps + ".pid")))
	last := r.number(stamps) - int64(ahead)
	r.Logf("last instruction %v before the lease could not be proven any more", time.Duration(end-last))
	if last >= end {
		r.Errorf("alive %v too long", time.Duration(last-end))
	}
	if last <= began {
		r.Errorf("dead %v before it was frozen", time.Duration(began-last))
	}
}

// A flockd that is killed doesn't keep its key for the lease's time.
func TestKilledGivesBackSoon(t *testing.T) {
	r := embedded(t)
	r.run(r.direct, "k", "--", "true").ends(0)
	db := r.database()
	var took []time.Duration
	for range 20 {
		j := r.run(r.direct, "k", "--ttl", "1m", "--", "sh", "-c", "echo x >running; exec sleep 60")
		r.await("running")
		if r.hold(db) == 0 {
			t.Fatal("nobody holds it")
		}
		began := time.Now()
		j.cmd.Process.Kill()
		until(t, "given back", func() bool { return r.hold(db) == 0 })
		took = append(took, time.Since(began))
		j.ends(137)
		if err := os.Remove(filepath.Join(r.dir, "running")); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(took)
	t.Logf("median %v, from %v to %v", took[len(took)/2], took[0], took[len(took)-1])
	if took[len(took)/2] >= time.Second {
		t.Errorf("given back after %v", took)
	}
}
