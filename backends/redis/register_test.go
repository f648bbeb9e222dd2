package redis

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"flockd/backends"
	"flockd/backends/backendtest"
	"flockd/backends/backendtest/servers"
)

// What Lua would write of a number isn't what was admitted: it has 14 digits.
func TestTokensAreExact(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	for _, top := range []backends.Token{2, 1e14, 1<<50 + 1, 9e15, backends.MaxToken} {
		resource := fmt.Sprint("up to ", top)
		for token := max(top-3, 1); token <= top; token++ {
			backendtest.Admit(t, s, resource, token)
			backendtest.Admit(t, s, resource, token)
			text := do(t, s, "HGET", s.to.prefix.fence(resource), "token")
			if text != strconv.FormatInt(int64(token), 10) {
				t.Errorf("%d is kept as %q", token, text)
			}
			backendtest.WantHighest(t, s, resource, token)
			if token > 1 {
				backendtest.WantStale(t, s.Admit(t.Context(), resource, token-1), token)
			}
		}
		backendtest.ResetTo(t, s, resource, top-1)
		backendtest.WantHighest(t, s, resource, top-1)
		backendtest.Admit(t, s, resource, top)
	}
}

// Each costs one request, whatever its answer.
func TestRequestsOfTheRegister(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	s, copied := open(t, "redis://"+server.Addr), open(t, "redis://"+server.Addr+"?min-replicas=1&timeout=200ms")
	seen := watch(t, server.Addr)
	s.Highest(t.Context(), "a")
	wantCommands(t, "the first request", seen(), "HELLO EVAL")
	for what, ask := range map[string]func() error{
		"a larger token": func() error { return s.Admit(t.Context(), "a", 7) },
		"an equal one":   func() error { return s.Admit(t.Context(), "a", 7) },
		"a stale one":    func() error { return s.Admit(t.Context(), "a", 6) },
		"a reset":        func() error { return s.Reset(t.Context(), "a", 7, true) },
		"a look":         func() error { _, err := s.Highest(t.Context(), "a"); return err },
	} {
		backendtest.Admit(t, s, "a", 7)
		seen()
		if err := ask(); err != nil && !errors.Is(err, backends.ErrStale) {
			t.Errorf("%s: %v", what, err)
		}
		wantCommands(t, what, seen(), "EVAL")
	}
	copied.Highest(t.Context(), "a") // connects
	seen()
	copied.Admit(t.Context(), "a", 8)
	wantCommands(t, "a token that replicas are to have", seen(), "EVAL WAIT")
}

// A resource of the name of a key has nothing to do with it, nor with another whose name
// looks like a part, and isn't listed.
func TestResourcesAreNoKeys(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	lease := acquire(t, s, request("a"))
	backendtest.Admit(t, s, "a", 7)
	for i, resource := range []string{"{a}", "a}:fence", "a}:key", "a:fence", "%7B", "{", "业务:订单-42"} {
		backendtest.Admit(t, s, resource, backends.Token(i+1))
		backendtest.WantHighest(t, s, resource, backends.Token(i+1))
	}
	backendtest.WantHighest(t, s, "a", 7)
	renew(t, s, lease)
	release(t, s, lease)
	grows(t, s, lease)
	backendtest.WantHighest(t, s, "a", 7)
	for status, err := range s.List(t.Context(), "") {
		if err != nil || status.Key != "a" {
			t.Errorf("lists %q, %v", status.Key, err)
		}
	}
}

