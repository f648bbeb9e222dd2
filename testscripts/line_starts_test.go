//go:build linux

package testscripts

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestStartsAtOnce: many processes ask for one key of a new store as fast as they can be
// started. None has any complaint. FLOCKD_STARTS is another number of them; the times are
// what a busy host makes of them.
func TestStartsAtOnce(t *testing.T) {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("FLOCKD_STARTS"), "40"))
	must(t, err)
	for _, wait := range []string{"0", "1m"} {
		t.Run("wait="+wait, func(t *testing.T) {
			onStores(t, func(r *rig) { r.starts(n, wait) })
		})
	}
}

func (r *rig) starts(n int, wait string) {
	var all sync.WaitGroup
	var jobs []*job
	began, times := time.Now(), make([]time.Duration, n)
	for i := range n {
		asked := time.Now()
		j := r.run(r.direct, "k", "-q", "--wait", wait, "--", "true")
		all.Go(func() {
			j.done <- <-j.done
			times[i] = time.Since(asked)
		})
		jobs = append(jobs, j)
	}
	started := time.Since(began)
	all.Wait()
	granted, slow := 0, 0
	for _, j := range jobs {
		status, said := j.status(), j.stderr.String()
		switch {
		case status != 0 && status != 75 || said != "" && (r.server == nil || !strings.Contains(said, "asking again")):
			r.Errorf("status %d: %s", status, said)
		case said != "":
			slow++ // a server may take its time on a busy host
		}
		if status == 0 {
			granted++
		}
	}
	if granted == 0 {
		r.Error("nobody was granted the key")
	}
	slices.Sort(times)
	r.Logf("%d started within %v, %d granted, %d had to ask twice; from the start of a process to its end: median %v, worst %v",
		n, started, granted, slow, times[n/2], times[n-1])
}
