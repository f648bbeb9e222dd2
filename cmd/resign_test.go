package cmd

import (
	"context"
	"strings"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/mem"
)

const loneCandidate = "flockd: nobody else is in line for k: under flockd elect the same one will likely lead again\n"

func TestResignAsks(t *testing.T) {
	store := mem.New()
	lease := take(t, store, nil)
	o := queryStore(t, store, "resign", "--key", "k", "--reason", "reboot")
	if want := "flockd: asked root@web2 (pid 4711, report.sh) to resign; it is told within 5 s\n" + loneCandidate; o.code != 0 || o.stderr != want || o.stdout != "" {
		t.Errorf("%+v", o)
	}
	renewal, err := store.Renew(t.Context(), lease)
	if n := renewal.Notice; err != nil || n.Kind != backends.Resign || n.Reason != "reboot" || n.By.Command != "flockd" || n.By.User == "" || n.Force {
		t.Errorf("%+v, %v", renewal, err)
	}
	id := waitFor(t, store)
	wantAnswer(t, queryStore(t, store, "resign", "--key", "k"), 0, "asked root@web2 (pid 4711, report.sh) to resign")
	if o := queryStore(t, store, "resign", "--key", "k", "-q"); o.code != 0 || o.stderr != "" {
		t.Errorf("-q: %+v", o)
	}
	o = queryStore(t, store, "resign", "--key", "k", "-q", "--wait", "50ms")
	if want := "flockd: root@web2 (pid 4711, report.sh) has not resigned within 50ms; it is still asked to, and it is told within 5 s\n" +
		"flockd: hint: its lease ends by itself within 3600 s unless it is renewed; only then flockd break --force, which frees the key without waiting for it, and two may run\n"; o.code != 75 || o.stderr != want {
		t.Errorf("--wait: %+v", o)
	}
	if err := store.Ask(t.Context(), "k", id, backends.Notice{Kind: backends.Break}); err != nil {
		t.Fatal(err)
	}
	if o := queryStore(t, store, "resign", "--key", "k"); !strings.HasSuffix(o.stderr, loneCandidate) {
		t.Errorf("who is asked to leave the line is a candidate: %+v", o)
	}
}

// relay is a store in which the leader hands over as soon as it is asked.
type relay struct {
	*mem.Store
	next backends.Request
}

func (r relay) Ask(ctx context.Context, key, id string, n backends.Notice) error {
	if err := r.Store.Ask(ctx, key, id, n); err != nil {
		return err
	}
	if err := r.Release(ctx, key, id, backends.Outcome{Class: "lost", Exit: 143, Notice: n}); err != nil {
		return err
	}
	_, err := r.Acquire(ctx, r.next)
	return err
}

func TestResignWaitsForTheEndOfATerm(t *testing.T) {
	store := mem.New()
	lease := take(t, store, nil)
	next := backends.Request{
		Key: "k", ID: waitFor(t, store), Owner: backends.Owner{User: "bob", Host: "web1", PID: 12, Command: "deploy.sh"}, Mode: backends.Exclusive, TTL: time.Hour,
	}
	o := queryStore(t, relay{store, next}, "resign", "--key", "k", "--reason", "reboot", "--wait", "1m")
	said := strings.Split(o.stderr, "\n")
	if o.code != 0 || len(said) != 3 || !strings.HasPrefix(said[0], "flockd: asked root@web2 ") ||
		!strings.Contains(said[1], " of root@web2 (pid 4711, report.sh) is over; bob@web1 (pid 12, deploy.sh) leads now, term ") {
		t.Errorf("%+v", o)
	}
	if _, err := store.Renew(t.Context(), lease); err == nil {
		t.Error("it leads still")
	}
	if o := queryStore(t, store, "status", "k"); !strings.Contains(o.stdout, "  asked        to resign by ") {
		t.Errorf("%+v", o)
	}
}

// slowRelay is one in which the next leader is granted the key by a request of its own, once
// somebody has seen that the term is over.
type slowRelay struct {
	relay
	looks *int
}

