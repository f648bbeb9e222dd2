package etcd

import (
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// A client that knows nothing of a place is told of the line though nothing is in its way
// but a notice.
func TestNoticedPlaceOfAnotherClient(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	a, b, front := open(t, url), open(t, url), request(t)
	lease, place := acquire(t, a, front), moded(front, backends.Shared)
	held(t, a, place)
	if err := a.Ask(t.Context(), place.Key, place.ID, backends.Notice{Kind: backends.Supersede}); err != nil {
		t.Fatal(err)
	}
	release(t, a, lease)
	answer := held(t, b, place)
	if answer.Waiters != 0 || answer.Ahead != 0 || answer.Notice.Kind != backends.Supersede {
		t.Errorf("%+v", answer)
	}
}

// isRemoved must be the answer to all that is asked for the lease's ID, with that notice.
func isRemoved(t testing.TB, s *Store, req backends.Request, want backends.Notice) {
	t.Helper()
	lease := backends.Lease{Key: req.Key, ID: req.ID, Token: 1, Mode: req.Mode, TTL: req.TTL, Run: "v42"}
	_, acquire := s.Acquire(t.Context(), req)
	_, renew := s.Renew(t.Context(), lease)
	for op, err := range map[string]error{
		"Acquire": acquire, "Renew": renew, "Complete": s.Complete(t.Context(), lease),
		"Release": s.Release(t.Context(), req.Key, req.ID, backends.Outcome{}),
	} {
		var removed *backends.RemovedError
		if !errors.As(err, &removed) || removed.Notice != want {
			t.Errorf("%s = %v, want it removed by %+v", op, err, want)
		}
	}
	if lasts := tombstoneLasts(t, s, req); lasts < backends.RemovedFor {
		t.Errorf("it is told for %v", lasts)
	}
}

// tombstoneLasts is the length of the lease under which the ID is forbidden.
func tombstoneLasts(t testing.TB, s *Store, req backends.Request) time.Duration {
	t.Helper()
	found := kvs(do(t, s, clientv3.OpGet(s.names(req.Key).ended+req.ID)).Responses[0])
	if len(found) == 0 {
		t.Fatal("the ID isn't forbidden")
	}
	lease, err := leases(t, s).LeaseTimeToLive(t.Context(), &pb.LeaseTimeToLiveRequest{ID: found[0].Lease})
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(lease.GrantedTTL) * time.Second
}

// Who was asked to leave the line and slept until its place had ended doesn't join it anew, and
// no more does one who has left it.
func TestAskedToLeave(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	leave := map[string]func(s *Store, req backends.Request){
		"its place ends": func(s *Store, req backends.Request) { revoke(t, s, s.termOf(req.ID, forPlace, req.Place)) },
		"it leaves":      func(s *Store, req backends.Request) { release(t, s, backends.Lease{Key: req.Key, ID: req.ID}) },
		"it is removed":  func(s *Store, req backends.Request) { ask(t, s, backends.Lease{Key: req.Key, ID: req.ID}, remove) },
	}
	for _, mode := range modes {
		for how, leave := range leave {
			t.Run(string(mode)+" "+how, func(t *testing.T) {
				s, other, front := open(t, url), open(t, url), request(t)
				lease, req := acquire(t, s, front), moded(front, mode)
				held(t, s, req)
				place := backends.Lease{Key: req.Key, ID: req.ID}
				ask(t, other, place, notice)
				ask(t, other, place, notice)
				if got := held(t, s, req).Notice; got != notice {
					t.Errorf("notice %+v", got)
				}
				want := notice
				if leave(s, req); how == "it is removed" {
					want = remove
				}
				isRemoved(t, s, req, want)
				ask(t, other, place, want) // as after a reply that was lost
				release(t, s, lease)
				isRemoved(t, other, req, want)
			})
		}
	}
}

// Who removed a hold, or what cools of it, is told to its owner.
func TestRemovedHold(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	for _, mode := range modes {
		for _, cools := range []bool{false, true} {
			s, other, req := open(t, url), open(t, url), moded(request(t), mode)
			req.MinHold = time.Minute
			lease := acquire(t, s, req)
			if cools {
				release(t, s, lease)
			}
			ask(t, other, lease, remove)
			ask(t, other, lease, remove)
			isRemoved(t, s, req, remove)
			isRemoved(t, other, req, remove)
		}
	}
}

// Those who wait see what the holder was asked, and which token it has.
func TestNoticeOfTheHolder(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	for _, mode := range modes {
		s, other, req := open(t, url), open(t, url), moded(request(t), mode)
		req.Key += string(mode)
		lease := acquire(t, s, req)
		ask(t, other, lease, notice)
		holders := held(t, other, moded(req, backends.Exclusive)).Holders
		if len(holders) != 1 || holders[0].Notice != notice || holders[0].Token != lease.Token {
			t.Errorf("%s: %+v, want the notice and token %d", mode, holders, lease.Token)
		}
		if got := renew(t, s, lease).Notice; got != notice {
			t.Errorf("%s: the holder's notice is %+v", mode, got)
		}
		release(t, s, lease)
	}
}

// A min-hold says when it ends, to whoever looks.
func TestCoolingEnds(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s, req := open(t, url), request(t)
	req.MinHold = time.Minute
	lease := acquire(t, s, req)
	release(t, s, lease)
	status, err := s.Inspect(t.Context(), req.Key)
	if err != nil {
		t.Fatal(err)
	}
	want := lease.Granted.Add(req.MinHold)
	for _, claims := range [][]backends.Claim{status.Line, held(t, s, another(req)).Holders} {
		if len(claims) != 1 || !claims[0].Expires.Equal(want) {
			t.Errorf("%+v, want it to end at %v", claims, want)
		}
	}
}
