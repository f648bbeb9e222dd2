package mem

import (
	"context"
	"time"

	"flockd/backends"
)

// A watch is what a waiter waits for: the departure of the claims that it saw
// in its way, or of the one whose own turn must come first; a word to itself; the
// success of the run that it wants.
type watch struct {
	place  string                    // its own ID; empty: it has no place
	once   *backends.Once            // its run
	states map[string]backends.State // by ID, as they were
	grants bool                      // the grant of one counts too
	ends   time.Time                 // when the first of them ends by itself
}

// watch picks what the claim at place waits for, so that one hand-over wakes
// one waiter: Exclusive the claim in front; Shared the nearest in front that is
// not Shared; Slots, if first of the waiters, any holder's departure, or else
// the turn of the waiter in front.
func (r *record) watch(place int, now time.Time) watch {
	c, front := r.line[place], r.line[:place]
	w := watch{once: c.once, states: map[string]backends.State{}}
	if c.State == backends.Waiting && now.Before(c.Expires) {
		w.place = c.ID
	}
	for i := len(front) - 1; i >= 0; i-- {
		f := front[i]
		switch c.Mode {
		case backends.Shared:
			if f.Mode == backends.Shared {
				continue
			}
		case backends.Slots:
			if f.State != backends.Waiting {
				w.see(f)
				continue
			}
			clear(w.states)
			w.grants, w.ends = f.Mode == backends.Slots, time.Time{}
		}
		w.see(f)
		return w
	}
	if len(w.states) == 0 { // nobody is in front: a hold of ours that cools
		w.see(c)
	}
	return w
}

func (w *watch) see(c *claim) {
	w.states[c.ID] = c.State
	if w.ends.IsZero() || c.Expires.Before(w.ends) {
		w.ends = c.Expires
	}
}

// over reports whether one of the claims has left the line, or has ended and cools, or
// the waiter itself has something to hear.
func (w *watch) over(r *record, at time.Time) bool {
	if _, done := r.succeeded(w.once, at); done || w.asked(r) {
		return true
	}
	now := map[string]backends.State{}
	for _, c := range r.line {
		now[c.ID] = c.State
	}
	for id, was := range w.states {
		is := now[id]
		granted := was == backends.Waiting && is == backends.Holding
		if is != was && (w.grants || !granted) {
			return true
		}
	}
	return false
}

// asked reports whether somebody has removed the place, or left a notice for it.
func (w *watch) asked(r *record) bool {
	if w.place == "" {
		return false
	}
	place := r.place(w.place)
	return place < 0 || r.line[place].Notice != backends.Notice{}
}

// Wait returns when the claim that was in the way has left the line, been granted
// where that matters, or begun to cool; or when the waiter has something to hear. It
// doesn't return for a claim that expires: held.RetryAfter tells when that is.
func (s *Store) Wait(ctx context.Context, held *backends.HeldError) error {
	w, ok := held.Seen.(watch)
	if !ok {
		return backends.Refuse("", "an answer of another store")
	}
	for {
		r, now, err := s.begin(ctx, held.Key)
		if err != nil {
			return err
		}
		over, changed := w.over(r, now), r.changed
		s.mu.Unlock()
		if over {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Watch returns when the hold is gone or has a notice that no renewal has told of. It
// doesn't return for a lease that runs out.
func (s *Store) Watch(ctx context.Context, lease backends.Lease) error {
	for {
		r, _, err := s.begin(ctx, lease.Key)
		if err != nil {
			return err
		}
		c, changed := r.holding(lease.ID), r.changed
		news := c == nil || c.Notice != (backends.Notice{}) && c.Notice != c.told
		s.mu.Unlock()
		if news {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