func (r slowRelay) Ask(ctx context.Context, key, id string, n backends.Notice) error {
	return r.Release(ctx, key, id, backends.Outcome{Class: "lost", Exit: 143, Notice: n})
}

func (r slowRelay) Inspect(ctx context.Context, key string) (backends.Status, error) {
	if *r.looks++; *r.looks == 3 { // before the request, after it, and again
		if _, err := r.Acquire(ctx, r.next); err != nil {
			return backends.Status{}, err
		}
	}
	return r.Store.Inspect(ctx, key)
}

func TestResignLooksForTheNextLeader(t *testing.T) {
	store := mem.New()
	take(t, store, nil)
	next := backends.Request{
		Key: "k", ID: waitFor(t, store), Owner: backends.Owner{User: "bob", Host: "web1", PID: 12, Command: "deploy.sh"}, Mode: backends.Exclusive, TTL: time.Hour,
	}
	o := queryStore(t, slowRelay{relay{store, next}, new(int)}, "resign", "--key", "k", "--wait", "forever")
	if o.code != 0 || !strings.Contains(o.stderr, " is over; bob@web1 (pid 12, deploy.sh) leads now, term ") {
		t.Errorf("%+v", o)
	}
}

// stale is a store whose leader was last renewed a while ago.
type stale struct{ *mem.Store }

func (s stale) Inspect(ctx context.Context, key string) (backends.Status, error) {
	status, err := s.Store.Inspect(ctx, key)
	for i := range status.Line {
		status.Line[i].Renewed = status.AsOf.Add(-8 * time.Second)
	}
	return status, err
}

func TestResignOfWhoMayBeDeaf(t *testing.T) {
	store := mem.New()
	take(t, store, nil)
	waitFor(t, store)
	wantAnswer(t, queryStore(t, stale{store}, "resign", "--key", "k"), 0, " to resign; it is told within 5 s if it is up: it was last renewed 8s ago\n")
}

func TestResignOfNobody(t *testing.T) {
	store := mem.New()
	wantAnswer(t, queryStore(t, store, "resign", "--key", "k"), 1, "flockd: k has no leader: nobody holds the key\n")
	wantAnswer(t, queryStore(t, store, "resign", "--key", "k", "-q"), 1, "")
	lease := take(t, store, func(r *backends.Request) { r.Mode = backends.Shared })
	wantAnswer(t, queryStore(t, store, "resign", "--key", "k", "--wait", "1m"), 1, "k has no leader: held shared by root@web2")
	if renewal, err := store.Renew(t.Context(), lease); err != nil || renewal.Notice != (backends.Notice{}) {
		t.Errorf("%+v, %v", renewal, err)
	}
}

func TestResignWhoseAnswerIsLost(t *testing.T) {
	store := &deafStore{Store: mem.New()}
	lease := take(t, store, nil)
	store.happen = func() { store.Store.Release(context.Background(), "k", lease.ID, backends.Outcome{}) }
	wantAnswer(t, queryStore(t, store, "resign", "--key", "k"), 0, "root@web2 (pid 4711, report.sh) has gone, by itself or since it was asked")
}

func TestTold(t *testing.T) {
	for _, c := range []struct {
		ttl     time.Duration
		watches bool
		want    time.Duration
	}{
		{0, true, 5 * time.Second}, {0, false, 30 * time.Second},
		{time.Second, true, time.Second}, {time.Second, false, time.Second},
		{15 * time.Second, true, time.Second}, {15 * time.Second, false, 5 * time.Second},
		{31 * time.Second, true, 2 * time.Second}, {31 * time.Second, false, 11 * time.Second},
		{5 * time.Minute, true, 5 * time.Second}, {5 * time.Minute, false, 30 * time.Second},
	} {
		if got := toldHolding(c.ttl, c.watches); got != c.want {
			t.Errorf("TTL %v, watches %t: %v, want %v", c.ttl, c.watches, got, c.want)
		}
	}
}
