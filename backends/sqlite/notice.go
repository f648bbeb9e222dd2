//go:build cgo && linux

package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"flockd/backends"
)

// tombstone is how long a released ID stays forbidden. What it must outlast is an
// acquire of the same process that hangs in the file system; the process ends
// soon after its release.
const tombstone = 10 * time.Minute

// Ask implements backends.Backend.
func (s *Store) Ask(ctx context.Context, key, id string, notice backends.Notice) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var theirs *claim
	var rings []int64
	err := s.step(ctx, logged, func(t *tx) (err error) {
		theirs, rings, err = t.ask(key, id, notice)
		return err
	})
	if err == nil {
		s.ring(rings...)
		s.tell(theirs)
	}
	return s.failed("ask", key, err)
}

// ask returns the claim that was asked, and whom else to wake.
func (t *tx) ask(key, id string, notice backends.Notice) (theirs *claim, rings []int64, err error) {
	if theirs, err = scan(t.row("mine", t.store.prefix, key, id)); err != nil {
		return nil, nil, err
	}
	there := theirs != nil && theirs.live(t.store.clock.boot, t.now)
	g, err := t.buried(id)
	switch {
	case err != nil:
		return nil, nil, err
	case !there && g != nil && g.seq > 0 && g.notice == notice:
		return t.askedBefore(key, g.seq)
	case !there, notice.Kind == backends.Supersede && !theirs.waits():
		return nil, nil, backends.ErrNotFound
	}
	if notice.Force || theirs.waits() {
		until := t.now + int64(backends.RemovedFor)
		err = t.exec("forbid", id, t.store.clock.boot, until, theirs.seq, noticeText(notice))
	}
	switch {
	case err != nil:
		return nil, nil, err
	case notice.Force:
		rings, err = t.force(theirs, notice)
		return theirs, rings, err
	}
	return theirs, nil, t.exec("notify", noticeText(notice), theirs.seq)
}

// askedBefore is what ask returned for a claim that has left since: who asks again may have
// been stopped before it rang.
func (t *tx) askedBefore(key string, seq int64) (theirs *claim, rings []int64, err error) {
	theirs = &claim{seq: seq, key: key, mode: backends.Exclusive, state: backends.Cooling}
	rings, err = t.freed(theirs)
	return theirs, rings, err
}

// force removes a claim at once, and records the run that it breaks. It returns whom to
// wake.
func (t *tx) force(theirs *claim, notice backends.Notice) ([]int64, error) {
	if theirs.holds(t.store.clock.boot, t.now) {
		if err := t.record(theirs, backends.Outcome{Class: backends.Broken, Notice: notice}); err != nil {
			return nil, err
		}
	}
	return t.remove(theirs)
}

// grave is a row of the table ended.
type grave struct {
	seq    int64           // the place of a claim that was removed or asked to leave the line; 0: it was released
	notice backends.Notice // by which it was
}

// buried is the grave of an ID, nil if it has none.
func (t *tx) buried(id string) (*grave, error) {
	var g grave
	var notice string
	switch err := t.row("ended", id).Scan(&g.seq, &notice); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	g.notice = noticeIn(notice)
	return &g, nil
}

// forbidden is why an ID can't come back, nil if it may.
func (t *tx) forbidden(id string) error {
	g, err := t.buried(id)
	switch {
	case g == nil || err != nil:
		return err
	case g.seq > 0:
		return &backends.RemovedError{Notice: g.notice}
	}
	return backends.ErrLost
}

// gone is the answer to what is asked for an ID that has no hold and no place.
func (t *tx) gone(id string) error {
	if err := t.forbidden(id); err != nil {
		return err
	}
	return backends.ErrLost
}

// told is the notice that was left for c.
func (c *claim) told() backends.Notice { return noticeIn(c.notice) }

// noticeIn reads a notice; empty is none.
func noticeIn(text string) (n backends.Notice) {
	if text != "" {
		json.Unmarshal([]byte(text), &n) // what can't be read asks nothing
	}
	return n
}

func noticeText(n backends.Notice) string {
	if n == (backends.Notice{}) {
		return ""
	}
	return encode(n)
}
