//go:build linux

package torture

import (
	"cmp"
	"slices"

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
	parting  int64    // the first release, or never
	leaving  int64    // the first release that may have been applied though no answer says so, or never
	ended    int64    // from when on the ID is forbidden for certain, or never
}

// livesOf sorts requests by the ID that asked.
func livesOf(requests []*request) map[string]*life {
	lives := map[string]*life{}
	for _, r := range requests {
		if lives[r.ID] == nil {
			lives[r.ID] = &life{key: r.Key, pid: r.pid(), unheard: never, parting: never, leaving: never, ended: never}
		}
		lives[r.ID].add(r)
	}
	return lives
}

func (l *life) add(r *request) {
	l.requests = append(l.requests, r)
	if r.Op == trace.Release {
		l.parting = min(l.parting, r.At)
	}
	switch outcome := r.outcome(); {
	case r.Op == trace.Release && outcome == trace.OK:
		if n := len(l.grants); n > 0 && l.holds(r.At) {
			l.grants[n-1].released = true
		}
		l.ended = min(l.ended, r.answer.At)
	case r.Op == trace.Release && outcome == trace.Lost:
		l.ended = min(l.ended, r.answer.At)
	case r.Op == trace.Release && outcome == trace.Unknown:
		l.leaving = min(l.leaving, r.At)
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

// grantsOf are all grants in lives.
func grantsOf(lives map[string]*life) (grants []*grant) {
	for _, l := range lives {
		grants = append(grants, l.grants...)
	}
	return grants
}

// holdID names one hold: an ID can come to more than one.
type holdID struct {
	id    string
	token backends.Token
}
