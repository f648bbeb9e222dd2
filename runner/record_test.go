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

// ledger answers as complete does, and as completed does unless that is nil.
type ledger struct {
	*mem.Store
	complete  func(context.Context, backends.Lease) error
	completed func() error // of a question about a run
}

func (l *ledger) Completed(ctx context.Context, key, run string) (backends.Entry, error) {
	if l.completed != nil {
		if err := l.completed(); err != nil {
			return backends.Entry{}, err
		}
	}
	return l.Store.Completed(ctx, key, run)
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
				b := &ledger{Store: mem.New(), complete: func(context.Context, backends.Lease) error {
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
		b := &ledger{Store: mem.New(), complete: func(context.Context, backends.Lease) error { return errors.New("down") }}
		after(10*sec, func() { signals <- syscall.SIGTERM })
		r, clock := runFake(t, Options{Backend: b, Request: once("us"), Signals: signals}, newFake(), sec)
		if r.Class != Lost || !r.Unrecorded || clock.now() > 11*sec || len(holders(t, b.Store)) != 0 {
			t.Errorf("got %+v after %v, left %v", r, clock.now(), holders(t, b.Store))
		}
	})
}

// A success whose reply was lost is recorded, though the hold is gone by the next try, or
// no try has a reply: the hold was proven after the command's end.
func TestRecordIsFoundInTheLedger(t *testing.T) {
	down := errors.New("connection reset")
	for name, tc := range map[string]struct {
		records  bool  // the first try does
		gone     bool  // the hold, before the second try
		next     error // the other tries' answer; nil: the store's
		unknown  int   // how many questions about the ledger have no answer
		class    Class
		at, soon time.Duration
	}{
		"recorded, then broken":      {true, true, nil, 0, Finished, 0, 2 * sec},
		"the look fails at first":    {true, true, nil, 3, Finished, 0, 4 * sec},
		"not recorded, and broken":   {false, true, nil, 0, Lost, 0, 2 * sec},
		"no try has a reply":         {true, false, down, 0, Finished, 58 * sec, 64 * sec},
		"no try has one, or does it": {false, false, down, 0, Lost, 58 * sec, 64 * sec},
		"refused after a lost reply": {true, false, backends.ErrRefused, 0, Finished, 0, 2 * sec},
		"the ledger isn't readable":  {true, true, nil, 1000, Lost, 58 * sec, 64 * sec},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, tries := &ledger{Store: mem.New()}, 0
				b.complete = func(ctx context.Context, l backends.Lease) error {
					switch tries++; {
					case tries > 1 && tc.next != nil:
						return tc.next
					case tries > 1:
						return b.Store.Complete(ctx, l)
					}
					if tc.records {
						b.Store.Complete(ctx, l)
					}
					if tc.gone {
						breakIt(t, b.Store, "us", true)
					}
					return down
				}
				b.completed = func() error {
					if tc.unknown--; tc.unknown >= 0 {
						return down
					}
					return nil
				}
				r, clock := runFake(t, Options{Backend: b, Request: once("us")}, newFake(), 0)
				if r.Class != tc.class || r.Unrecorded != (tc.class == Lost) || (r.Err == nil) != (tc.class == Finished) {
					t.Errorf("got %+v", r)
				}
				if clock.now() < tc.at || clock.now() > tc.soon {
					t.Errorf("after %v", clock.now())
				}
			})
		})
	}
}

// Another's success under the same name isn't ours.
func TestRecordOfAnotherIsNotOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tries := &ledger{Store: mem.New()}, 0
		b.complete = func(ctx context.Context, l backends.Lease) error {
			if tries++; tries > 1 {
				return b.Store.Complete(ctx, l)
			}
			breakIt(t, b.Store, "us", true)
			other, err := b.Acquire(ctx, once("other"))
			if err != nil || b.Store.Complete(ctx, other) != nil {
				t.Error(err)
			}
			return errors.New("connection reset")
		}
		r, _ := runFake(t, Options{Backend: b, Request: once("us")}, newFake(), sec)
		if r.Class != Lost || !r.Unrecorded {
			t.Errorf("got %+v", r)
		}
	})
}

// A hold that is removed once the success is recorded was held from start to end.
func TestHoldThatIsBrokenAfterItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &ledger{Store: mem.New()}
		b.complete = func(ctx context.Context, l backends.Lease) error {
			err := b.Store.Complete(ctx, l)
			breakIt(t, b.Store, "us", true)
			return err
		}
		if r, _ := runFake(t, Options{Backend: b, Request: once("us")}, newFake(), sec); r.Class != Finished || r.Err != nil {
			t.Errorf("got %+v", r)
		}
	})
}

// A signal that comes with the end of the command, or while the store is asked, leaves
// the try its time.
func TestSignalLetsARecordBeWritten(t *testing.T) {
	for name, tc := range map[string]struct {
		at, takes time.Duration // of the signal and the try
		class     Class
		ends      time.Duration
	}{
		"before the try":         {0, 800 * time.Millisecond, Finished, sec + 800*time.Millisecond},
		"within the try":         {sec + 500*time.Millisecond, 1200 * time.Millisecond, Finished, sec + 1200*time.Millisecond},
		"a try that is too slow": {sec + 500*time.Millisecond, time.Hour, Lost, sec + 500*time.Millisecond + leaveFor},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signals, b := make(chan os.Signal, 1), &ledger{Store: mem.New()}
				wait := deaf(t)
				b.complete = func(ctx context.Context, l backends.Lease) error {
					if tc.at == 0 {
						signals <- syscall.SIGTERM
					}
					wait(tc.takes)
					return b.Store.Complete(context.WithoutCancel(ctx), l)
				}
				if tc.at > 0 {
					after(tc.at, func() { signals <- syscall.SIGTERM })
				}
				r, clock := runFake(t, Options{Backend: b, Request: once("us"), Signals: signals}, newFake(), sec)
				if r.Class != tc.class || clock.now() != tc.ends {
					t.Errorf("got %+v after %v", r, clock.now())
				}
			})
		})
	}
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
