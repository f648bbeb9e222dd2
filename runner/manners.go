package runner

import (
	"context"
	"errors"
	"slices"

	"flockd/backends"
)

// ErrLapsed says that our claim ended by itself: we asked again too late.
var ErrLapsed = errors.New("its place in line, or what it was granted, has run out")

// removal is the notice that the store's word gives for the end of a claim; zero: it was
// nobody's doing.
func removal(err error) backends.Notice {
	var removed *backends.RemovedError
	if errors.As(err, &removed) {
		return removed.Notice
	}
	return backends.Notice{}
}

// crowded reports whether as many wait in front of us as may wait at all. Those behind
// us don't count: of several that come at once the first ones stay.
func (l *line) crowded() bool {
	most := l.o.MaxWaiters
	return most == Nobody || most > 0 && l.held.Ahead >= most
}

// supersede asks the waiters in front to leave the line. Whom it hasn't reached is
// asked after the next answer.
func (l *line) supersede(ctx context.Context) {
	if !l.o.Supersede || l.barred || l.held.Ahead == 0 {
		return
	}
	b, key := l.o.Backend, l.o.Request.Key
	err := within(ctx, min(askAtMost, l.waitLeft()), func(ctx context.Context) error {
		status, err := b.Inspect(ctx, key)
		if err != nil {
			return err
		}
		for _, c := range inFront(status.Line, l.o.Request.ID) {
			err := b.Ask(ctx, key, c.ID, backends.Notice{Kind: backends.Supersede, By: l.o.Request.Owner})
			if err != nil && !errors.Is(err, backends.ErrNotFound) { // else it has left the line, or holds
				return err
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, backends.ErrRefused):
		l.barred = true
		l.o.Log.Warn("those in front can't be asked to leave the line", "key", key, "err", err)
	case err != nil:
		l.o.Log.Debug("asking those in front to leave the line failed", "key", key, "err", err)
	}
}

// inFront are the waiters in front of id whom nobody has asked to leave.
func inFront(line []backends.Claim, id string) []backends.Claim {
	ours := slices.IndexFunc(line, func(c backends.Claim) bool { return c.ID == id })
	return slices.DeleteFunc(slices.Clone(line[:max(ours, 0)]), func(c backends.Claim) bool {
		return c.State != backends.Waiting || c.Notice != backends.Notice{}
	})
}
