package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"flockd/backends"
)

// side is the store or its model, with what it has said in one script so far.
type side struct {
	*testing.T
	clients []backends.Backend
	key     string
	ids     []string // by claim
	names   *strings.Replacer
	leases  map[int]backends.Lease
	waits   map[int]sleeper // by claim that waits
	token   backends.Token  // the largest
}

// sleeper is a call of Wait.
type sleeper struct {
	once *backends.Once // what it waits for
	end  context.CancelFunc
	done chan error
}

func newSide(t *testing.T, clients []backends.Backend, key string, ids []string) *side {
	var names []string
	for i, id := range ids {
		names = append(names, id, fmt.Sprint("claim ", i))
	}
	return &side{T: t, clients: clients, key: key, ids: ids, names: strings.NewReplacer(names...), leases: map[int]backends.Lease{}, waits: map[int]sleeper{}}
}

// take makes the call, and tells the answer in words that are the same for all stores.
func (s *side) take(step step) string {
	b, id, ctx := s.clients[step.client%len(s.clients)], s.ids[step.claim], s.Context()
	ledger, _ := backends.As[backends.Ledger](b)
	lease, held := s.leases[step.claim]
	if !held {
		lease = backends.Lease{Key: s.key, ID: id, Mode: step.req.Mode, TTL: step.req.TTL, Run: "never granted"}
	}
	switch step.call {
	case acquire:
		return s.acquire(b, step)
	case renew:
		renewal, err := b.Renew(ctx, lease)
		if err != nil {
			return s.verdict(err)
		}
		return fmt.Sprintf("renewed for %v%s", renewal.TTL, noted(renewal.Notice))
	case release:
		s.leave(step.claim)
		return s.verdict(b.Release(ctx, s.key, id, step.outcome))
	case ask:
		return s.verdict(b.Ask(ctx, s.key, id, step.notice))
	case complete:
		if lease.Run == "" {
			return "no run"
		}
		return s.verdict(ledger.Complete(ctx, lease))
	case forget:
		return s.verdict(ledger.Forget(ctx, s.key, step.run))
	}
	return s.entries(ledger)
}

func (s *side) acquire(b backends.Backend, step step) string {
	s.leave(step.claim)
	req := step.req
	req.Key, req.ID = s.key, s.ids[step.claim]
	lease, err := b.Acquire(s.Context(), req)
	var held *backends.HeldError
	if err == nil {
		return s.granted(step.claim, lease)
	}
	if errors.As(err, &held) && req.Place > 0 && held.Notice == (backends.Notice{}) {
		s.wait(b, step, held)
	}
	return s.verdict(err)
}

// granted checks the token, which no two stores have in common.
func (s *side) granted(claim int, lease backends.Lease) string {
	text := fmt.Sprintf("granted %s, slot %d for %v, run %q kept for %v", lease.Mode, lease.Slot, lease.TTL, lease.Run, lease.Keep)
	old, again := s.leases[claim]
	switch {
	case again && old.Token != lease.Token:
		text += ", with another token"
	case !again && lease.Token <= s.token:
		text += ", with a token that isn't larger"
	}
	s.leases[claim], s.token = lease, max(s.token, lease.Token)
	return text
}

// wait starts to wait after the answer held. The model never does.
func (s *side) wait(b backends.Backend, step step, held *backends.HeldError) {
	waiter, _ := backends.As[backends.Waiter](b)
	ctx, cancel := context.WithCancel(s.Context())
	w := sleeper{step.req.Once, cancel, make(chan error, 1)}
	s.waits[step.claim] = w
	if len(s.clients) > 1 {
		go func() { w.done <- waiter.Wait(ctx, held); close(w.done) }()
	} else {
		close(w.done)
	}
}

// leave ends the waiting of a claim, if it does.
func (s *side) leave(claim int) {
	if w, ok := s.waits[claim]; ok {
		w.end()
		for range w.done {
		}
		delete(s.waits, claim)
	}
}

func (s *side) leaveAll() {
	for claim := range s.ids {
		s.leave(claim)
	}
}

// asleep says which claim was not woken by what has happened to the model: it was removed
// or has a notice, its turn has come, or the run that it wants has succeeded.
func (s *side) asleep(model *side, patience time.Duration) string {
	line := model.status().Line
	for claim, w := range s.waits {
		if !model.hears(line, claim, w.once) {
			continue
		}
		select {
		case err := <-w.done:
			if err != nil {
				return fmt.Sprintf("Wait of claim %d: %v", claim, err)
			}
		case <-time.After(patience):
			return fmt.Sprintf("claim %d wasn't woken", claim)
		}
	}
	return ""
}

