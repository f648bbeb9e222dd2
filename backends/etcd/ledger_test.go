package etcd

import (
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

func completes(t testing.TB, s *Store, lease backends.Lease) {
	t.Helper()
	if err := s.Complete(t.Context(), lease); err != nil {
		t.Errorf("Complete = %v", err)
	}
}

// A success whose hold was removed or has ended in between, before whichever request, isn't recorded.
func TestCompleteBesideTheEnd(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	around := open(t, url)
	for before := int32(1); before <= 3; before++ {
		req := another(request(t))
		req.Once = &backends.Once{ID: req.ID, Keep: time.Hour}
		lease := acquire(t, around, req)
		s := open(t, url)
		var n atomic.Int32
		tapped(s, func() {
			if n.Add(1) == before {
				revoke(t, around, around.termOf(req.ID, forHold, req.TTL))
			}
		})
		if err := s.Complete(t.Context(), lease); !errors.Is(err, backends.ErrLost) || n.Load() < before {
			t.Errorf("Complete = %v, with %d requests and its end before %d", err, n.Load(), before)
		}
		if _, err := around.Completed(t.Context(), req.Key, lease.Run); !errors.Is(err, backends.ErrNotFound) {
			t.Errorf("Completed = %v", err)
		}
	}
}

// What was found to be done between a look and the grant isn't done twice.
func TestDoneBeforeTheGrant(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s, around, req := open(t, url), open(t, url), request(t)
	req.Once = &backends.Once{ID: "v42"}
	_, err := actsOn(t, s, req, func() {
		lease := acquire(t, around, another(req))
		completes(t, around, lease)
		release(t, around, lease)
	})
	if !errors.Is(err, errMoved) {
		t.Errorf("what came late = %v", err)
	}
	if _, err := s.Acquire(t.Context(), req); !errors.Is(err, backends.ErrDone) {
		t.Errorf("Acquire = %v", err)
	}
}

// More runs than a page has are listed, oldest first.
func TestManyEntries(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s, req := open(t, url), request(t)
	n := s.names(req.Key)
	const runs = 2*pageSize + 1
	for first := 0; first < runs; first += 100 {
		var puts []clientv3.Op
		for i := first; i < min(first+100, runs); i++ {
			run := strconv.Itoa(i)
			puts = append(puts, clientv3.OpPut(n.completed(run), encode(entry{1, backends.Entry{Run: run}})))
		}
		do(t, s, puts...)
	}
	i := 0
	for e, err := range s.Entries(t.Context(), req.Key) {
		if err != nil || i/100 != mustAtoi(e.Run)/100 { // those of one transaction are of one age
			t.Fatalf("entry %d is %+v, %v", i, e, err)
		}
		i++
	}
	if i != runs {
		t.Errorf("%d entries, want %d", i, runs)
	}
}

func mustAtoi(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}
