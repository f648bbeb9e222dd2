package etcd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// What somebody else has put into a line's folder stops that key, by name, and no other.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	for name, value := range map[string]string{
		"leader":               "",
		"leader/0":             "",
		"":                     "",
		backends.NewID() + "x": `{"v":1,"state":"holding","mode":"exclusive"}`,
		backends.NewID():       `not ours`,
		strings.ToUpper("abcdef") + backends.NewID()[6:]: `{"v":1,"state":"holding","mode":"exclusive"}`,
		"0123456789abcdef0123456789abcdef":               `{"v":1}`,
		"0123456789abcdef0123456789abcde0":               `{"v":1,"state":7}`,
	} {
		t.Run(name, func(t *testing.T) {
			s, req := open(t, url), request(t)
			key := s.names(req.Key).line + name
			put(t, s, key, value)
			_, acquire := s.Acquire(t.Context(), req)
			_, inspect := s.Inspect(t.Context(), req.Key)
			for call, err := range map[string]error{"Acquire": acquire, "Inspect": inspect} {
				var refused *backends.RefusedError
				if !errors.As(err, &refused) || !strings.Contains(err.Error(), fmt.Sprintf("%q", key)) || !strings.Contains(refused.Hint, "?prefix=") {
					t.Errorf("%s = %v, want it to name %q", call, err, key)
				}
			}
		})
	}
}

// Behind a holder of ours as well: whoever it keeps waiting should know.
func TestForeignKeyBehindAHolder(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s, req := open(t, url), request(t)
	lease := acquire(t, s, req)
	put(t, s, s.names(req.Key).line+"leader", "")
	if _, err := s.Acquire(t.Context(), another(req)); !errors.Is(err, backends.ErrRefused) {
		t.Errorf("Acquire = %v", err)
	}
	renew(t, s, lease)
	release(t, s, lease)
}

func TestForeignKeysElsewhere(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s, req := open(t, url), request(t)
	for _, key := range []string{"flockd", "flockd/", "flockd/config", "flockd/line", "flockd/line/", "flockd/line/%zz/x", "flockd/line/a%2fb/x", "flockdx/line/a/x"} {
		put(t, s, key, "theirs")
	}
	lease := acquire(t, s, req)
	renew(t, s, lease)
	var keys []string
	for status, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatalf("List = %v", err)
		}
		keys = append(keys, status.Key)
	}
	if !slices.Equal(keys, []string{req.Key}) {
		t.Errorf("List finds %q", keys)
	}
	release(t, s, lease)
}

func TestNewerRecords(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s := open(t, url)
	newer := fmt.Sprintf(`{"v":%d,"state":["unheard","of"]}`, backends.RecordVersion+1)
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), "newer flockd") {
			t.Errorf("%s = %v", what, err)
		}
	}
	req := request(t)
	n := s.names(req.Key)
	for _, key := range []string{n.line + req.ID, n.cool + req.ID} {
		put(t, s, key, newer)
		_, err := s.Acquire(t.Context(), another(req))
		refused("Acquire", err)
		refused("Ask", s.Ask(t.Context(), req.Key, req.ID, remove))
		_, err = s.Inspect(t.Context(), req.Key)
		refused("Inspect", err)
		if strings.HasPrefix(key, n.line) {
			refused("Release", s.Release(t.Context(), req.Key, req.ID, backends.Outcome{}))
			_, err = s.Renew(t.Context(), backends.Lease{Key: req.Key, ID: req.ID, TTL: time.Minute})
			refused("Renew", err)
		}
		do(t, s, clientv3.OpDelete(key))
	}
	put(t, s, n.success, newer)
	_, err := s.Inspect(t.Context(), req.Key)
	refused("Inspect of a run", err)
	acquire(t, s, another(req)) // that doesn't read it
}

// The MinHold of one who waited stands in front of those who wait, though its record
// is younger than their places.
func TestMinHoldOfAWaiter(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s, req := open(t, url), request(t)
	first := acquire(t, s, req)
	second, third := another(req), another(req)
	second.MinHold = time.Minute
	held(t, s, second)
	held(t, s, third)
	release(t, s, first)
	lease := acquire(t, s, second)
	release(t, s, lease)
	answer := held(t, s, third)
	if len(answer.Holders) != 1 || answer.Holders[0].ID != second.ID || answer.Holders[0].State != backends.Cooling ||
		answer.Holders[0].Token != lease.Token || answer.Ahead != 0 || answer.Waiters != 0 {
		t.Errorf("%+v, want %s cooling", answer, second.ID)
	}
	if got := line(t, s, req.Key); !slices.Equal(got, []string{second.ID, third.ID}) {
		t.Errorf("line %v, want %s in front", got, second.ID)
	}
	ask(t, s, lease, remove)
	wait(t, s, answer)
	if got := acquire(t, s, third); got.Token <= lease.Token {
		t.Errorf("token %d after %d", got.Token, lease.Token)
	}
}

// The place of the first in line is kept by asking also while a MinHold is in front.
func TestPlaceIsKeptBehindAMinHold(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s, req := open(t, url), request(t)
	req.MinHold = time.Minute
	release(t, s, acquire(t, s, req))
	next := another(req)
	next.Place, next.MinHold = 2*time.Second, 0
	held(t, s, next)
	place := func() int64 {
		found := kvs(do(t, s, clientv3.OpGet(s.names(req.Key).line+next.ID)).Responses[0])
		if len(found) != 1 {
			t.Fatal("the place is gone")
		}
		return found[0].CreateRevision
	}
	first := place()
	for began := time.Now(); time.Since(began) < 2*next.Place; time.Sleep(next.Place / 8) {
		held(t, s, next)
	}
	if last := place(); last != first {
		t.Errorf("place %d, want %d, which was taken first", last, first)
	}
}

// One whose hold has ended doesn't get into the line behind its own MinHold.
func TestAskingBehindOnesOwnMinHold(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s, req := open(t, url), another(request(t))
	req.MinHold = time.Minute
	acquire(t, s, req)
	do(t, s, clientv3.OpDelete(s.names(req.Key).line+req.ID)) // as the end of its lease does
	if _, err := s.Acquire(within(t), req); !errors.Is(err, backends.ErrLost) {
		t.Errorf("Acquire = %v", err)
	}
}

// Runs of a week share a lease, which lasts for a hundred days at least.
func TestLeaseOfRuns(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 23, 59, 0, 0, time.UTC)
	a, b, c := runsTerm("flockd", now), runsTerm("flockd", now.Add(-6*24*time.Hour)), runsTerm("flockd", now.Add(time.Hour))
	if a != b || a == c || a == runsTerm("other", now) || a.seconds != 107*24*3600 {
		t.Errorf("%v, %v, %v", a, b, c)
	}
	_, url := server(t)
	s, req := open(t, url), request(t)
	release(t, s, acquire(t, s, req))
	n := s.names(req.Key)
	resp := do(t, s, clientv3.OpGet(n.last), clientv3.OpGet(n.success), clientv3.OpGet(n.ended+req.ID))
	want := int64(runsTerm("flockd", time.Now()).id)
	for i, lease := range []int64{want, want, int64(s.termOf(req.ID, forHold, req.TTL).id)} {
		if found := kvs(resp.Responses[i]); len(found) != 1 || found[0].Lease != lease {
			t.Errorf("%v, want it under lease %x", found, lease)
		}
	}
}
