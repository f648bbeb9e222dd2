package redis

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

// model is a key's line as it ought to be, beside the one that the store has.
type model struct {
	*testing.T
	s    *Store
	rng  *rand.Rand
	key  string
	line []backends.Claim
	reqs map[string]backends.Request
	rung map[string]int64 // rings that each waiter has not listened to
	fit  map[string]bool  // who waited and fitted before the step
	near string           // who waits behind a waiter that left in the step
}

// What is granted, to whom and which slot, is what backends.Fits says; whose turn has
// come by a step is rung, and who is behind a waiter that leaves. Nobody else is, nor one
// who shares for a second time.
func TestLineIsAsModelled(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	for seed := range uint64(12) {
		m := &model{T: t, s: s, rng: rand.New(rand.NewPCG(seed, 0)), key: fmt.Sprint(seed), reqs: map[string]backends.Request{}, rung: map[string]int64{}}
		for step := range 150 {
			m.step()
			m.compare()
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
	}
}

func (m *model) step() {
	m.near = ""
	switch n := m.rng.IntN(10); {
	case n < 3 && len(m.line) < 12:
		m.ask(m.newcomer())
	case n == 3:
		dead := m.newcomer()
		dead.TTL, dead.Place = time.Microsecond, time.Microsecond
		m.ask(dead)
		m.line = slices.DeleteFunc(m.line, func(c backends.Claim) bool { return c.ID == dead.ID })
	case len(m.line) == 0:
	case n < 6:
		m.ask(m.reqs[m.any().ID])
	case n < 8:
		m.leave(m.any().ID, func(id string) error { return m.s.Release(m.Context(), m.key, id, backends.Outcome{}) })
	case n == 8:
		m.leave(m.any().ID, func(id string) error {
			return m.s.Ask(m.Context(), m.key, id, backends.Notice{Kind: backends.Break, Force: true})
		})
	default:
		m.notify(m.any())
	}
}

func (m *model) any() *backends.Claim { return &m.line[m.rng.IntN(len(m.line))] }

func (m *model) newcomer() backends.Request {
	r := queue(m.key)
	r.Place = time.Hour * time.Duration(m.rng.IntN(4)) // one in four takes none
	switch m.rng.IntN(5) {
	case 0, 1:
		r.Mode = backends.Shared
	case 2, 3:
		r.Mode, r.Slots = backends.Slots, 2+m.rng.IntN(2)
	}
	r.TTL = time.Hour
	m.reqs[r.ID] = r
	return r
}

func (m *model) at(id string) int {
	return slices.IndexFunc(m.line, func(c backends.Claim) bool { return c.ID == id })
}

// ask asks, and compares the answer.
func (m *model) ask(r backends.Request) {
	place := m.at(r.ID)
	if place < 0 {
		place = len(m.line)
		m.line = append(m.line, backends.Claim{ID: r.ID, State: backends.Waiting, Mode: r.Mode, Slots: r.Slots})
	}
	c := &m.line[place]
	if c.State == backends.Waiting && c.Notice == (backends.Notice{}) && backends.Fits(*c, m.line[:place]) {
		c.State, c.Slot = backends.Holding, m.free(c.Mode)
	}
	do(m, m.s, "DEL", m.s.to.prefix.bell(m.key, r.ID))
	delete(m.rung, r.ID)
	lease, err := m.s.Acquire(m.Context(), r)
	var held *backends.HeldError
	switch {
	case c.State == backends.Holding:
		if err != nil || lease.Slot != c.Slot {
			m.Errorf("Acquire = %+v, %v; want slot %d of %+v", lease, err, c.Slot, m.line)
		}
		return
	case !errors.As(err, &held):
		m.Fatalf("Acquire = %+v, %v; want none of %+v", lease, err, m.line)
	}
	m.wantHeld(held, place)
	if r.Place == 0 {
		m.line = slices.Delete(m.line, place, place+1)
	}
}

func (m *model) wantHeld(held *backends.HeldError, place int) {
	var holders, others, ahead int
	for i, c := range m.line {
		switch {
		case c.State != backends.Waiting:
			holders++
		case i != place:
			others++
			if i < place {
				ahead++
			}
		}
	}
	if len(held.Holders) != holders || held.Waiters != others || held.Ahead != ahead || held.Notice != m.line[place].Notice {
		m.Errorf("%+v, want %d holders, %d ahead of %d waiters, in %+v", held, holders, ahead, others, m.line)
	}
	if (held.Next != nil) != (holders == 0) || held.Next != nil && held.Next.ID != m.line[0].ID {
		m.Errorf("next %+v of %+v", held.Next, m.line)
	}
}

func (m *model) free(mode backends.Mode) (slot int) {
	taken := func(c backends.Claim) bool { return c.State != backends.Waiting && c.Slot == slot }
	for mode == backends.Slots && slices.ContainsFunc(m.line, taken) {
		slot++
	}
	return slot
}

func (m *model) leave(id string, by func(id string) error) {
	if err := by(id); err != nil {
		m.Errorf("leave = %v", err)
	}
	if at := m.at(id); m.line[at].State == backends.Waiting {
		m.near = firstWaiter(m.line[at+1:])
	}
	m.line = slices.DeleteFunc(m.line, func(c backends.Claim) bool { return c.ID == id })
}

func firstWaiter(line []backends.Claim) string {
	for _, c := range line {
		if c.State == backends.Waiting {
			return c.ID
		}
	}
	return ""
}

func (m *model) notify(c *backends.Claim) {
	c.Notice = backends.Notice{Kind: backends.Break, Reason: "r"}
	if err := m.s.Ask(m.Context(), m.key, c.ID, c.Notice); err != nil {
		m.Errorf("Ask = %v", err)
	}
}

// compare wants the store's line, and those rung who ought to be.
func (m *model) compare() {
	status := inspect(m, m.s, m.key)
	for i, c := range status.Line {
		if i >= len(m.line) || c.ID != m.line[i].ID || c.State != m.line[i].State || c.Slot != m.line[i].Slot {
			m.Fatalf("line %+v, want %+v", status.Line, m.line)
		}
	}
	if len(status.Line) != len(m.line) {
		m.Fatalf("line %+v, want %+v", status.Line, m.line)
	}
	first, fit := true, map[string]bool{}
	for i, c := range m.line {
		if c.State != backends.Waiting {
			continue
		}
		rings := do(m, m.s, "LLEN", m.s.to.prefix.bell(m.key, c.ID)).(int64)
		fits, called := backends.Fits(c, m.line[:i]), rings > m.rung[c.ID]
		m.rung[c.ID] = max(m.rung[c.ID], rings) // one that nobody listens to is dropped in the end
		if fits && m.rung[c.ID] == 0 && c.Notice == (backends.Notice{}) && (first || c.Mode == backends.Shared) {
			m.Errorf("%s was not rung, in %+v", c.ID, m.line)
		}
		first, fit[c.ID] = false, fits
		if c.ID == m.near {
			if m.rung[c.ID] == 0 {
				m.Errorf("%s was not told that the one in front left, in %+v", c.ID, m.line)
			}
			continue
		}
		if called && !fits && c.Notice == (backends.Notice{}) {
			m.Errorf("%s was rung for nothing, in %+v", c.ID, m.line)
		}
		if called && m.fit[c.ID] && c.Mode == backends.Shared && c.Notice == (backends.Notice{}) {
			m.Errorf("%s was rung again, in %+v", c.ID, m.line)
		}
	}
	m.fit = fit
}
