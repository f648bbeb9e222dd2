package torture

import (
	"cmp"
	"slices"

	"github.com/anishathalye/porcupine"

	"flockd/backends"
	"flockd/testscripts/torture/trace"
)

// grant is one hold, as its holder was told of it.
type grant struct {
	key, id  string
	pid      int
	token    backends.Token
	asked    int64 // when the holder first asked for the key
	sent     int64 // when the request was sent that was answered by the grant
	told     int64 // when that answer came
	last     int64 // when the last request was sent that proved the hold
	trusted  int64 // how long it may be relied on from last on
	released bool  // by the store's word
}

// validUntil is the instant before which nobody else can have been granted the key,
// if the clocks' rates agree to 1 %.
func (g *grant) validUntil() int64 { return g.last + g.trusted/100*99 }

func (g *grant) proved(r *request) {
	if r.At+r.answer.Trusted > g.last+g.trusted {
		g.last, g.trusted = r.At, r.answer.Trusted
	}
	g.told = min(g.told, r.answer.At)
}

// life is what one ID went through.
type life struct {
	key      string
	pid      int
	requests []*request
	grants   []*grant // in the order of their tokens; more than one where the lease ran out before its holder heard of it
	unheard  int64    // the first request that may have been granted though no answer says so, or never
	wanted   int64    // the TTL that it asked for
	ended    int64    // from when on the ID is forbidden for certain, or never
}

// livesOf sorts requests by the ID that asked.
func livesOf(requests []*request) map[string]*life {
	lives := map[string]*life{}
	for _, r := range requests {
		if lives[r.ID] == nil {
			lives[r.ID] = &life{key: r.Key, pid: r.pid(), unheard: never, ended: never}
		}
		lives[r.ID].add(r)
	}
	return lives
}

func (l *life) add(r *request) {
	l.requests = append(l.requests, r)
	switch outcome := r.outcome(); {
	case r.Op == trace.Release && outcome == trace.OK:
		if n := len(l.grants); n > 0 && l.holds(r.At) {
			l.grants[n-1].released = true
		}
		l.ended = min(l.ended, r.answer.At)
	case r.Op == trace.Release && outcome == trace.Lost:
		l.ended = min(l.ended, r.answer.At)
	case outcome == trace.OK:
		l.granted(r).proved(r)
	case outcome == trace.Unknown && r.Op == trace.Acquire && r.At < l.unheard:
		l.unheard, l.wanted = r.At, r.Asked
	}
}

// granted is the hold that r proves.
func (l *life) granted(r *request) *grant {
	if g := l.grant(r.answer.Token); g != nil {
		return g
	}
	g := &grant{key: l.key, id: r.ID, pid: l.pid, token: r.answer.Token, asked: l.requests[0].At, sent: r.At, told: r.answer.At}
	l.grants = append(l.grants, g)
	slices.SortFunc(l.grants, func(a, b *grant) int { return cmp.Compare(a.token, b.token) })
	return g
}

// grant is the hold under token, nil if its holder wasn't told of one.
func (l *life) grant(token backends.Token) *grant {
	for _, g := range l.grants {
		if g.token == token {
			return g
		}
	}
	return nil
}

// holds reports whether the last answer before at was that the ID holds.
func (l *life) holds(at int64) (held bool) {
	for _, r := range l.requests {
		if r.Op == trace.Acquire && r.answer != nil && r.answer.At <= at && r.answer.Outcome != trace.Unknown {
			held = r.answer.Outcome == trace.OK
		}
	}
	return held
}

// operations is the history as the model wants it.
func operations(requests []*request) []porcupine.Operation {
	lives := livesOf(requests)
	var ops []porcupine.Operation
	for _, r := range requests {
		if op, ok := lives[r.ID].operation(r); ok {
			ops = append(ops, op)
		}
	}
	for id, l := range lives {
		if l.ended != never && l.unheard != never {
			ops = append(ops, l.gone(id))
		}
	}
	return append(ops, expiries(requests, lives)...)
}

// gone says that an ID holds nothing once its release was answered, even if an
// acquire of it came to the store after that.
func (l *life) gone(id string) porcupine.Operation {
	return porcupine.Operation{
		ClientId: l.pid, Call: l.ended + 1, Return: l.ended + 1,
		Input: input{op: trace.Renew, key: l.key, id: id}, Output: output{outcome: trace.Lost},
	}
}

// operation is r as the model wants it; false: it changes and says nothing.
func (l *life) operation(r *request) (op porcupine.Operation, ok bool) {
	in, out := input{op: r.Op, key: r.Key, id: r.ID}, output{outcome: r.outcome()}
	op.Call, op.Return, op.ClientId = r.At, l.ended, l.pid
	switch {
	case out.outcome == trace.Refused, out.outcome == trace.Unknown && r.Op == trace.Renew:
		return op, false
	case out.outcome == trace.Unknown && r.At > l.ended:
		return op, false // the ID was forbidden before
	case out.outcome != trace.Unknown:
		out.token, out.by, op.Return = r.answer.Token, r.answer.By, r.answer.At
		if out.outcome == trace.Held {
			out.token = r.answer.ByToken
		}
	}
	in.granted = r.Op == trace.Release && l.holds(r.At)
	op.Input, op.Output = in, out
	return op, true
}

type holdID struct {
	id    string
	token backends.Token
}

// expiries are the ends of all leases that weren't given back: of grants that were
// told, and of those that may have been made though their answer was lost.
func expiries(requests []*request, lives map[string]*life) (ops []porcupine.Operation) {
	add := func(l *life, id holdID, from int64) {
		in := input{op: expire, key: l.key, id: id.id, token: id.token}
		ops = append(ops, porcupine.Operation{ClientId: l.pid, Input: in, Output: output{}, Call: from, Return: never})
	}
	for id, l := range lives {
		for _, g := range l.grants {
			if !g.released {
				add(l, holdID{id, g.token}, g.validUntil())
			}
		}
	}
	for ghost := range ghosts(requests, lives) {
		l := lives[ghost.id]
		// The store may lower the TTL by its granularity, which no answer told.
		add(l, ghost, l.unheard+l.wanted/10*9)
	}
	return ops
}

// ghosts are the holds that may have been granted in an answer that was lost: under
// a token that nobody has seen, or that others have.
func ghosts(requests []*request, lives map[string]*life) map[holdID]bool {
	found := map[holdID]bool{}
	for id, l := range lives {
		if l.unheard != never {
			found[holdID{id, 0}] = true
		}
	}
	for _, r := range requests {
		if r.outcome() != trace.Held {
			continue
		}
		l, seen := lives[r.answer.By], holdID{r.answer.By, r.answer.ByToken}
		if l != nil && l.unheard != never && l.grant(seen.token) == nil {
			found[seen] = true
		}
	}
	return found
}