// What can't be read is refused and stays as it is, also where the token is to be set.
func TestForeignTokens(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	const newer, foreign = "(record version 2, this one knows 1)", "is no record of flockd's"
	for _, c := range []struct {
		record map[string]string
		says   string
	}{
		{map[string]string{"v": "2", "token": "5"}, newer},
		{map[string]string{"v": "2", "limit": "7"}, newer},
		{map[string]string{"v": "0", "token": "5"}, foreign},
		{map[string]string{"v": "0x1", "token": "5"}, foreign},
		{map[string]string{"v": "inf", "token": "5"}, foreign},
		{map[string]string{"token": "5"}, foreign},
		{map[string]string{"v": "1"}, foreign},
		{map[string]string{"v": "1", "token": "0"}, foreign},
		{map[string]string{"v": "1", "token": "-5"}, foreign},
		{map[string]string{"v": "1", "token": "nan"}, foreign},
		{map[string]string{"v": "1", "token": "9.0e15"}, foreign},
		{map[string]string{"v": "1", "token": "9007199254740993"}, foreign},
	} {
		resource := backends.NewID()
		name := s.to.prefix.fence(resource)
		if err := s.client.HSet(t.Context(), name, c.record).Err(); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, s.Admit(t.Context(), resource, 7), c.says)
		wantRefused(t, s.Admit(t.Context(), resource, backends.MaxToken), c.says)
		wantRefused(t, s.Reset(t.Context(), resource, 7, true), c.says)
		_, err := s.Highest(t.Context(), resource)
		wantRefused(t, err, c.says)
		if got := s.client.HGetAll(t.Context(), name).Val(); !maps.Equal(got, c.record) {
			t.Errorf("%v has become %v", c.record, got)
		}
	}
	do(t, s, "SET", s.to.prefix.fence("a"), "7")
	wantRefused(t, s.Admit(t.Context(), "a", 7), "is something else there")
}

// A reply that was lost costs nothing: whoever asks again is told the same.
func TestLostRepliesOfTheRegister(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	x := servers.Proxy(t, server.Addr)
	s, direct := open(t, "redis://"+x.Addr), open(t, "redis://"+server.Addr)
	loses(t, x, admitScript, func() error { return s.Admit(t.Context(), "a", 7) })
	backendtest.WantHighest(t, direct, "a", 7)
	backendtest.Admit(t, s, "a", 7)
	loses(t, x, admitScript, func() error { return s.Reset(t.Context(), "a", 5, true) })
	backendtest.WantHighest(t, direct, "a", 5)
	backendtest.ResetTo(t, s, "a", 5)
	loses(t, x, highestScript, func() error { _, err := s.Highest(t.Context(), "a"); return err })
	backendtest.WantHighest(t, s, "a", 5)
}

// A token that too few replicas have isn't admitted, asked again by another client too:
// an equal one is sent to the replicas like a new one.
func TestTokenOnReplicas(t *testing.T) {
	t.Parallel()
	primary, replica := servers.Redis(t, "--repl-diskless-sync-delay", "0"), servers.Redis(t)
	url := "redis://" + primary.Addr + "?min-replicas=1&timeout=1s"
	toReplica := open(t, "redis://"+replica.Addr)
	do(t, toReplica, "PING") // before it is a replica
	for range 2 {
		tooFew(t, "0 of 1 replicas", func() error { return open(t, url).Admit(t.Context(), "a", 7) })
	}
	backendtest.WantHighest(t, open(t, url), "a", 7) // it may count yet
	replicate(t, toReplica, primary)
	s := open(t, url)
	await(t, "an admission that a replica has", func() (string, bool) {
		err := s.Admit(t.Context(), "a", 8)
		return fmt.Sprint(err), err == nil
	})
	replica.Freeze()
	tooFew(t, "0 of 1 replicas", func() error { return open(t, url).Admit(t.Context(), "a", 8) })
	backendtest.WantStale(t, open(t, "redis://"+primary.Addr+"?min-replicas=1").Admit(t.Context(), "a", 7), 8)
	replica.Thaw()
}

// What is answered as it was before is written again, since newer servers wait for the replicas
// only on behalf of who has written.
func TestAskedAgainIsWritten(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	r := once("a", "run")
	lease := acquire(t, s, r)
	for what, ask := range map[string]func(){
		"a grant":   func() { acquire(t, s, r) },
		"a success": func() { complete(t, s, lease) },
		"a token":   func() { backendtest.Admit(t, s, "a", 7) },
	} {
		ask()
		before := changes(t, s)
		if ask(); changes(t, s) == before {
			t.Errorf("%s: nothing is written", what)
		}
	}
	renew(t, s, lease)
	release(t, s, lease)
}

