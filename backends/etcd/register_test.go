package etcd

import (
	"errors"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
	"flockd/backends/backendtest"
	"flockd/backends/backendtest/servers"
)

// Tokens are compared as numbers, though etcd compares bytes.
func TestTokensOfMoreDigits(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s := open(t, url)
	for _, token := range []backends.Token{2, 10, 100, 1e10, 1e15, 9e15, backends.MaxToken} {
		if n := len(fenceOf(token)); n != len(fenceOf(1)) {
			t.Errorf("the record of %d has %d bytes", token, n)
		}
		backendtest.Admit(t, s, "a", token-1)
		backendtest.Admit(t, s, "a", token)
		backendtest.Admit(t, s, "a", token)
		backendtest.WantHighest(t, s, "a", token)
		backendtest.WantStale(t, s.Admit(t.Context(), "a", token-1), token)
		backendtest.WantStale(t, s.Admit(t.Context(), "a", 1), token)
	}
	backendtest.ResetTo(t, s, "a", 9)
	backendtest.WantHighest(t, s, "a", 9)
	backendtest.WantStale(t, s.Admit(t.Context(), "a", 8), 9)
	backendtest.Admit(t, s, "a", 10)
	if found := kvs(do(t, s, clientv3.OpGet(s.fence("a"))).Responses[0]); len(found) != 1 || found[0].Lease != 0 {
		t.Errorf("%v, want it kept for ever", found)
	}
}

// Each is one request, whatever its answer, and one that changes nothing writes nothing.
func TestRequestsOfTheRegister(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s, around := open(t, url), open(t, url)
	n := counted(s)
	s.Highest(t.Context(), "a") // connects
	rev := func() int64 { return do(t, around, clientv3.OpGet("x")).Header.Revision }
	for _, c := range []struct {
		what   string
		ask    func() error
		writes int64
	}{
		{"the first token", func() error { return s.Admit(t.Context(), "a", 7) }, 1},
		{"an equal one", func() error { return s.Admit(t.Context(), "a", 7) }, 0},
		{"a stale one", func() error { return s.Admit(t.Context(), "a", 6) }, 0},
		{"a larger one", func() error { return s.Admit(t.Context(), "a", 8) }, 1},
		{"a reset", func() error { return s.Reset(t.Context(), "a", 7, true) }, 1},
		{"a stale reset", func() error { return s.Reset(t.Context(), "a", 6, false) }, 0},
		{"a look", func() error { _, err := s.Highest(t.Context(), "a"); return err }, 0},
	} {
		n.Store(0)
		before := rev()
		if err := c.ask(); err != nil && !errors.Is(err, backends.ErrStale) {
			t.Errorf("%s: %v", c.what, err)
		}
		if writes := rev() - before; n.Load() != 1 || writes != c.writes {
			t.Errorf("%s: %d requests, want 1, and %d revisions, want %d", c.what, n.Load(), writes, c.writes)
		}
	}
}

// A reply that was lost costs nothing: asked again, the answer is the same.
func TestLostRepliesOfTheRegister(t *testing.T) {
	t.Parallel()
	x, s, around := proxied(t)
	key := []byte(s.fence("a"))
	s.Highest(t.Context(), "a") // connects
	lost := x.LoseReply(key)
	backendtest.Admit(t, s, "a", 7)
	isLost(t, lost)
	backendtest.WantHighest(t, around, "a", 7)
	lost = x.LoseReply(key)
	backendtest.WantStale(t, s.Admit(t.Context(), "a", 6), 7)
	isLost(t, lost)
	lost = x.LoseReply(key)
	backendtest.ResetTo(t, s, "a", 5)
	isLost(t, lost)
	lost = x.LoseReply(key)
	backendtest.WantHighest(t, s, "a", 5)
	isLost(t, lost)
}

