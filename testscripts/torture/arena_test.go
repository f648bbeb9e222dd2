//go:build linux

package torture

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"flockd/testscripts/torture/trace"
)

const (
	// Few keys, and a holder and some that wait for each, so that there are lines.
	keys       = 4
	contenders = 5 * keys

	// generation is how long keys are asked for before others are. A waiter that died
	// holds up the rest for the 15 s of its place, which would be most of a storm; the
	// longest lease of ttls has to run out in this time, or no key would be taken over.
	generation = 6 * time.Second
)

// arena is where many flockd fight for a few keys of one store.
type arena struct {
	t       testing.TB
	store   *store
	folder  string // what the probes and the tracers write to
	flockd  string
	probe   string
	history *history
	seed    uint64
	began   time.Time

	mu     sync.Mutex
	jobs   map[int]*job // that run, by number of the flockd
	exits  []exit
	faults map[string]int
	log    []byte // of the faults
}

// job is a flockd that runs.
type job struct {
	session
	key    string
	mode   string
	share  string // with whom it may hold: "" for nobody, "shared" or "slots=N"
	bare   bool   // without a cgroup
	began  int64
	stderr string // the file that has it
	killed bool   // by us; guarded by arena.mu, with all below
	alone  int64  // when flockd was, and nothing else of it; 0: it wasn't
	harmed bool   // a fault is on it
}

// exit is how a flockd ended.
type exit struct {
	job    *job
	code   int // negative: by that signal
	stderr string
	ended  int64
}

func newArena(t testing.TB, s *store, flockd string, seed uint64) *arena {
	t.Helper()
	folder := t.TempDir()
	h, err := openHistory(filepath.Join(folder, "trace"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "config.toml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a := &arena{
		t: t, store: s, folder: folder, flockd: flockd, probe: probe(t), history: h, seed: seed, began: time.Now(),
		jobs: map[int]*job{}, faults: map[string]int{},
	}
	t.Cleanup(func() {
		for _, j := range a.running() {
			j.kill()
		}
		signalAll(slices.Collect(maps.Keys(a.left())), syscall.SIGKILL) // what a broken flockd left
		h.file.Close()
	})
	return a
}

// random is a source of its own for each who draws from it, the same for the same seed.
func (a *arena) random(who uint64) *rand.Rand { return rand.New(rand.NewPCG(a.seed, who)) }

// applied remembers a fault that is over.
func (a *arena) applied(fault string, began int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults[fault]++
	a.log = fmt.Appendf(a.log, "%d to %d: %s\n", began, trace.Now(), fault)
}

func (a *arena) running() []*job {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.SortedFunc(maps.Values(a.jobs), func(x, y *job) int { return cmp.Compare(x.session, y.session) })
}

// harm applies a fault to one of those that run, if one fits, that no other is on.
func (a *arena) harm(r *rand.Rand, fits func(*job) bool, apply func(*job) bool) bool {
	j := a.pick(r, fits)
	if j == nil {
		return false
	}
	defer a.set(&j.harmed, false)
	return apply(j)
}

// pick tries them in random order. It looks at them one by one, since a look takes a
// while.
func (a *arena) pick(r *rand.Rand, fits func(*job) bool) *job {
	jobs := a.running()
	r.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	for _, j := range jobs {
		if fits(j) && a.take(j) {
			return j
		}
	}
	return nil
}

// take reports whether no other fault is on a job, which ours is from now on.
func (a *arena) take(j *job) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := !j.harmed
	j.harmed = true
	return taken
}

func (a *arena) set(flag *bool, to bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	*flag = to
}

// contest is one of the keys that are fought for now, and how. One of them is mixed.
func (a *arena) contest(r *rand.Rand) (key, share string) {
	now, n := int(time.Since(a.began)/generation), r.IntN(keys)
	if n == 0 {
		return fmt.Sprint(mixing, now), draw(r, shares[now%len(shares)])
	}
	return fmt.Sprintf("k%d-%d", now, n), ""
}

// mixing begins the names of the keys that are asked for in all modes.
const mixing = "mixed"

func mixed(key string) bool { return strings.HasPrefix(key, mixing) }

