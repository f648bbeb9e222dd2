package backendtest_test

import (
	"cmp"
	"context"
	"time"

	"flockd/backends"
)

// past is what has become of an ID.
type past struct {
	client  int       // that asked first
	order   int       // how many had asked before
	at      time.Time // when
	swapped string    // the ID that it goes by now

	mode    backends.Mode  // of its first question
	endedAs backends.State // where a removal or release that is recorded met it

	asked, granted, released, removed bool
	cools                             bool // has a MinHold
	parted                            bool // was asked to leave while somebody held

	told backends.Notice // the latest that was asked of it without an error
}

func (w *world) knows(id string) past {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.past[id]
}

// explained reports whether the latest that was asked of it has a reason, as where the
// tests want it told.
func (p past) explained() bool { return p.told.Reason != "" }

// someone reports whether there is an ID with such a past.
func (w *world) someone(is func(id string, p past) bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, p := range w.past {
		if is(id, p) {
			return true
		}
	}
	return false
}

// learns changes what is known of an ID.
func (w *world) learns(id string, change func(p *past)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.past[id]
	change(&p)
	w.past[id] = p
}

// line is the true line of key.
func (s *store) line(ctx context.Context, key string) []backends.Claim {
	status, _ := s.Store.Inspect(ctx, key)
	return status.Line
}

// state is where id truly stands; empty: nowhere.
func (s *store) state(ctx context.Context, key, id string) backends.State {
	for _, c := range s.line(ctx, key) {
		if c.ID == id {
			return c.State
		}
	}
	return ""
}

// asked is the request that held answers.
func (s *store) asked(held *backends.HeldError) backends.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[held]
}

func (s *store) lastGrant() backends.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// firstAsked is when id came.
func (s *store) firstAsked(id string) time.Time {
	if p := s.knows(id); p.asked {
		return p.at
	}
	return time.Now()
}

// lapsed reports whether a claim of key, or only one that was granted, came to its end by itself.
func (s *store) lapsed(ctx context.Context, key string, granted bool) bool {
	return s.someone(func(id string, p past) bool {
		return p.asked && p.granted == granted && !p.released && !p.removed && s.state(ctx, key, id) == ""
	})
}

// swapped is the request under the ID that its own was swapped for.
func (s *store) swapped(req backends.Request) backends.Request {
	req.ID = cmp.Or(s.knows(req.ID).swapped, req.ID)
	return req
}

// swap lets the claim of id have the place that the store knows as place.
func (s *store) swap(id, place string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	as := func(id string) string { return cmp.Or(s.past[id].swapped, id) }
	was := as(id)
	for other, p := range s.past {
		switch {
		case other == id:
			p.swapped = place
		case as(other) == place:
			p.swapped = was
		}
		s.past[other] = p
	}
}

// states tells who stands where in a line.
func states(line []backends.Claim) (text []string) {
	for _, c := range line {
		text = append(text, c.ID+" "+string(c.State))
	}
	return text
}
