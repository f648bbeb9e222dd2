package etcd

import (
	"context"
	"errors"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// compact makes the server forget all that has happened so far.
func compact(t testing.TB, s *Store) {
	t.Helper()
	rev := do(t, s, clientv3.OpGet("x")).Header.Revision
	err := s.call(t.Context(), func(ctx context.Context, l *link) error {
		_, err := pb.NewKVClient(l.conn).Compact(ctx, &pb.CompactionRequest{Revision: rev, Physical: true})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What a compaction has swallowed may have been the hand-over.
func TestWaitAfterCompaction(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s, req := open(t, url), request(t)
	lease := acquire(t, s, req)
	answer := held(t, s, another(req))
	release(t, s, lease)
	put(t, s, "elsewhere", "")
	compact(t, s)
	wait(t, s, answer)
}

// The one in front may have given up, with the holder still there.
func TestWokenTooEarly(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s, other, req := open(t, url), open(t, url), request(t)
	lease := acquire(t, other, req)
	gives, next := another(req), another(req)
	held(t, other, gives)
	answer := held(t, s, next)
	release(t, other, backends.Lease{Key: gives.Key, ID: gives.ID})
	wait(t, s, answer)
	answer = held(t, s, next)
	if len(answer.Holders) != 1 || answer.Holders[0].ID != lease.ID || answer.Ahead != 0 {
		t.Errorf("%+v, want it held by %s", answer, lease.ID)
	}
	release(t, other, lease)
	wait(t, s, answer)
	renew(t, s, acquire(t, s, next))
}

// A watch that breaks with its connection goes on, on another.
func TestListensAgain(t *testing.T) {
	t.Parallel()
	x, s, around := proxied(t)
	req := request(t)
	m := metered(s)
	lease := acquire(t, around, req)
	answer := held(t, s, another(req))
	done := make(chan error, 1)
	go func() { done <- s.Wait(within(t), answer) }()
	m.untilListening(t)
	x.Cut()
	m.untilListening(t)
	release(t, around, lease)
	if err := <-done; err != nil {
		t.Errorf("Wait = %v", err)
	}
}

// watching is a call of Watch that has begun.
func watching(t testing.TB, s *Store, lease backends.Lease) (done chan error, cancel context.CancelFunc) {
	ctx, cancel := context.WithCancel(within(t))
	done = make(chan error, 1)
	go func() { done <- s.Watch(ctx, lease) }()
	t.Cleanup(cancel)
	return done, cancel
}

func ask(t testing.TB, s *Store, lease backends.Lease, notice backends.Notice) {
	t.Helper()
	if err := s.Ask(t.Context(), lease.Key, lease.ID, notice); err != nil {
		t.Fatalf("Ask = %v", err)
	}
}

var (
	notice = backends.Notice{Kind: backends.Resign, Reason: "maintenance"}
	remove = backends.Notice{Kind: backends.Break, Force: true}
)

// What was done between the grant and Watch counts, and what a renewal has told of doesn't.
func TestWatch(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	for name, compacted := range map[string]bool{"": false, "after a compaction": true} {
		t.Run(name, func(t *testing.T) {
			s, other, req := open(t, url), open(t, url), request(t)
			lease := acquire(t, s, req)
			history := func() {
				if put(t, s, "elsewhere", ""); compacted {
					compact(t, s)
				}
			}
			ask(t, other, lease, notice)
			history()
			if err := s.Watch(within(t), lease); err != nil {
				t.Errorf("Watch after a notice = %v", err)
			}
			if got := renew(t, s, lease).Notice; got != notice {
				t.Errorf("notice %+v", got)
			}
			history()
			done, cancel := watching(t, s, lease)
			renew(t, s, lease) // writes nothing
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("Watch though nothing is new = %v", err)
			}
			done, _ = watching(t, s, lease)
			ask(t, other, lease, remove)
			if err := <-done; err != nil {
				t.Errorf("Watch after a removal = %v", err)
			}
			history()
			if err := s.Watch(within(t), lease); err != nil {
				t.Errorf("Watch of what is gone = %v", err)
			}
		})
	}
}

// A client that knows nothing of the grant hears of what comes.
func TestWatchOfAnothersGrant(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s, other, req := open(t, url), open(t, url), request(t)
	lease := acquire(t, s, req)
	done, _ := watching(t, other, lease)
	ask(t, s, lease, remove)
	if err := <-done; err != nil {
		t.Errorf("Watch = %v", err)
	}
}

// The grant of one who waited isn't news to itself.
func TestWatchAfterWaiting(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s, req := open(t, url), request(t)
	first := acquire(t, s, req)
	next := another(req)
	held(t, s, next)
	release(t, s, first)
	lease := acquire(t, s, next)
	done, cancel := watching(t, s, lease)
	put(t, s, "elsewhere", "")
	renew(t, s, lease)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch = %v", err)
	}
}

// Asking again tells a holder nothing of a notice, so a watch does.
func TestWatchAfterAskingAgain(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s, req := open(t, url), request(t)
	lease := acquire(t, s, req)
	ask(t, open(t, url), lease, notice)
	acquire(t, s, req)
	if err := s.Watch(within(t), lease); err != nil {
		t.Errorf("Watch = %v", err)
	}
}
