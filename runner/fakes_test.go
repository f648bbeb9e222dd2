package runner

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/mem"
)

// faulty is a store with some methods replaced.
type faulty struct {
	backends.Backend
	traits  *backends.Traits
	acquire func(context.Context, backends.Request) (backends.Lease, error)
	renew   func(context.Context, backends.Lease) (backends.Renewal, error)
	release func(ctx context.Context, key, id string, o backends.Outcome) error
	wait    func(context.Context, *backends.HeldError) error
	ask     func(ctx context.Context, key, id string, n backends.Notice) error
}

func (f *faulty) Traits() backends.Traits {
	if f.traits != nil {
		return *f.traits
	}
	return f.Backend.Traits()
}

func (f *faulty) Acquire(ctx context.Context, r backends.Request) (backends.Lease, error) {
	if f.acquire != nil {
		return f.acquire(ctx, r)
	}
	return f.Backend.Acquire(ctx, r)
}

func (f *faulty) Renew(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
	if f.renew != nil {
		return f.renew(ctx, l)
	}
	return f.Backend.Renew(ctx, l)
}

func (f *faulty) Release(ctx context.Context, key, id string, o backends.Outcome) error {
	if f.release != nil {
		return f.release(ctx, key, id, o)
	}
	return f.Backend.Release(ctx, key, id, o)
}

func (f *faulty) Ask(ctx context.Context, key, id string, n backends.Notice) error {
	if f.ask != nil {
		return f.ask(ctx, key, id, n)
	}
	return f.Backend.Ask(ctx, key, id, n)
}

func (f *faulty) Wait(ctx context.Context, held *backends.HeldError) error {
	if f.wait != nil {
		return f.wait(ctx, held)
	}
	return f.Backend.(backends.Waiter).Wait(ctx, held)
}

func (f *faulty) Unwrap() backends.Backend { return f.Backend }

// deaf returns a pause that minds no context, as a driver may not. The end of
// the test ends it, as a bubble needs.
func deaf(t *testing.T) func(time.Duration) {
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	return func(d time.Duration) {
		select {
		case <-done:
		case <-time.After(d):
		}
	}
}

// since is a clock that can be put forward, as a suspended host's is.
type since struct {
	start time.Time
	slept atomic.Int64
}

func newClock() *since { return &since{start: time.Now()} }

func (c *since) now() time.Duration { return time.Since(c.start) + time.Duration(c.slept.Load()) }

func (c *since) sleep(d time.Duration) { c.slept.Add(int64(d)) }

// unguarded is a keeper without a guard.
var unguarded *guardian

var quiet = slog.New(slog.DiscardHandler)

// records collects log lines.
type records struct {
	mu sync.Mutex
	bytes.Buffer
}

func (r *records) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Buffer.Write(b)
}

func (r *records) count(text string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Count(r.Bytes(), []byte(text))
}

func (r *records) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func request(id string) backends.Request {
	return backends.Request{Key: "k", ID: id, Mode: backends.Exclusive, TTL: time.Minute}
}

// hold takes the key for id.
func hold(t *testing.T, b backends.Backend, id string) backends.Lease {
	t.Helper()
	l, err := b.Acquire(t.Context(), request(id))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func holders(t *testing.T, b *mem.Store) (ids []string) {
	t.Helper()
	s, err := b.Inspect(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range s.Line {
		ids = append(ids, c.ID)
	}
	return ids
}

// fakeProcess is a command that does what it is told by a test.
type fakeProcess struct {
	chld  chan os.Signal
	ends  map[syscall.Signal]bool // what ends its first process
	tough bool                    // the rest of its tree lives until bury
	now   func() time.Duration
	onEnd func() // may be nil

	mu   sync.Mutex
	got  []string // signals, with the clock if there is one
	exit *Exit
}

func newFake(ends ...syscall.Signal) *fakeProcess {
	f := &fakeProcess{chld: make(chan os.Signal, 1), ends: map[syscall.Signal]bool{syscall.SIGKILL: true}}
	for _, s := range ends {
		f.ends[s] = true
	}
	return f
}

func (f *fakeProcess) containment() string { return "none" }

func (f *fakeProcess) number() int { return os.Getpid() }

func (f *fakeProcess) halted() bool { return false }

func (f *fakeProcess) stopped() syscall.Signal { return 0 }

func (f *fakeProcess) changed() <-chan os.Signal { return f.chld }

func (f *fakeProcess) ended() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.exit != nil
}

func (f *fakeProcess) end(e Exit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.exit != nil {
		return
	}
	f.exit = &e
	if f.onEnd != nil {
		f.onEnd()
	}
	f.chld <- syscall.SIGCHLD
}

func (f *fakeProcess) note(text string) {
	if f.now != nil {
		text += " " + f.now().Truncate(time.Millisecond).String()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.got, text) {
		f.got = append(f.got, text)
	}
}

func (f *fakeProcess) signals() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.got)
}

func (f *fakeProcess) typed(syscall.Signal) bool { return false }

func (f *fakeProcess) pass(s syscall.Signal) { f.note("pass " + s.String()); f.take(s) }

func (f *fakeProcess) signal(s syscall.Signal) { f.note(s.String()); f.take(s) }

func (f *fakeProcess) take(s syscall.Signal) {
	if f.ends[s] {
		f.end(Exit{Code: 128 + int(s), Signal: s, Started: time.Now()})
	}
}

func (f *fakeProcess) bury() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tough = false
}

func (f *fakeProcess) live() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.exit == nil || f.tough
}

func (f *fakeProcess) outlived() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tough
}

func (f *fakeProcess) members() []Process { return []Process{{PID: 7, Name: "rest"}} }

func (f *fakeProcess) reap() Exit { return *f.exit }
