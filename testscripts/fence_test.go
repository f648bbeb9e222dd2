//go:build linux

package testscripts

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fence starts flockd fence with the rig's store.
func (r *rig) fence(args ...string) *job {
	r.Helper()
	return r.start(append(append([]string{"fence"}, args...), "--backend", r.direct)...)
}

// answered is fence, asked again where the store of a busy host gives no answer in time.
// again says that it was: a token may have been admitted already.
func (r *rig) answered(args ...string) (j *job, again bool) {
	r.Helper()
	for range 10 {
		j = r.fence(args...)
		err := <-j.done
		j.done <- err
		if status, _ := exitStatus(err); status != 69 {
			return j, again
		}
		again = true
	}
	return j, again
}

// fenceSays wants an answer's exit code and text.
func (r *rig) fenceSays(code int, text string, args ...string) {
	r.Helper()
	j, _ := r.answered(args...)
	j.ends(code).says(text)
}

// shows wants the highest token of a resource.
func (r *rig) shows(resource string, want int) {
	r.Helper()
	cmd := exec.Command(filepath.Join(bin, "flockd"), "fence", "show", resource, "--backend", r.direct)
	if out, err := cmd.Output(); err != nil || string(out) != strconv.Itoa(want)+"\n" {
		r.Errorf("%s has seen %q, %v; want %d", resource, out, err, want)
	}
}

func TestFence(t *testing.T) {
	t.Parallel()
	onStores(t, func(r *rig) {
		r.fence("show", "a b/ü%").ends(1).says(`no token has been admitted for "a b/ü%" in `)
		if s := r.store.name; r.server == nil || s == postgres.name || s == mysql.name {
			r.fence("admit", "a b/ü%", "--token", "57").ends(69).says("nobody has used the store ")
			r.fence("show", "a b/ü%").ends(1)
		}
		r.ofARun()
		r.fenceSays(0, "", "admit", "a b/ü%", "--token", "57")
		r.fenceSays(0, "", "admit", "a b/ü%", "--token", "57")
		r.fenceSays(80, "flockd: stale: token 41 for a b/ü%, which has seen 57\n", "admit", "a b/ü%", "--token", "41")
		r.shows("a b/ü%", 57)
		r.fenceSays(80, "hint: --force", "reset", "a b/ü%", "--to", "41")
		r.fence("reset", "a b/ü%", "--to", "41", "--force").ends(0).says("is 41 now; it was 57")
		r.fenceSays(0, "", "admit", "a b/ü%", "--token", "42")
		r.fenceSays(0, "", "admit", strings.Repeat("ü", 256), "--token", "9007199254740991")
		r.fenceSays(1, "", "show", "A b/ü%")
		r.storm(20, 10)
		r.away()
	})
}

// ofARun has a run admit its own token, with the store that it is given.
func (r *rig) ofARun() {
	r.Helper()
	run := exec.Command(filepath.Join(bin, "flockd"), "run", "--key", "k", "--", "flockd", "fence", "admit", "k")
	run.Env = []string{"FLOCKD_BACKEND=" + r.direct}
	if j := r.launch(run).ends(0); j.stderr.String() != "" && r.server == nil {
		r.Errorf("a run says %q", j.stderr)
	}
	r.fence("show", "k").ends(0)
	if strings.Contains(r.direct, "@") { // its password is kept from the command
		r.run(r.direct, "k", "--", "flockd", "fence", "admit", "k").ends(64).says("hint: flockd leaves secrets out of what it shows and exports")
	}
}

// away has the store be down.
func (r *rig) away() {
	r.Helper()
	if r.server == nil {
		return // fence.txtar has its like
	}
	r.server.Kill()
	began := time.Now()
	for _, j := range []*job{r.fence("admit", "r", "--token", "5"), r.fence("show", "r"), r.fence("reset", "r", "--to", "5")} {
		j.ends(69).says(" is unavailable: ")
	}
	r.Logf("given up after %v", time.Since(began))
}

// admission is one flockd fence admit of the storm.
type admission struct {
	token      int
	began, end time.Time
	seen       int  // the larger token that it was refused for; zero: it was admitted
	again      bool // it was asked again, so that it may have been admitted before it was refused
}

// storm has so many processes at a time admit a token of one resource, larger ones as they
// begin, and holds each answer to what had been admitted before. Each worker ends with its
// first token again, which is stale.
func (r *rig) storm(workers, each int) {
	r.Helper()
	var all sync.WaitGroup
	var newest atomic.Int64
	answers := make([][]admission, workers)
	for w := range workers {
		all.Go(func() {
			for range each {
				answers[w] = append(answers[w], r.admission(int(newest.Add(1))))
			}
			answers[w] = append(answers[w], r.admission(answers[w][0].token))
		})
	}
	all.Wait()
	r.shows("storm", workers*each)
	r.checkAdmissions(slices.Concat(answers...), workers)
}

func (r *rig) admission(token int) admission {
	a := admission{token: token, began: time.Now()}
	j, again := r.answered("admit", "storm", "--token", strconv.Itoa(token))
	err := <-j.done
	a.end, a.again = time.Now(), again
	switch status, _ := exitStatus(err); status {
	case 0:
	case 80:
		var named int
		if _, err := fmt.Sscanf(j.stderr.String(), "flockd: stale: token %d for storm, which has seen %d\n", &named, &a.seen); err != nil || named != token {
			r.Errorf("token %d: %v, it says %q", token, err, j.stderr)
		}
	default:
		r.Errorf("token %d: status %d, it says %q", token, status, j.stderr)
	}
	return a
}

// checkAdmissions wants so many at least to be stale, and each answer to be right.
func (r *rig) checkAdmissions(all []admission, least int) {
	r.Helper()
	stale := 0
	for _, a := range all {
		if a.seen != 0 {
			stale++
			r.checkStale(a, all)
		}
		for _, b := range all {
			if b.seen == 0 && b.token > max(a.token, a.seen) && b.end.Before(a.began) {
				r.Errorf("token %d has seen %d, after %d was admitted", a.token, a.seen, b.token)
			}
		}
	}
	r.Logf("%d of %d were stale", stale, len(all))
	if stale < least {
		r.Errorf("%d were stale, want %d at least", stale, least)
	}
}

// checkStale wants the token that a was refused for to be larger, and admitted by then.
func (r *rig) checkStale(a admission, all []admission) {
	r.Helper()
	if a.seen <= a.token || !slices.ContainsFunc(all, func(b admission) bool {
		return b.token == a.seen && (b.seen == 0 || b.again) && b.began.Before(a.end)
	}) {
		r.Errorf("token %d was refused for %d, which nobody had admitted", a.token, a.seen)
	}
}