// contend runs one flockd after the other until ctx ends.
func (a *arena) contend(ctx context.Context, r *rand.Rand, bare bool) {
	for ctx.Err() == nil {
		j := &job{mode: draw(r, modes), bare: bare}
		j.key, j.share = a.contest(r)
		a.run(j, draw(r, a.store.ways), draw(r, works), options(r)...)
	}
}

// shares are what a mixed key is asked for, in one generation and in the next: mostly what
// can be together.
var shares = [][]string{
	{"shared", "shared", "shared", "shared", "shared", "", "slots=3"},
	{"slots=3", "slots=3", "slots=3", "slots=3", "slots=3", "", "shared", "slots=2"},
}

// What the contenders draw from. What is there more than once is drawn more often.
var (
	works  = []string{"5ms", "20ms", "50ms", "100ms", "300ms", "1s", "3s", "6s"}
	modes  = []string{"", "", "", "deaf", "family", "family deaf", "orphan", "daemon", "daemon deaf"}
	lefts  = []string{"wait", "kill"} // who runs on without the lock is no fault, and would be taken for one
	ttls   = []string{"1s", "1500ms", "2s", "3s", "4s"}
	waits  = []string{"0", "500ms", "3s", "3s", "10s", "forever"}
	graces = []string{"", "", "0s", "50ms"}
	limits = []string{"", "", "", "", "150ms", "1s"}
)

func draw(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }

func options(r *rand.Rand) []string {
	args := []string{"--ttl", draw(r, ttls), "--wait", draw(r, waits), "--leftovers", draw(r, lefts)}
	if grace := draw(r, graces); grace != "" {
		args = append(args, "--grace", grace)
	}
	if limit := draw(r, limits); limit != "" {
		args = append(args, "--max-runtime", limit)
	}
	return args
}

// run runs one flockd run to its end.
func (a *arena) run(j *job, way, work string, options ...string) exit {
	if j.share != "" {
		options = append(options, "--"+j.share)
	}
	command := append([]string{"--", a.probe, a.folder, work, trace.Share + "=" + j.share}, strings.Fields(j.mode)...)
	return a.execute(j, way, slices.Concat([]string{"run", "--verbose", "--key", j.key}, options, command)...)
}

// command is a flockd of the arena's store.
func (a *arena) command(way string, args ...string) *exec.Cmd {
	cmd := exec.Command(a.flockd, args...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + a.folder, "FLOCKD_CONFIG=" + filepath.Join(a.folder, "config.toml"),
		"FLOCKD_BACKEND=" + way, trace.Variable + "=" + filepath.Join(a.folder, "trace"),
	}
	return cmd
}

// execute runs one flockd to its end.
func (a *arena) execute(j *job, way string, args ...string) exit {
	cmd := a.command(way, args...)
	stderr, err := os.CreateTemp(a.folder, "stderr-") // not a pipe, whose end would be waited for
	if err != nil {
		a.t.Error(err)
		return exit{}
	}
	defer os.Remove(stderr.Name())
	defer stderr.Close()
	cmd.Stderr = stderr
	j.began, j.stderr = trace.Now(), stderr.Name()
	e := exit{job: j}
	if err := a.start(cmd, j); err != nil {
		a.t.Error(err)
		return exit{}
	}
	cmd.Wait() // how it ended is in ProcessState
	a.end(cmd, &e)
	return e
}

// start starts a flockd. It is in jobs as long as its number is its own.
func (a *arena) start(cmd *exec.Cmd, j *job) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	start := startSession
	if j.bare {
		start = startBare
	}
	if err := start(cmd); err != nil {
		return err
	}
	j.session = session(cmd.Process.Pid)
	a.jobs[cmd.Process.Pid] = j
	return nil
}

func (a *arena) end(cmd *exec.Cmd, e *exit) {
	text, _ := os.ReadFile(e.job.stderr)
	e.ended, e.stderr = trace.Now(), string(text)
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if e.code = status.ExitStatus(); status.Signaled() {
		e.code = -int(status.Signal())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.jobs, cmd.Process.Pid)
	a.exits = append(a.exits, *e)
}
