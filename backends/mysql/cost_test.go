package mysql

import (
	"strconv"
	"strings"
	"testing"

	"flockd/backends"
	"flockd/backends/backendtest"
	"flockd/backends/backendtest/servers"
)

// Each step is one question. What is answered by reading alone writes nothing.
func TestStepIsOneQuestion(t *testing.T) {
	t.Parallel()
	p := servers.MariaDB(t)
	s := open(t, urlOf(p))
	release(t, s, acquire(t, s, request("a"))) // a key that is made is a reason to sweep
	lease := acquire(t, s, request("a"))
	waiter, ledger := queue("a"), backends.Backend(s).(backends.Ledger)
	for _, step := range []struct {
		what   string
		writes bool
		do     func()
	}{
		{"skip", false, func() { held(t, s, request("a")) }},
		{"wait", true, func() { held(t, s, waiter) }},
		{"renew", true, func() { renew(t, s, lease) }},
		{"ask", true, func() { s.Ask(t.Context(), "a", lease.ID, backends.Notice{Kind: backends.Resign}) }},
		{"look at a hold", false, func() { backends.Backend(s).(backends.Watcher).Watch(t.Context(), lease) }},
		{"inspect", false, func() { s.Inspect(t.Context(), "a") }},
		{"look a run up", false, func() { ledger.Completed(t.Context(), "a", "run") }},
		{"release", true, func() { release(t, s, lease) }},
		{"admit", true, func() { backendtest.Admit(t, s, "a", 7) }},
		{"admit a larger one", true, func() { backendtest.Admit(t, s, "a", 8) }},
		{"admit a stale one", false, func() { backendtest.WantStale(t, backendtest.RegisterOf(t, s).Admit(t.Context(), "a", 7), 8) }},
		{"look a token up", false, func() { backendtest.WantHighest(t, s, "a", 8) }},
		{"set it down", true, func() { backendtest.RegisterOf(t, s).Reset(t.Context(), "a", 1, true) }},
	} {
		cost := spent(t, p, step.do)
		t.Logf("%s: %d rows read, %d written, %d writes of the log", step.what, cost["read"], cost["written"], cost["log"])
		if cost["questions"] != 1 {
			t.Errorf("%s: %d questions", step.what, cost["questions"])
		}
		if writes := cost["written"] != 0; writes != step.writes {
			t.Errorf("%s: it writes %t", step.what, writes)
		}
	}
}

// A hand-over costs the same whatever the number of those who wait.
func TestHandOverCostsTheSameInALongLine(t *testing.T) {
	t.Parallel()
	p := servers.MariaDB(t)
	s := open(t, urlOf(p))
	backendtest.HandOverCosts(t, s, 1.5, func(handOver func(backends.Backend)) map[string]float64 {
		cost := spent(t, p, func() { handOver(s) })
		return map[string]float64{"read": float64(cost["read"]), "written": float64(cost["written"])}
	})
}

// Where a whole line has died, who comes first has little to do for each of them, and whoever
// is left is called.
func TestManyDead(t *testing.T) {
	t.Parallel()
	p := servers.MariaDB(t)
	s := open(t, urlOf(p))
	for _, mode := range []backends.Mode{backends.Exclusive, backends.Shared, backends.Slots} {
		asks := func() backends.Request {
			r := queue(string(mode))
			if r.Mode = mode; mode == backends.Slots {
				r.Slots = 1
			}
			return r
		}
		first, last := asks(), asks()
		if mode == backends.Shared {
			first.Mode = backends.Exclusive
		}
		acquire(t, s, first)
		held(t, s, last)
		const n = 100
		says(t, p, "USE flockd; UPDATE flockd_claims SET seq = seq + 1000 WHERE id = '"+last.ID+"'; "+
			"INSERT INTO flockd_claims SELECT k, CONCAT('dead', n.seq), n.seq + 10, v, state, mode, slots, slot, token, asked, granted, renewed, "+
			"1, kept, 1, waits, unshared, owner, notice, told, called, run, keep FROM flockd_claims JOIN seq_1_to_"+strconv.Itoa(n)+" AS n "+
			"WHERE id = '"+last.ID+"'; UPDATE flockd_claims SET expires = 1, ends = 1 WHERE id = '"+first.ID+"'")
		cost := spent(t, p, func() { s.Release(t.Context(), first.Key, "none", backends.Outcome{}) })
		if each := cost["read"] / n; each > 6 {
			t.Errorf("%s: %d rows read for each that died", mode, each)
		}
		if called := says(t, p, "SELECT called FROM flockd.flockd_claims WHERE k = '"+first.Key+"'"); called != "1" {
			t.Errorf("%s: called: %q", mode, called)
		}
	}
}

// figures are what a server has done so far, that which asking for them takes included.
func figures(t *testing.T, p *servers.Process) map[string]int {
	t.Helper()
	sum := map[string]int{}
	for line := range strings.Lines(says(t, p, "SHOW GLOBAL STATUS")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		n, _ := strconv.Atoi(value)
		switch {
		case name == "Questions":
			sum["questions"] = n
		case strings.HasPrefix(name, "Handler_read_"):
			sum["read"] += n
		case name == "Handler_write", name == "Handler_update", name == "Handler_delete":
			sum["written"] += n
		case name == "Innodb_log_writes":
			sum["log"] = n
		}
	}
	return sum
}

// spent is what a server does for do.
func spent(t *testing.T, p *servers.Process, do func()) map[string]int {
	t.Helper()
	zero, before := figures(t, p), figures(t, p)
	do()
	after := figures(t, p)
	for what := range after {
		after[what] -= before[what] + before[what] - zero[what]
	}
	return after
}
