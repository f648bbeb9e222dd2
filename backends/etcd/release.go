package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// endedFor is how long an ID stays forbidden that had no lease of its own, or a short
// one. What it must outlast is a request that hangs on the way. Its client has
// reset the connection by then, and TCP itself, which may not have noticed, gives
// up after some 15 minutes.
const endedFor = 20 * time.Minute

// The lease of a hold, or of one to come, is enough for its tombstone if it is at least this
// long: a request for the same ID that comes late needs that lease, or the one of its
// place, which is shorter, or one of either from an earlier Raft term, which nobody
// has extended since, so that it ends sooner. A minute is well above a place's 15 s.
const ownEnough = time.Minute

// Release implements backends.Backend.
func (s *Store) Release(ctx context.Context, key, id string, outcome backends.Outcome) error {
	if !isID(id) {
		return s.failed("release", key, backends.ErrLost)
	}
	r := releasing{s: s, n: s.names(key), key: key, id: id, outcome: outcome, sign: backends.NewID()}
	r.known = s.memory.recall(id)
	err := s.call(ctx, func(ctx context.Context, l *link) error {
		r.l = l
		err := errMoved
		for errors.Is(err, errMoved) {
			err = r.run(ctx)
		}
		return err
	})
	if err == nil || errors.Is(err, backends.ErrLost) {
		s.memory.forget(id)
	}
	return s.failed("release", key, err)
}

// releasing is one Release.
type releasing struct {
	s       *Store
	l       *link
	n       names
	key, id string
	outcome backends.Outcome
	known   known
	deleted bool   // a try may have deleted the claim, and left no tombstone
	sign    string // in the tombstone: tells that an earlier try of the same call was applied
}

// run ends what the ID has: what is known of it, or else what is found. It returns
// errMoved where that isn't so any more.
func (r *releasing) run(ctx context.Context) error {
	mine := r.known.claim
	r.known.claim = nil // the next run reads
	if mine == nil {
		var err error
		if mine, err = r.read(ctx); err != nil || mine == nil {
			return err
		}
	}
	return r.end(ctx, mine)
}

// read finds the claim. Nil without an error: this call has ended it already.
func (r *releasing) read(ctx context.Context) (*claim, error) {
	found, err := r.n.trace(ctx, r.l, r.id)
	switch {
	case err != nil:
		return nil, err
	case found.inLine.asked():
		return found.inLine, nil
	case found.ended != nil && (found.ended.Sign == r.sign || r.deleted):
		return nil, nil
	case found.ended != nil:
		return nil, found.ended.gone()
	case found.inLine == nil:
		return nil, r.forbid(ctx)
	}
	return found.inLine, nil
}

// forbid forbids an ID that has no claim.
func (r *releasing) forbid(ctx context.Context) error {
	t := termFor(r.id, forEnd, endedFor)
	_, err := r.l.last(ctx, t)
	switch noSpace := errors.Is(err, rpctypes.ErrNoSpace); {
	case noSpace && r.deleted: // by an earlier try, whose answer was lost
		return nil
	case noSpace: // it can't be forbidden, but that it has nothing is certain
		return backends.ErrLost
	case err != nil:
		return err
	}
	resp, err := r.l.txn(ctx, nowhere(r.n.line, r.id), []clientv3.Op{r.n.bury(r.id, tombstone{Sign: r.sign}, t.id)}, nil)
	switch {
	case err != nil:
		return movedIfEnded(err)
	case !resp.Succeeded:
		return errMoved
	}
	return backends.ErrLost
}

// end takes a claim out of the line and records its run, in one step. Its MinHold
// stays.
func (r *releasing) end(ctx context.Context, mine *claim) error {
	under, err := r.under(ctx, mine)
	if err != nil {
		return r.orEndOnly(ctx, mine, err)
	}
	kept := runsTerm(r.s.prefix, time.Now())
	ended := tombstone{Sign: r.sign}
	if mine.asked() {
		ended.Notice = mine.Notice
	}
	then := append(r.n.deletes(mine), r.n.bury(r.id, ended, under))
	then = append(then, r.n.runs(mine, kept, r.outcome)...)
	resp, err := r.l.txn(ctx, []clientv3.Cmp{mine.unmoved()}, then, nil)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound): // the runs', or another, which the next run tells
		r.known = known{}
		if _, err := r.l.last(ctx, kept); err != nil {
			return err
		}
		return errMoved
	case err != nil:
		return r.orEndOnly(ctx, mine, err)
	case !resp.Succeeded:
		return errMoved
	}
	r.shed(ctx, mine, under)
	return nil
}

// shed revokes what would stay for a long time and serves nobody: each run would leave
// it. If that fails, this one does.
func (r *releasing) shed(ctx context.Context, mine *claim, under clientv3.LeaseID) {
	if hold := r.hold(mine); hold.id != 0 && hold.id != under && hold.lasts() > endedFor {
		r.l.revoke(ctx, hold.id)
	}
}

// hold is the lease of the hold, or of the one to come; zero: none is known.
func (r *releasing) hold(mine *claim) term {
	if mine.State == backends.Holding {
		return term{mine.lease, mine.TTL}
	}
	return r.known.hold
}

// under is the lease for the tombstone of a claim.
func (r *releasing) under(ctx context.Context, mine *claim) (clientv3.LeaseID, error) {
	t := termFor(r.id, forEnd, endedFor)
	hold := r.hold(mine)
	switch lasts := hold.lasts(); {
	case mine.asked():
		t = termFor(r.id, forEnd, backends.RemovedFor)
	case lasts >= ownEnough && lasts <= endedFor:
		return hold.id, nil
	}
	_, err := r.l.last(ctx, t)
	return t.id, err
}

// orEndOnly gives the key back though nothing can be written, because the database is
// full: it deletes the claim, and the lease that a late request would need.
func (r *releasing) orEndOnly(ctx context.Context, mine *claim, err error) error {
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		return err
	}
	resp, err := r.l.txn(ctx, []clientv3.Cmp{mine.unmoved()}, r.n.deletes(mine), nil)
	if err == nil && !resp.Succeeded {
		return errMoved
	}
	r.deleted = true // or it may be
	if err != nil {
		return err
	}
	return r.l.revoke(ctx, mine.lease)
}

// runs are the records of the run that ended, none of a claim that waited.
func (n names) runs(mine *claim, kept term, outcome backends.Outcome) (put []clientv3.Op) {
	if mine.State != backends.Holding || outcome == (backends.Outcome{}) {
		return nil
	}
	text := encode(run{V: backends.RecordVersion, Run: backends.Run{
		Owner: mine.Owner, Token: mine.token, Start: mine.Granted, End: time.Now(),
		Class: outcome.Class, Exit: outcome.Exit, Notice: outcome.Notice,
	}})
	put = append(put, clientv3.OpPut(n.last, text, clientv3.WithLease(kept.id)))
	if outcome.Success {
		put = append(put, clientv3.OpPut(n.success, text, clientv3.WithLease(kept.id)))
	}
	return put
}
