package backends

import (
	"context"
	"iter"
	"time"
)

// Waiter is implemented by stores that can say when a line may have moved.
type Waiter interface {
	// Wait returns nil when the line may have moved since the answer held, somebody
	// has left a notice for the place, or the run that the question was for (by its
	// ID, or some run where it was by period) was completed. It returns ctx's error
	// when ctx ends first. It is a hint: it grants nothing, may come for nothing,
	// and may not come at all, so the caller bounds it.
	Wait(ctx context.Context, held *HeldError) error
}

// Cautioner is implemented by stores some of which are worth less than others of
// their kind.
type Cautioner interface {
	// Caveat says why, as far as is known by then; "" where there is nothing to say.
	Caveat() string
}

// Watcher is implemented by stores that can say at once, or by looking, what a holder would
// otherwise hear only with its next renewal.
type Watcher interface {
	// Watch returns nil when something may have been done to the hold that no
	// renewal has told of yet: it was removed, or somebody left a notice. It
	// returns ctx's error when ctx ends first. It is a hint, as Waiter's is.
	Watch(ctx context.Context, lease Lease) error
}

// A hold is looked at thirty times in its lease, and every 5 s at least, by a store that can't
// be told what is done to it. A leader with a lease of 15 s that is asked to step down hears
// of it in half a second, which leaves its command the other half of the second that a change
// may take. An operator who waits for the end of a job hardly minds 5 s, and a thousand
// holds of the usual five minutes ask a server no more than 200 times a second. Of a lease of a
// second a renewal tells in a third of one: to look more often than each tenth would be a load
// that changes nothing.
const (
	lookShare = 30
	lookMin   = 100 * time.Millisecond
	lookMax   = 5 * time.Second
)

// LookEvery is how often a [Watcher] looks at a hold of that TTL where it can't be told.
func LookEvery(ttl time.Duration) time.Duration { return min(max(ttl/lookShare, lookMin), lookMax) }

// Register is implemented by stores that remember, for ever, the highest token that
// each resource has seen. Each method is one atomic step, and can be asked again where
// the outcome is unknown. What [CheckAdmit] objects to, and a newer record, is ErrRefused.
type Register interface {
	// Admit records token for the resource. A *StaleError says that a larger one came
	// before; an equal one is admitted.
	Admit(ctx context.Context, resource string, token Token) error
	// Highest is the highest token. ErrNotFound: the resource has seen none.
	Highest(ctx context.Context, resource string) (Token, error)
	// Reset sets the highest token. Only with down does it lower it; otherwise
	// lowering is a *StaleError.
	Reset(ctx context.Context, resource string, to Token, down bool) error
}

// CheckAdmit refuses with [ErrRefused] what a [Register] can't record. Every Admit and
// Reset begins with it.
func CheckAdmit(resource string, token Token) error {
	err := CheckResource(resource)
	if err == nil {
		err = CheckToken(token)
	}
	if err != nil {
		return &RefusedError{Err: err}
	}
	return nil
}

// Ledger is implemented by stores that remember which runs have succeeded.
type Ledger interface {
	// Completed looks a run up. ErrNotFound: it has not succeeded, or was forgotten.
	Completed(ctx context.Context, key, run string) (Entry, error)
	// Complete records the success of lease.Run for lease.Keep, and proves the
	// hold in the same atomic step. ErrLost: nothing was recorded.
	Complete(ctx context.Context, lease Lease) error
	// Entries lists the key's completed runs, oldest first. It ends after the
	// first error.
	Entries(ctx context.Context, key string) iter.Seq2[Entry, error]
	// Forget drops a completed run. ErrNotFound: there was none.
	Forget(ctx context.Context, key, run string) error
}

// Entry is one completed run of a key.
type Entry struct {
	Run     string    `json:"run"`
	Token   Token     `json:"token"`
	Owner   Owner     `json:"owner"`
	At      time.Time `json:"at"`               // the store's clock
	Forgets time.Time `json:"forgets,omitzero"` // zero: kept for ever
}

// Once names a run that isn't repeated once its success is recorded: by a fixed
// ID, or by the aligned period in which the grant falls.
type Once struct {
	ID   string         // the run's ID; empty: by Per
	Per  Period         // zero: by ID
	Lead time.Duration  // a period begins this long before its aligned time, so that clocks this far apart agree
	Zone *time.Location // for periods of a day and longer; nil: UTC
	Keep time.Duration  // how long a success is kept; zero: for ever, or two periods with Per
}

// check refuses what names no run.
func (o Once) check() error {
	switch p := o.Per; {
	case o.Keep < 0 || o.Lead < 0:
		return Refuse("", "kept for %v, begun %v early", o.Keep, o.Lead)
	case o.ID != "":
		if err := CheckRun(o.ID); err != nil {
			return &RefusedError{Err: err}
		}
	case p == Period{}:
		return Refuse("", "a run that isn't repeated is named by an ID or by a period")
	case p.Unit == Fixed && (p.Every <= 0 || 24*time.Hour%p.Every != 0):
		return Refuse("", "a period of %v is no part of a day", p.Every)
	case p.Unit != Fixed && p.Unit != Day && p.Unit != Week && p.Unit != Month:
		return Refuse("", "unknown period %q", p.Unit)
	}
	return nil
}

// As finds the optional interface T in b or in what b decorates: a decorator
// has a method Unwrap() Backend.
func As[T any](b Backend) (T, bool) {
	for b != nil {
		if t, ok := b.(T); ok {
			return t, true
		}
		u, ok := b.(interface{ Unwrap() Backend })
		if !ok {
			break
		}
		b = u.Unwrap()
	}
	var none T
	return none, false
}
