package stored

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"flockd/backends"
)

// Acquire implements backends.Backend.
func (s *Store) Acquire(ctx context.Context, req backends.Request) (backends.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err := req.Check()
	var lease backends.Lease
	if err == nil {
		lease, err = s.acquire(ctx, req)
	}
	if err != nil {
		return backends.Lease{}, failed("acquire", req.Key, err)
	}
	return lease, nil
}

func (s *Store) acquire(ctx context.Context, req backends.Request) (lease backends.Lease, err error) {
	a, listed, err := s.ask(ctx, req)
	if err == nil && (a.Is == "late" || a.Is == "another") { // by what we knew of the server's clock
		a, listed, err = s.ask(ctx, req)
	}
	switch {
	case err != nil:
		return lease, err
	case a.Is == "granted":
		return a.lease(req), nil
	case a.Is == "held":
		return lease, a.held(req, listed)
	case a.Is == "lost":
		return lease, a.gone()
	case a.Is == "done":
		return lease, done(req.Key, listed)
	case a.Is == "late" || a.Is == "another":
		return lease, errors.New("the question came too late")
	}
	return lease, fmt.Errorf("unknown answer %q", a.Is)
}

// done reads the answer that the run has succeeded.
func done(key string, listed [][]byte) error {
	entries, err := read[entry](listed, nil)
	switch {
	case err != nil:
		return err
	case len(entries) != 1:
		return fmt.Errorf("%d entries for a run", len(entries))
	}
	return &backends.DoneError{Key: key, Entry: entries[0].public()}
}

// ask sends the question, and learns the server's clock from the answer. A question that was
// held up, in a server that stood still or on the way, may come when whoever asked has gone:
// to grant it would keep the key taken for nobody, so it says when that is.
func (s *Store) ask(ctx context.Context, req backends.Request) (answer, [][]byte, error) {
	asked := time.Now()
	args := []any{
		req.ID, int64(backends.RecordVersion), micros(req.TTL), micros(req.Place), micros(req.MinHold),
		string(req.Mode), int64(req.Slots), encode(req.Owner), unix(s.clock.Deadline(ctx)),
	}
	a, listed, err := s.do(ctx, Acquire, req.Key, append(args, s.once(req.Once)...)...)
	if a.Now != 0 {
		s.clock.Read(instant(a.Now), asked)
	}
	if a.Made {
		s.made.Store(true)
	}
	return a, listed, err
}

// once is what the step is told of a run that isn't repeated: its name, and between which
// instants of the server's clock it is that one. If the server's clock says otherwise, we
// are told what it says and ask again.
func (s *Store) once(o *backends.Once) []any {
	if o == nil {
		return []any{"", []byte{}, int64(0), int64(0), int64(0)}
	}
	kept := micros(o.KeepFor())
	if o.ID != "" {
		return []any{"i", []byte(o.ID), int64(0), int64(1) << 53, kept}
	}
	now := s.clock.Now()
	first, last := o.Reach(now)
	return []any{"p", []byte(o.RunAt(now)), unix(first), unix(last), kept}
}

// unix is an instant as the steps are told it; 0: none.
func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func (a answer) lease(req backends.Request) backends.Lease {
	return backends.Lease{
		Key: req.Key, ID: req.ID, Token: backends.Token(a.Token), Mode: a.Mode, Slot: a.Slot, TTL: req.TTL,
		Granted: instant(a.Granted), Run: string(a.Run), Keep: span(a.Keep),
	}
}

// held reads the answer that somebody is in the way.
func (a answer) held(req backends.Request, listed [][]byte) error {
	claims, err := read[claim](listed, nil)
	if err != nil {
		return err
	}
	held := &backends.HeldError{
		Key: req.Key, AsOf: instant(a.Now), Waiters: a.Waiters, Ahead: a.Ahead, RetryAfter: max(span(a.Retry), 0),
		Notice: backends.Notice(a.Notice),
	}
	if req.Place > 0 {
		held.Seen = place(req.ID)
	}
	for _, c := range claims {
		if c := c.public(a.Now); c.State == backends.Waiting {
			held.Next = &c
		} else {
			held.Holders = append(held.Holders, c)
		}
	}
	slices.SortStableFunc(held.Holders, func(a, b backends.Claim) int { return a.Asked.Compare(b.Asked) })
	return held
}