// hears reports whether a claim that waited has something to hear. Those who wait for a
// slot behind others hear of their turn from these.
func (s *side) hears(line []backends.Claim, claim int, once *backends.Once) bool {
	place := slices.IndexFunc(line, func(c backends.Claim) bool { return c.ID == s.ids[claim] })
	if place < 0 || line[place].Notice != (backends.Notice{}) {
		return true
	}
	c, front := line[place], line[:place]
	waits := func(c backends.Claim) bool { return c.State == backends.Waiting }
	if backends.Fits(c, front) && !(c.Mode == backends.Slots && slices.ContainsFunc(front, waits)) {
		return true
	}
	if once == nil {
		return false
	}
	ledger, _ := backends.As[backends.Ledger](s.clients[0])
	_, err := ledger.Completed(s.Context(), s.key, once.RunAt(time.Now()))
	return err == nil
}

func (s *side) status() backends.Status {
	status, err := s.clients[0].Inspect(s.Context(), s.key)
	if err != nil {
		s.Fatalf("Inspect = %v", err)
	}
	return status
}

func (s *side) state() string {
	status := s.status()
	return fmt.Sprintf("line [%s], last %s, last success %s", s.claims(status.Line), s.run(status.Last), s.run(status.LastSuccess))
}

// claims tells who cools first, in any order, and without a notice, which is nobody's any more.
func (s *side) claims(line []backends.Claim) string {
	var cool, others []string
	for _, c := range line {
		text := fmt.Sprintf("%s %s %s %d/%d of pid %d", c.ID, c.State, c.Mode, c.Slot, c.Slots, c.Owner.PID)
		if c.State == backends.Cooling {
			cool = append(cool, text)
		} else {
			others = append(others, text+noted(c.Notice))
		}
	}
	slices.Sort(cool)
	return s.names.Replace(strings.Join(append(cool, others...), "; "))
}

func (s *side) run(r *backends.Run) string {
	if r == nil {
		return "none"
	}
	for claim, lease := range s.leases {
		if lease.Token == r.Token {
			return fmt.Sprintf("of claim %d, pid %d: %s %d%s", claim, r.Owner.PID, r.Class, r.Exit, noted(r.Notice))
		}
	}
	return "of nobody"
}

func (s *side) entries(ledger backends.Ledger) string {
	var list []string
	for e, err := range ledger.Entries(s.Context(), s.key) {
		list = append(list, s.entry(e)+" "+s.verdict(err))
	}
	return strings.Join(list, "; ")
}

func (s *side) entry(e backends.Entry) string { return fmt.Sprintf("%q by pid %d", e.Run, e.Owner.PID) }

// verdict tells an error by what a caller may rely on.
func (s *side) verdict(err error) string {
	var held *backends.HeldError
	var done *backends.DoneError
	var removed *backends.RemovedError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &held):
		return s.held(held)
	case errors.As(err, &done):
		return "done: " + s.entry(done.Entry)
	case errors.As(err, &removed):
		return "lost" + noted(removed.Notice)
	case errors.Is(err, backends.ErrLost):
		return "lost"
	case errors.Is(err, backends.ErrNotFound):
		return "not found"
	}
	return err.Error()
}

// held tells the holders in any order, without their notices, which are for them alone.
func (s *side) held(h *backends.HeldError) string {
	var next []backends.Claim
	if h.Next != nil {
		next = []backends.Claim{*h.Next}
	}
	bare := func(claims []backends.Claim) string {
		claims = slices.Clone(claims)
		for i := range claims {
			claims[i].Notice = backends.Notice{}
		}
		slices.SortFunc(claims, func(a, b backends.Claim) int { return strings.Compare(a.ID, b.ID) })
		return s.claims(claims)
	}
	return fmt.Sprintf("held by [%s], next [%s], %d ahead of %d waiters%s", bare(h.Holders), bare(next), h.Ahead, h.Waiters, noted(h.Notice))
}

// noted is nothing for no notice.
func noted(n backends.Notice) string {
	if n == (backends.Notice{}) {
		return ""
	}
	return fmt.Sprintf(", notice %s by pid %d for %q, force %v", n.Kind, n.By.PID, n.Reason, n.Force)
}