// A resource of the name of a key has nothing to do with it, and isn't listed.
func TestResourcesAreNoKeys(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s, req := open(t, url), request(t)
	lease := acquire(t, s, req)
	for i, resource := range []string{req.Key, req.Key + "/", "line", "line/" + req.Key, "..", "%2F", "业务:订单-42"} {
		backendtest.Admit(t, s, resource, backends.Token(i+1))
	}
	backendtest.WantHighest(t, s, req.Key, 1)
	backendtest.WantHighest(t, s, "..", 5)
	renew(t, s, lease)
	release(t, s, lease)
	backendtest.WantHighest(t, s, req.Key, 1)
	for status, err := range s.List(t.Context(), "") {
		if err != nil || status.Key != req.Key {
			t.Errorf("lists %q, %v", status.Key, err)
		}
	}
}

// What can't be read is refused and stays as it is, whether by its bytes it is smaller than our
// tokens or larger, and also where the token is to be set.
func TestForeignTokens(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s, resource := open(t, url), request(t).Key
	key := s.fence(resource)
	const newer, foreign = "newer flockd", "none of flockd's"
	for _, c := range []struct{ value, says string }{
		{`{"v":2,"token":"0000000000000005"}`, newer},
		{`{"v":10,"token":"0000000000000005"}`, newer},
		{`{"limit":5,"v":2}`, newer}, // smaller
		{`{"v": 2}`, newer},          // smaller
		{``, foreign},
		{`57`, foreign},
		{`{"v":1}`, foreign},
		{`{"v":1,"token":5}`, foreign},
		{`{"v":1,"token":""}`, foreign},
		{`{"v":1,"token":"9007199254740993"}`, foreign},
		{`{"v": 1,"token":"0000000000000005"}`, foreign}, // smaller
		{`{"v":0,"token":"0000000000000005"}`, foreign},  // smaller
	} {
		put(t, s, key, c.value)
		_, highest := s.Highest(t.Context(), resource)
		for call, err := range map[string]error{
			"Highest": highest, "Admit": s.Admit(t.Context(), resource, 7), "Reset": s.Reset(t.Context(), resource, 7, true),
		} {
			if !errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s of %s = %v, want %q", call, c.value, err, c.says)
			}
		}
		if got := string(kvs(do(t, s, clientv3.OpGet(key)).Responses[0])[0].Value); got != c.value {
			t.Errorf("%s has become %s", c.value, got)
		}
	}
}

// A full database takes no token; what it has seen can be read.
func TestRegisterOfAFullDatabase(t *testing.T) {
	t.Parallel()
	_, url := server(t, "--quota-backend-bytes", "4194304")
	s := open(t, url)
	backendtest.Admit(t, s, "a", 7)
	fill(t, s)
	for _, resource := range []string{"a", "new"} {
		err := s.Admit(t.Context(), resource, 8)
		if err == nil || errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), "its database is full (alarm NOSPACE)") {
			t.Errorf("Admit = %v", err)
		}
	}
	backendtest.WantHighest(t, s, "a", 7)
}

// A member that is cut off from the others admits nothing, and doesn't tell what was the highest
// token before.
func TestRegisterOfADeposedLeader(t *testing.T) {
	t.Parallel()
	c := servers.EtcdCluster(t, 3)
	old := c.Leader()
	s := only(t, c, old)
	backendtest.Admit(t, s, "a", 7)
	c.Isolate(old)
	backendtest.Admit(t, attached(t, c, c.Leader(old)), "a", 8)
	_, highest := s.Highest(t.Context(), "a")
	for call, err := range map[string]error{"Admit": s.Admit(t.Context(), "a", 7), "Highest": highest} {
		if err == nil || errors.Is(err, backends.ErrStale) || errors.Is(err, backends.ErrRefused) || errors.Is(err, backends.ErrNotFound) {
			t.Errorf("%s = %v, want that it can't know", call, err)
		}
	}
	c.Heal(old)
	ctx := within(t)
	for err := error(nil); !errors.Is(err, backends.ErrStale); {
		if err = s.Admit(ctx, "a", 7); err == nil || ctx.Err() != nil {
			t.Fatalf("Admit after healing = %v, want it stale", err)
		}
	}
}