// changes counts what a server has written.
func changes(t testing.TB, s *Store) string {
	t.Helper()
	_, after, _ := strings.Cut(do(t, s, "INFO", "persistence").(string), "rdb_changes_since_last_save:")
	count, _, _ := strings.Cut(after, "\r\n")
	return count
}

// Neither a token nor a look at it is answered by a replica, nor by what has become one.
func TestRegisterOfAReplica(t *testing.T) {
	t.Parallel()
	primary, replica := servers.Redis(t, "--repl-diskless-sync-delay", "0"), servers.Redis(t)
	backendtest.Admit(t, open(t, "redis://"+primary.Addr), "a", 7)
	url := "redis://" + replica.Addr
	was := func() *Store { // connected to it since it was a primary
		s := open(t, url)
		backendtest.Admit(t, s, "b", 7)
		return s
	}
	first, second, third, any := was(), was(), was(), was()
	replicate(t, any, primary)
	now := "is a replica now"
	wantTrouble(t, first.Admit(t.Context(), "a", 7), now)
	wantTrouble(t, second.Admit(t.Context(), "a", 6), now)
	_, err := third.Highest(t.Context(), "a")
	wantTrouble(t, err, now)

	fresh := open(t, url)
	wantRefused(t, fresh.Admit(t.Context(), "a", 7), "is a replica")
	_, err = fresh.Highest(t.Context(), "a")
	wantRefused(t, err, "is a replica")
}

// A failover to a replica that missed an admission takes it back, as docs/stores.md says.
func TestTokenLostByFailover(t *testing.T) {
	t.Parallel()
	old, next := servers.Redis(t, "--repl-diskless-sync-delay", "0"), servers.Redis(t)
	a, b := open(t, "redis://"+old.Addr), open(t, "redis://"+next.Addr)
	backendtest.Admit(t, a, "a", 5)
	do(t, b, "PING")
	replicate(t, b, old)
	do(t, b, "REPLICAOF", "NO", "ONE")
	backendtest.Admit(t, a, "a", 7)
	backendtest.WantHighest(t, b, "a", 5)
	backendtest.WantStale(t, b.Admit(t.Context(), "a", 4), 5)
	backendtest.Admit(t, b, "a", 6)
}

// A full Redis takes the tokens of the resources that it knows, and no new ones.
func TestRegisterOfAFullRedis(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	backendtest.Admit(t, s, "a", 7)
	do(t, s, "CONFIG", "SET", "maxmemory", "1")
	backendtest.Admit(t, s, "a", 8)
	backendtest.WantStale(t, s.Admit(t.Context(), "a", 7), 8)
	backendtest.WantHighest(t, s, "a", 8)
	wantTrouble(t, s.Admit(t.Context(), "b", 7), "is out of memory")
	if _, err := s.Highest(t.Context(), "b"); !errors.Is(err, backends.ErrNotFound) {
		t.Errorf("Highest = %v", err)
	}
}

// The register is kept for ever: what expires some policies evict first.
func TestTokensStay(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	s := open(t, "redis://"+server.Addr)
	name := s.to.prefix.fence("a")
	backendtest.Admit(t, s, "a", 7)
	do(t, s, "EXPIRE", name, 3600) // by somebody else
	backendtest.Admit(t, s, "a", 8)
	if ttl := do(t, s, "PTTL", name); ttl != int64(-1) {
		t.Errorf("it has a TTL of %d ms", ttl)
	}
	server.Kill()
	server.Start()
	backendtest.WantStale(t, open(t, "redis://"+server.Addr).Admit(t.Context(), "a", 7), 8)
}
