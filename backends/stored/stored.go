package stored

import (
	"context"
	"sync/atomic"
	"time"

	"flockd/backends"
)

// Step is the name of a stored function, without what the driver adds for its version.
type Step string

// The steps, with their arguments and answers. key, prefix, run and resource are []byte; v is the
// version of the records that the client knows; a record of a newer one is answered by
// {"is":"newer","what":…,"v":…}, and nothing is done.
const (
	Acquire   Step = "acquire"   // key, id, v, ttl, place, minhold, mode, slots, owner, until, once ("", "i" by ID, "p" by period), run, first, last, keep: see answer; lists claims or an entry
	Renew     Step = "renew"     // key, id, v, ttl: renewed, lost
	Release   Step = "release"   // key, id, v, tombstone, ran, class, exit, success, notice: released, lost
	Ask       Step = "ask"       // key, id, v, notice, force, whether only one that waits is meant, for how long it is remembered: asked, missing
	Inspect   Step = "inspect"   // key, v: see status; lists claims
	Keys      Step = "keys"      // prefix, after, limit, v: lists names
	Complete  Step = "complete"  // key, id, v, run, keep: completed, lost
	Completed Step = "completed" // key, v, run: lists an entry or none
	Entries   Step = "entries"   // key, v, after, limit: place, n; lists entries
	Forget    Step = "forget"    // key, v, run: forgotten, missing
	Poll      Step = "poll"      // key, id, v: whether there is news for the claim; else front
	Sweep     Step = "sweep"     // v: drops some keys that nobody has used for long
	Admit     Step = "admit"     // resource, v, token, whether it may be lower: admitted, or stale with the token that is higher
	Highest   Step = "highest"   // resource, v: admitted with the token, missing
)

// OfRegister reports whether a step is one of those that the first flockd had not: a driver
// adds them to what that has made when one of them is first called, and for no other's sake.
func (s Step) OfRegister() bool { return s == Admit || s == Highest }

// Server does steps. It is safe for concurrent use.
type Server interface {
	// Do does a step in one trip, and returns its rows. The arguments are int64, bool,
	// string (ASCII) and []byte. What certainly wasn't applied, and may be by another try,
	// is tried again while ctx lasts. Errors: ErrRefused, *backends.UnusedError; any other
	// is an unknown outcome.
	Do(ctx context.Context, step Step, args ...any) ([][]byte, error)

	// Close closes the connections.
	Close() error
}

// Listener is implemented by servers that can tell a claim what others would have to look
// for.
type Listener interface {
	// Listen returns nil when the claim is notified, or ready returns true: that is called
	// once whatever happens from then on is heard. errors.ErrUnsupported says that nothing
	// would be.
	Listen(ctx context.Context, id string, ready func(context.Context) (bool, error)) error
}

// Store is one client of a database.
type Store struct {
	server  Server
	timeout time.Duration
	clock   backends.ServerClock
	made    atomic.Bool // a key's row, which is a reason to look for those that can go
}

var _ interface {
	backends.Backend
	backends.Waiter
	backends.Watcher
	backends.Ledger
	backends.Register
} = (*Store)(nil)

// New is the store of a server, each request to which may last for timeout.
func New(server Server, timeout time.Duration) *Store {
	return &Store{server: server, timeout: timeout}
}

// Traits: a claim is a row, which any client can work on and which stays. It is timed in µs
// by the clock that also says when it ends, so that no part of a lease is lost to
// granularity.
func (s *Store) Traits() backends.Traits {
	return backends.Traits{Clock: backends.Boottime, Portable: true, Outlives: true}
}

// Close closes the connections.
func (s *Store) Close() error { return s.server.Close() }

// micros is d in whole µs, not less than d.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

// span is a duration that was answered.
func span(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }

// instant is one that was answered, the zero Time for none.
func instant(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros)
}
