package runner

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"flockd/backends"
	"flockd/backends/mem"
)

func once(id string) backends.Request {
	r := request(id)
	r.Once = &backends.Once{ID: "v42"}
	return r
}

// endsWith is a command that exits with code.
func endsWith(code int, after time.Duration) *fakeProcess {
	fake := newFake()
	time.AfterFunc(after, func() { fake.end(Exit{Code: code, Started: time.Now()}) })
	return fake
}

func TestSuccessIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		if r, _ := runFake(t, Options{Backend: b, Request: once("failed")}, endsWith(3, 0), sec); r.Class != Finished || r.Exit.Code != 3 {
			t.Errorf("got %+v", r)
		}
		if r, _ := runFake(t, Options{Backend: b, Request: once("first")}, newFake(), sec); r.Class != Finished || r.Exit.Code != 0 {
			t.Errorf("after a failure, which isn't recorded, got %+v", r)
		}
		r, _ := runFake(t, Options{Backend: b, Request: once("second")}, newFake(), sec)
		var done *backends.DoneError
		if r.Class != Done || !errors.As(r.Err, &done) || done.Entry.Run != "v42" {
			t.Errorf("got %+v", r)
		}
	})
}

// ledger answers as complete does.
type ledger struct {
	*mem.Store
	complete func(context.Context, backends.Lease) error
}

func (l *ledger) Complete(ctx context.Context, lease backends.Lease) error {
	return l.complete(ctx, lease)
}

func TestSuccessThatCannotBeRecordedIsLost(t *testing.T) {
	for name, takes := range map[string]time.Duration{"fails": 0, "hangs": never} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wait := deaf(t)
				var asked atomic.Int64
				b := &ledger{mem.New(), func(context.Context, backends.Lease) error {
					asked.Add(1)
					wait(takes)
					return errors.New("read-only file system")
				}}
				var renewed atomic.Int64
				f := &faulty{Backend: b, renew: func(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
					renewed.Add(1)
					return b.Renew(ctx, l)
				}}
				var log records
				r, clock := runFake(t, Options{Backend: f, Request: once("us"), Log: log.logger()}, newFake(), sec)
				if at := clock.now(); r.Class != Lost || !r.Unrecorded || r.Err == nil || r.Exit.Code != 0 || at < 59*sec || at > 64*sec {
					t.Errorf("got %+v after %v", r, at)
				}
				if asked.Load() < 20 || renewed.Load() < 3 || log.count("can't be recorded yet") != 1 {
					t.Errorf("%d tries, %d renewals, said\n%s", asked.Load(), renewed.Load(), log.String())
				}
				if s, _ := b.Inspect(t.Context(), "k"); len(s.Line) != 0 || s.LastSuccess != nil || s.Last.Class != "lost" {
					t.Errorf("left %+v", s)
				}
			})
		})
	}
}

func TestLostReplyOfARecordIsRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &ledger{Store: mem.New()}
		asked := 0
		b.complete = func(ctx context.Context, l backends.Lease) error {
			err := b.Store.Complete(ctx, l)
			if asked++; asked == 1 {
				return errors.New("connection reset")
			}
			return err
		}
		r, _ := runFake(t, Options{Backend: b, Request: once("us")}, newFake(), sec)
		if e, err := b.Completed(t.Context(), "k", "v42"); r.Class != Finished || asked != 2 || err != nil || e.Token != r.Lease.Token {
			t.Errorf("got %+v, asked %d times, recorded %+v, %v", r, asked, e, err)
		}
	})
}

func TestSignalEndsTheRecording(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 1)
		b := &ledger{mem.New(), func(context.Context, backends.Lease) error { return errors.New("down") }}
		after(10*sec, func() { signals <- syscall.SIGTERM })
		r, clock := runFake(t, Options{Backend: b, Request: once("us"), Signals: signals}, newFake(), sec)
		if r.Class != Lost || !r.Unrecorded || clock.now() > 11*sec || len(holders(t, b.Store)) != 0 {
			t.Errorf("got %+v after %v, left %v", r, clock.now(), holders(t, b.Store))
		}
	})
}

// A hold that is found to be gone with the record is explained as any loss.
func TestHoldThatIsGoneWhenItsSuccessIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &ledger{Store: mem.New()}
		b.complete = func(ctx context.Context, l backends.Lease) error {
			breakIt(t, b.Store, "us", true)
			return b.Store.Complete(ctx, l)
		}
		r, _ := runFake(t, Options{Backend: b, Request: once("us")}, newFake(), sec)
		if r.Class != Lost || !r.Unrecorded || r.Err == nil || r.Err.Error() != "broken by ops@desk: stuck" {
			t.Errorf("got %+v", r)
		}
	})
}

// forgetful keeps no ledger.
type forgetful struct{ backends.Backend }

func (f forgetful) Acquire(ctx context.Context, r backends.Request) (backends.Lease, error) {
	r.Once = nil
	return f.Backend.Acquire(ctx, r)
}

// What could not be recorded isn't begun.
func TestStoreWithoutALedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, started := mem.New(), false
		o := Options{Backend: forgetful{b}, Request: once("us"), OnStart: func(backends.Lease) { started = true }}
		r, _ := runFake(t, o, newFake(), sec)
		if r.Class != Unavailable || started || !errors.Is(r.Err, backends.ErrRefused) || len(holders(t, b)) != 0 {
			t.Errorf("got %+v, started %v, left %v", r, started, holders(t, b))
		}
	})
}
