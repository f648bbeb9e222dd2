//go:build linux

package torture

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Exit codes of flockd, and of the probe where it finds another one alive.
const (
	finished    = 0
	violated    = 3
	unavailable = 69
	skipped     = 75
	lost        = 79
	tooLong     = 124
	terminated  = 128 + 15
)

// checkExits wants exit codes that fit what happened.
func (a *arena) checkExits(lives map[string]*life, spans []*span) error {
	ran := map[int][]*span{} // by number of the flockd
	for _, s := range spans {
		if l := lives[s.id]; l != nil {
			ran[l.pid] = append(ran[l.pid], s)
		}
	}
	var errs []error
	for _, e := range a.ends() {
		if err := e.check(e.command(ran[int(e.job.session)])); err != nil {
			errs = append(errs, fmt.Errorf("%w: %s", err, e.stderr))
		}
	}
	return errors.Join(errs...)
}

// command is the one that ran in e's time, or nil: numbers are used again.
func (e exit) command(ran []*span) *span {
	for _, s := range ran {
		if s.first >= e.job.began && s.first <= e.ended {
			return s
		}
	}
	return nil
}

// check judges one exit; s is nil if the command didn't run.
func (e exit) check(s *span) error {
	switch {
	case e.job.killed && e.code == -9:
		return nil
	case e.code == finished && (s == nil || !s.ended):
		return errors.New("exit 0, but the command didn't come to its end")
	case (e.code == skipped || e.code == unavailable) && s != nil:
		return fmt.Errorf("exit %d, but the command ran", e.code)
	}
	switch e.code {
	case finished, violated, unavailable, skipped, lost, tooLong, terminated, -15:
		return nil
	}
	return fmt.Errorf("exit %d", e.code)
}

// takeovers are the times from the end of a lease that wasn't given back, or from
// when somebody first asked after it, to the next grant; handOvers counts the others. Holds
// of mixed keys don't follow each other.
func takeovers(lives map[string]*life) (handOvers int, times []time.Duration) {
	grants := slices.SortedFunc(slices.Values(grantsOf(lives)), func(a, b *grant) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.token, b.token))
	})
	for i := range grants[min(1, len(grants)):] {
		a, b := grants[i], grants[i+1]
		switch {
		case a.key != b.key, mixed(a.key):
		case a.released:
			handOvers++
		default:
			times = append(times, time.Duration(b.told-max(a.last+a.trusted, b.asked)))
		}
	}
	return handOvers, times
}

// lacks is what a storm hasn't shown yet: each fault once, and of what the checks are
// about some.
func (a *arena) lacks(lives map[string]*life, spans []*span, heirs inheritance) (lacks []string) {
	least := func(what string, n, want int) {
		if n < want {
			lacks = append(lacks, fmt.Sprintf("%d %s", n, what))
		}
	}
	handOvers, times := takeovers(lives)
	least("grants", len(grantsOf(lives)), 20)
	least("hand-overs", handOvers, 10)
	least("takeovers", len(times), 2)
	least("holders beside others", together(spans), 1)
	least("losses", a.codes()[lost], 1)
	least("keys to inherit", heirs.holds, 2)
	least("commands without a cgroup", a.contained()["marks"], 5)
	for _, f := range slices.Concat(append(a.processFaults(), a.store.faults...)...) {
		least(f.name, a.counts()[f.name], 1)
	}
	return lacks
}

// counts is how often each fault was applied.
func (a *arena) counts() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.faults)
}

// ends are the exits so far.
func (a *arena) ends() []exit {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.exits)
}

// codes counts how flockd has ended.
func (a *arena) codes() map[int]int {
	counts := map[int]int{}
	for _, e := range a.ends() {
		counts[e.code]++
	}
	return counts
}

// contained counts the commands by what held them together.
func (a *arena) contained() map[string]int {
	counts := map[string]int{}
	for _, e := range a.ends() {
		_, how, ok := strings.Cut(e.stderr, "containment=")
		switch {
		case !ok:
		case strings.HasPrefix(how, `"cgroup `):
			counts["cgroup"]++
		default:
			counts["marks"]++
		}
	}
	return counts
}

// summary is one line.
func (a *arena) summary(lives map[string]*life, spans []*span, heirs inheritance, ops int, closest time.Duration) string {
	handOvers, times := takeovers(lives)
	return fmt.Sprintf("%s: seed %d, %d starts, %d grants, %d losses, %d hand-overs, %d holders beside others, %d takeovers (%v at most after the lease), %d keys whose flockd was killed, of which %d were given back in time and %d taken (%v after the kill at the median), commands: %s; faults: %s; exits: %s; closest to a deadline %v; %d operations checked",
		a.t.Name(), a.seed, len(a.ends()), len(grantsOf(lives)), a.codes()[lost], handOvers, together(spans), len(times),
		slices.Max(append(times, 0)).Round(time.Millisecond),
		heirs.holds, heirs.asked, len(heirs.given), median(heirs.given).Round(time.Millisecond), list(a.contained()), list(a.counts()), list(a.codes()), closest.Round(time.Millisecond), ops)
}

func median(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[len(times)/2]
}

func list[K cmp.Ordered](counts map[K]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%v %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}

// keep leaves what a storm has written, to look at, and what each flockd has said.
func (a *arena) keep() {
	var said []byte
	for _, e := range a.ends() {
		said = fmt.Appendf(said, "%d, until %d, exit %d:\n%s\n", e.job.session, e.ended, e.code, e.stderr)
	}
	folder, err := os.MkdirTemp("", "flockd-storm-")
	if err == nil {
		err = errors.Join(os.CopyFS(folder, os.DirFS(a.folder)),
			os.WriteFile(filepath.Join(folder, "faults"), a.log, 0o600), os.WriteFile(filepath.Join(folder, "said"), said, 0o600))
	}
	a.t.Logf("kept in %s (%v)", folder, err)
}
