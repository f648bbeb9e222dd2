package cmd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/mem"
)

func TestBreakAsks(t *testing.T) {
	store := mem.New()
	lease := take(t, store, nil)
	o := queryStore(t, store, "break", "k", "--reason", "hangs", "--yes")
	wantAnswer(t, o, 0, "asked root@web2 (pid 4711, report.sh) to stop; it is told within 5 s")
	renewal, err := store.Renew(t.Context(), lease)
	if n := renewal.Notice; err != nil || n.Kind != backends.Break || n.Reason != "hangs" || n.By.Command != "flockd" || n.By.User == "" || n.Force {
		t.Errorf("%+v, %v", renewal, err)
	}
	if o := queryStore(t, store, "break", "k", "--reason", "hangs", "--yes", "-q"); o.code != 0 || o.stderr != "" {
		t.Errorf("-q: %+v", o)
	}
	o = queryStore(t, store, "break", "k", "--reason", "hangs", "--yes", "-q", "--wait", "50ms")
	if want := "flockd: root@web2 (pid 4711, report.sh) has not gone within 50ms; it is still asked to stop, which it is told within 5 s\n" +
		"flockd: hint: --force frees the key without waiting for its holder, and two may run\n"; o.code != 75 || o.stderr != want {
		t.Errorf("--wait: %+v", o)
	}
	go store.Release(t.Context(), "k", lease.ID, backends.Outcome{})
	o = queryStore(t, store, "break", "k", "--id", lease.ID, "--reason", "hangs", "--yes", "-q", "--wait", "1m")
	if o.code != 0 && o.code != 1 { // 1: it was gone before we asked
		t.Errorf("--wait: %+v", o)
	}
}

func TestBreakNeedsAWord(t *testing.T) {
	store := mem.New()
	lease := take(t, store, nil)
	o := queryStore(t, store, "break", "k", "--reason", "hangs")
	wantUsage(t, o, "k is held by root@web2 (pid 4711, report.sh)", "hint: --yes")
	if renewal, err := store.Renew(t.Context(), lease); err != nil || renewal.Notice != (backends.Notice{}) {
		t.Errorf("%+v, %v", renewal, err)
	}
}

func TestBreakByForce(t *testing.T) {
	store := mem.New()
	lease := take(t, store, nil)
	o := queryStore(t, store, "break", "k", "--reason", "burnt", "--yes", "--force", "-q")
	wantAnswer(t, o, 0, "took k from root@web2 (pid 4711, report.sh): its command may still run, and another one beside it")
	status, err := store.Inspect(t.Context(), "k")
	if err != nil || len(status.Line) > 0 || status.Last == nil || status.Last.Class != backends.Broken || status.Last.Notice.Reason != "burnt" {
		t.Errorf("%+v, %v", status, err)
	}
	if _, err := store.Renew(t.Context(), lease); err == nil {
		t.Error("the hold is still there")
	}
	wantAnswer(t, queryStore(t, store, "break", "k", "--reason", "r", "--yes", "--force"), 1, "k is free")
}

func TestBreakOfSeveral(t *testing.T) {
	store := mem.New()
	shared := func(r *backends.Request) { r.Mode = backends.Shared }
	a, b := take(t, store, shared), take(t, store, shared)
	id := waitFor(t, store)
	o := queryStore(t, store, "break", "k", "--reason", "r", "--yes")
	wantUsage(t, o, "k is held by 2: "+a.ID[:12]+" root@web2 (pid 4711, report.sh), "+b.ID[:12], "or --all")
	twins := statusStore{statuses: []backends.Status{{Key: "k", Line: []backends.Claim{{ID: "ab1"}, {ID: "ab2"}}}}}
	wantUsage(t, queryStore(t, twins, "break", "k", "--reason", "r", "--yes", "--id", "ab"), "--id ab begins the IDs of 2: ab1")
	o = queryStore(t, store, "break", "k", "--reason", "r", "--yes", "--id", b.ID[:12])
	wantAnswer(t, o, 0, "asked root@web2")
	for lease, want := range map[backends.Lease]string{a: "", b: "r"} {
		if renewal, err := store.Renew(t.Context(), lease); err != nil || renewal.Notice.Reason != want {
			t.Errorf("%+v, %v", renewal, err)
		}
	}
	wantAnswer(t, queryStore(t, store, "break", "k", "--reason", "r", "--yes", "--id", id), 0, "asked bob@web1 (pid 12, deploy.sh) to leave the line of k; it is told within 5 s")
	wantAnswer(t, queryStore(t, store, "break", "k", "--reason", "r", "--yes", "--id", id, "--force"), 0, "took bob@web1 (pid 12, deploy.sh) out of the line of k")
	if o := queryStore(t, store, "break", "k", "--reason", "r2", "--yes", "--all"); o.code != 0 || strings.Count(o.stderr, "asked root@web2") != 2 {
		t.Errorf("--all: %+v", o)
	}
}

