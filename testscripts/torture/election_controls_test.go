//go:build linux

package torture

import (
	"errors"
	"slices"
	"testing"

	"flockd/testscripts/torture/trace"
)

// electionControls are those of the elections.
var electionControls = []control{
	{"a candidate that doesn't stop its command", []patch{
		{"runner/child.go", `func (ch *child) signal(sig syscall.Signal) { ch.tree.Signal(sig) }`, `func (ch *child) signal(sig syscall.Signal) {}`},
		{"runner/guard/guard.go", `return w.dead || w.orders.Kill != Never && w.host.now(w.orders) >= w.orders.Kill`, `return w.dead`},
	}, deposing("cut", "deaf"), "says the kernel"},
	{"a candidate whose old command leaves a daemon", []patch{
		{"election/term.go", `runner.Forever, runner.Purge`, `runner.Forever, runner.Leave`},
	}, deposing("command ends", "daemon"), "says the kernel"},
	{"a candidate that doesn't come back", []patch{
		{"election/policy.go", `case runner.Lost, runner.Skipped:`, `case runner.Skipped:`},
	}, deposing("cut", ""), "ended with 79"},
	{"a store that grants early", []patch{
		{"backends/redis/common.lua", `return tonumber(c.ends) > now end`, `return tonumber(c.ends) > now + 1500000 end`},
		{"backends/redis/common.lua", `return math.max(tonumber(c.ends), tonumber(c.kept))`, `return math.max(tonumber(c.ends), tonumber(c.kept)) - 1500000`},
	}, deposing("freeze flockd", "deaf"), "says the kernel"},
	{"terms that don't grow", []patch{
		{"backends/redis/acquire.lua", `local next = math.max(last + 1, now)`, `local next = last > 0 and last or now`},
	}, deposing("TERM", ""), "began after term"},
	{"hooks that don't wait for each other", []patch{
		{"election/hooks.go", `After: h.last, `, ``},
	}, reelected, "hook elected of candidate 0 beside another one"},
}

// deposing has a leader deposed by one means.
func deposing(name, mode string) func(*testing.T, string) error {
	return func(t *testing.T, flockd string) error {
		e := newElection(t, redisGround, flockd, 0, 0)
		e.modes = []string{mode}
		e.open(t.Context())
		err := e.deposeOnce(name, mode == "daemon")
		e.abandon()
		return errors.Join(err, checkOrder(e.terms()), e.checkEnds())
	}
}

// reelected has the only candidate deposed, whose hooks take longer than its next election.
func reelected(t *testing.T, flockd string) error {
	e := newElection(t, redisGround, flockd, 0, 0)
	e.seats, e.works = 1, []string{"1s"}
	e.open(t.Context())
	err := e.deposeNamed("flockd break")
	hooked := func() bool {
		hooks, err := linesOf(e.folder, "hooks")
		return err != nil || len(hooks) > 4 || checkOracle(e.folder) != nil
	}
	eventually(t, "three hooks have begun", hooked)
	e.abandon()
	return errors.Join(err, checkOracle(e.folder))
}

// deposeOnce ends one term, and with a daemon, once the command has left that. It returns when the
// old leader campaigns again, or has ended.
func (e *election) deposeOnce(name string, daemon bool) error {
	t, err := e.current(e.t.Context())
	if err != nil {
		return err
	}
	c := e.candidate(t)
	eventually(e.t, "its daemon works", func() bool { return !daemon || slices.ContainsFunc(c.members(), c.left) })
	if err := e.deposeNamed(name); err != nil {
		return err
	}
	e.follows(c)
	return nil
}

func (e *election) deposeNamed(name string) error {
	all := e.means()
	return e.deposeBy(e.t.Context(), all[slices.IndexFunc(all, func(m means) bool { return m.name == name })])
}

// follows waits until a candidate that was deposed campaigns again, or has ended.
func (e *election) follows(c *candidate) {
	since := e.changes[len(e.changes)-1].next.began
	eventually(e.t, "the old leader campaigns, or has ended", func() bool {
		if err := e.history.catchUp(); err != nil {
			e.t.Fatal(err)
		}
		asks := slices.ContainsFunc(e.history.of(int(c.session), since), func(r *request) bool { return r.Op == trace.Acquire })
		return asks || !slices.Contains(e.running(), c.job)
	})
}
