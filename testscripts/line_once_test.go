//go:build linux

package testscripts

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestOnceFromTenProcesses: of 200 jobs each is tried by two of ten processes, which
// begin at different ones. Some jobs fail when they are first tried, and under some flockd
// is killed. Each succeeds once.
func TestOnceFromTenProcesses(t *testing.T) {
	onStores(t, func(r *rig) {
		counts := r.jobs(200, "--once job-$n")
		for n := range 200 {
			if counts[n] != 1 {
				r.Errorf("job %d succeeded %d times", n, counts[n])
			}
		}
		codes := map[string]int{}
		for _, code := range r.lines("codes") {
			codes[code]++
		}
		if want := fmt.Sprint(map[string]int{"1": 20, "137": 4}); fmt.Sprint(codes) != want {
			r.Errorf("exit codes %v, want %v", codes, want)
		}
	})
}

// TestOnceFromTenProcessesWithout: the same without --once.
func TestOnceFromTenProcessesWithout(t *testing.T) {
	t.Parallel()
	r := newFolder(t)
	r.direct = "sqlite://" + r.dir + "/flockd.db"
	if counts := r.jobs(20, ""); slices.Max(counts) < 2 {
		t.Errorf("each job ran once by itself: %v", counts)
	}
}

// jobs has ten processes try jobs, and counts how often each has succeeded.
func (r *rig) jobs(n int, once string) []int {
	r.Helper()
	must(r.T, os.WriteFile(filepath.Join(r.dir, "process.sh"), []byte(`# process.sh FIRST COUNT OF
n=$1
for _ in $(seq $2); do
	flockd run -q -b `+r.direct+` --key jobs --wait 5m `+once+` -- sh job.sh $n || echo $? >>codes
	n=$(((n + 1) % $3))
done
`), 0o600))
	must(r.T, os.WriteFile(filepath.Join(r.dir, "job.sh"), []byte(`# job.sh N
case $1 in
*0) mkdir failed.$1 2>/dev/null && exit 1 ;;
*49 | *99) mkdir killed.$1 2>/dev/null && exec bereave ;;
esac
echo $1 >>succeeded
`), 0o600))
	var processes sync.WaitGroup
	for p := range 10 {
		processes.Go(func() {
			r.script("sh", "process.sh", strconv.Itoa(p*n/10), strconv.Itoa(2*n/10), strconv.Itoa(n))
		})
	}
	processes.Wait()
	counts := make([]int, n)
	for _, line := range r.lines("succeeded") {
		job, err := strconv.Atoi(line)
		must(r.T, err)
		counts[job]++
	}
	return counts
}

// TestSingleFlight: of twenty who want the same run one does it, and the others hear of
// it at once, though the key stays taken.
func TestSingleFlight(t *testing.T) {
	onStores(t, func(r *rig) {
		flags := []string{"--once", "release", "--min-hold", "5m", "--wait", "forever", "--"}
		holder := r.run(r.direct, "k", append(flags, "sh", "-c", "echo x >runs; until [ -e go ]; do sleep 0.05; done; date +%s.%N >ended")...)
		r.await("runs")
		var line []*job
		for range 19 {
			line = append(line, r.run(r.direct, "k", append(flags, "sh", "-c", "echo x >>runs")...))
		}
		for _, j := range line {
			r.waiting(j)
		}
		must(r.T, os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o600))
		for _, j := range line {
			j.ends(0).says("has succeeded")
		}
		heard := time.Now()
		holder.ends(0)
		r.run(r.direct, "k", "-q", "--", "true").ends(75) // it still cools
		if n := len(r.lines("runs")); n != 1 {
			r.Errorf("%d runs", n)
		}
		ended, err := strconv.ParseFloat(strings.Join(r.lines("ended"), ""), 64)
		must(r.T, err)
		r.Logf("the last has ended %v after the command", heard.Sub(time.UnixMicro(int64(ended*1e6))))
	})
}