func TestBreakOfNobody(t *testing.T) {
	store := mem.New()
	lease := take(t, store, func(r *backends.Request) { r.MinHold = time.Hour })
	if err := store.Release(t.Context(), "k", lease.ID, backends.Outcome{Class: "finished", Success: true}); err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, queryStore(t, store, "break", "k", "--reason", "r", "--yes"), 1, "k is cooling for another 59m")
	wantAnswer(t, queryStore(t, store, "break", "k", "--reason", "r", "--yes", "--id", lease.ID), 1, "--force frees it now")
	wantAnswer(t, queryStore(t, store, "break", "k", "--reason", "r", "--yes", "--id", "x"), 1, "nobody in the line of k has an ID that begins with x")
	wantAnswer(t, queryStore(t, store, "break", "k", "--reason", "r", "--yes", "--force"), 0, "flockd: k, which was cooling after root@web2 (pid 4711, report.sh), is free\n")
	wantAnswer(t, queryStore(t, store, "status", "-q", "k"), 0, "")
	next := statusStore{statuses: statuses()}
	wantAnswer(t, queryStore(t, next, "break", "next", "--reason", "r", "--yes"), 1, "nobody holds next; 1 waiting")
}

// deafStore does what it is asked once, and keeps the answer to itself.
type deafStore struct {
	*mem.Store
	asked  int
	happen func() // before it is asked again
}

var errNoAnswer = errors.New("connection reset")

func (s *deafStore) lost(err error) error {
	if s.asked++; s.asked > 1 || err != nil {
		return err
	}
	if s.happen != nil {
		s.happen()
	}
	return errNoAnswer
}

func (s *deafStore) Ask(ctx context.Context, key, id string, n backends.Notice) error {
	return s.lost(s.Store.Ask(ctx, key, id, n))
}

func (s *deafStore) Forget(ctx context.Context, key, run string) error {
	return s.lost(s.Store.Forget(ctx, key, run))
}

func TestBreakWhoseAnswerIsLost(t *testing.T) {
	for _, c := range []struct {
		force  bool
		happen func(*mem.Store, backends.Lease)
		want   string
	}{
		{true, func(*mem.Store, backends.Lease) {}, "took k from root@web2 (pid 4711, report.sh)"},
		{false, func(*mem.Store, backends.Lease) {}, "asked root@web2 (pid 4711, report.sh) to stop"},
		{false, func(s *mem.Store, l backends.Lease) { s.Release(context.Background(), "k", l.ID, backends.Outcome{}) },
			"root@web2 (pid 4711, report.sh) has gone, by itself or since it was asked"},
	} {
		store := &deafStore{Store: mem.New()}
		lease := take(t, store, nil)
		store.happen = func() { c.happen(store.Store, lease) }
		args := []string{"break", "k", "--reason", "r", "--yes"}
		if c.force {
			args = append(args, "--force")
		}
		wantAnswer(t, queryStore(t, store, args...), 0, c.want)
		if store.asked != 2 {
			t.Errorf("asked %d times", store.asked)
		}
	}
}

func TestForgetWhoseAnswerIsLost(t *testing.T) {
	store := &deafStore{Store: mem.New()}
	lease := take(t, store, func(r *backends.Request) { r.Once = &backends.Once{ID: "v42"} })
	if err := store.Complete(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, queryStore(t, store, "once", "forget", "k", "v42"), 0, `forgot run "v42" of k`)
	wantAnswer(t, queryStore(t, store, "once", "forget", "k", "v42"), 1, `no run "v42" of k is recorded`)
}
