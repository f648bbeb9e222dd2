//go:build linux

package torture

import (
	"github.com/anishathalye/porcupine"

	"flockd/backends"
	"flockd/testscripts/torture/trace"
)

// operations is the history as the model wants it. A request without a definite
// answer is none of them; what may have come of it is:
//
//   - A renewal can only have made a lease longer, for which an expiry leaves room.
//   - A release may have ended the hold, so the expiry of that hold may come as soon
//     as the release was sent.
//   - An acquire may have been granted. If others, or its own ID later, have seen that
//     hold, it is a grant at some time between. If nobody has, nothing depends on it.
func operations(requests []*request) []porcupine.Operation {
	lives, seen := livesOf(requests), sightings(requests)
	var ops []porcupine.Operation
	for _, r := range requests {
		if outcome := r.outcome(); outcome != trace.Unknown && outcome != trace.Refused {
			ops = append(ops, lives[r.ID].operation(r))
		}
	}
	for id, l := range lives {
		if l.unheard == never {
			continue
		}
		for token, at := range seen[id] {
			ops = append(ops, l.unheardGrant(id, token, at))
		}
		if l.ended != never {
			ops = append(ops, l.gone(id))
		}
	}
	return append(ops, expiries(lives, seen)...)
}

// operation is a request with a definite answer.
func (l *life) operation(r *request) porcupine.Operation {
	in := input{op: r.Op, key: r.Key, id: r.ID, granted: r.Op == trace.Release && l.holds(r.At)}
	out := output{outcome: r.answer.Outcome, token: r.answer.Token, by: r.answer.By}
	if out.outcome == trace.Held {
		out.token = r.answer.ByToken
	}
	return porcupine.Operation{ClientId: l.pid, Input: in, Call: r.At, Output: out, Return: r.answer.At}
}

// sightings are the holds that somebody was told of, by ID and token, each with the
// time of the first answer that tells of it.
func sightings(requests []*request) map[string]map[backends.Token]int64 {
	seen := map[string]map[backends.Token]int64{}
	see := func(id string, token backends.Token, at int64) {
		if seen[id] == nil {
			seen[id] = map[backends.Token]int64{}
		}
		if first, ok := seen[id][token]; !ok || at < first {
			seen[id][token] = at
		}
	}
	for _, r := range requests {
		switch outcome := r.outcome(); {
		case outcome == trace.Held:
			see(r.answer.By, r.answer.ByToken, r.answer.At)
		case outcome == trace.OK && r.Op == trace.Acquire:
			see(r.ID, r.answer.Token, r.answer.At)
		}
	}
	return seen
}

// unheardGrant is a grant that may have been made in an answer that was lost: before
// the hold was seen, and before the ID was released.
func (l *life) unheardGrant(id string, token backends.Token, seen int64) porcupine.Operation {
	in, out := input{op: trace.Acquire, key: l.key, id: id}, output{outcome: trace.OK, token: token}
	from := l.unheard
	if g := l.grant(token); g != nil {
		from = min(from, g.sent)
	}
	return porcupine.Operation{ClientId: l.pid, Input: in, Call: from, Output: out, Return: max(from, min(seen, l.ended))}
}

// gone says that an ID holds nothing once its release was answered, even if an
// acquire of it came to the store after that.
func (l *life) gone(id string) porcupine.Operation {
	return porcupine.Operation{
		ClientId: l.pid, Call: l.ended + 1, Return: l.ended + 1,
		Input: input{op: trace.Renew, key: l.key, id: id}, Output: output{outcome: trace.Lost},
	}
}

// expiries are the ends of all holds that somebody has seen and that weren't given
// back. They come before the next grant was told, if there is one.
func expiries(lives map[string]*life, seen map[string]map[backends.Token]int64) (ops []porcupine.Operation) {
	next := successors(lives)
	for id, tokens := range seen {
		l := lives[id]
		if l == nil {
			continue // not one of ours: the model will tell
		}
		for token := range tokens {
			from, ok := l.freed(token)
			if !ok {
				continue
			}
			in := input{op: expire, key: l.key, id: id, token: token}
			ops = append(ops, porcupine.Operation{
				ClientId: l.pid, Input: in, Call: from, Output: output{}, Return: max(from, next(l.key, token)),
			})
		}
	}
	return ops
}

// freed is from when on a hold may have ended by itself; false: it was released.
func (l *life) freed(token backends.Token) (from int64, ok bool) {
	g := l.grant(token)
	switch {
	case g == nil:
		// The store may lower the TTL by its granularity, which no answer told.
		return min(l.unheard+l.wanted/10*9, l.leaving), true
	case g.released:
		return 0, false
	}
	return min(g.validUntil(), l.leaving), true
}

// successors tells when the first grant of a key under a larger token was told.
func successors(lives map[string]*life) func(key string, token backends.Token) int64 {
	byKey := map[string][]*grant{}
	for _, g := range grantsOf(lives) {
		byKey[g.key] = append(byKey[g.key], g)
	}
	return func(key string, token backends.Token) int64 {
		first := int64(never)
		for _, g := range byKey[key] {
			if g.token > token {
				first = min(first, g.told)
			}
		}
		return first
	}
}
