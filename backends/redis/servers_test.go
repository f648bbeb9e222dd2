package redis

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

func TestNoServer(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	server.Kill()
	for url, text := range map[string]string{
		"redis://" + server.Addr:              "redis://" + server.Addr + ": connection refused",
		"redis://nowhere.invalid":             "redis://nowhere.invalid:6379: no such host",
		"redis+unix:///nowhere/redis.sock":    "redis+unix:///nowhere/redis.sock: no such file or directory",
		"rediss://" + server.Addr:             "rediss://" + server.Addr + ": connection refused",
		"redis://192.0.2.1:1?timeout=50ms":    "redis://192.0.2.1:1: ", // no route, or no answer
		"redis://:hunter2@nowhere.invalid:12": "redis://nowhere.invalid:12: no such host",
	} {
		s := open(t, url)
		for range 3 {
			_, err := s.Acquire(t.Context(), request("a"))
			wantTrouble(t, err, text)
			if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "dial")) {
				t.Errorf("%s: %v", url, err)
			}
		}
	}
}

// A server that isn't there for a while is found again at once, however often it was
// asked in vain.
func TestServerComesBack(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	s := open(t, "redis://"+server.Addr)
	server.Kill()
	for range 2 * connections {
		_, err := s.Acquire(t.Context(), request("a"))
		wantTrouble(t, err, "connection refused")
	}
	server.Start()
	acquire(t, s, request("a"))
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, "--unixsocket", "{dir}/redis.sock", "--requirepass", "secret")
	socket := filepath.Join(server.Dir, "redis.sock")
	s := open(t, "redis+unix://default:secret@"+socket+"?db=2")
	lease := acquire(t, s, request("a"))
	held(t, open(t, "redis://:secret@"+server.Addr+"/2"), request("a"))
	acquire(t, open(t, "redis://:secret@"+server.Addr+"/3"), request("a"))
	release(t, s, lease)
	_, err := open(t, "redis+unix://"+socket).Acquire(t.Context(), request("a"))
	wantRefused(t, err, socket+" wants a password")
}

// A replica is refused, before anything is read from it too, and also one that would
// take writes.
func TestReplica(t *testing.T) {
	t.Parallel()
	primary, replica := servers.Redis(t, "--repl-diskless-sync-delay", "0"), servers.Redis(t)
	before := open(t, "redis://"+replica.Addr)
	do(t, before, "PING") // connects
	acquire(t, open(t, "redis://"+primary.Addr), request("a"))
	replicate(t, before, primary)
	for _, readOnly := range []string{"yes", "no"} {
		do(t, before, "CONFIG", "SET", "replica-read-only", readOnly)
		s := open(t, "redis://"+replica.Addr+"/0")
		_, err := s.Acquire(t.Context(), request("a"))
		wantRefused(t, err, replica.Addr+" is a replica")
		_, err = s.Inspect(t.Context(), "a")
		wantRefused(t, err, replica.Addr+" is a replica")
	}
	do(t, before, "CONFIG", "SET", "replica-read-only", "yes")
	_, err := before.Acquire(t.Context(), request("b")) // was a primary when we connected
	wantRefused(t, err, replica.Addr+" is a replica")
}

// All parts of a key are in one slot, whatever is in the key.
func TestOneSlot(t *testing.T) {
	t.Parallel()
	server := servers.RedisNode(t)
	s := open(t, "redis://"+server.Addr)
	_, err := s.Acquire(t.Context(), request("a"))
	wantTrouble(t, err, "in a cluster that is down")
	do(t, s, "CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	awaitCluster(t, s)
	for _, key := range []string{"a", "{a}", "{a}b", "a}b", "}{", "{}", "{}a", "%", "a:{b}:c", "业务:订单-42"} {
		lease := acquire(t, s, request(key))
		waiter := queue(key)
		answer := held(t, s, waiter)
		renew(t, s, lease)
		slot := do(t, s, "CLUSTER", "KEYSLOT", s.to.prefix.part(key, "line"))
		for _, name := range append(s.to.prefix.keys(key, waiter.ID), s.to.prefix.bell(key, waiter.ID)) {
			if other := do(t, s, "CLUSTER", "KEYSLOT", name); other != slot {
				t.Errorf("%q is in slot %v, not %v", name, other, slot)
			}
		}
		release(t, s, lease)
		if err := s.Wait(t.Context(), answer); err != nil {
			t.Errorf("%q: Wait = %v", key, err)
		}
		release(t, s, acquire(t, s, waiter))
		inspect(t, s, key)
	}
	do(t, s, "CLUSTER", "DELSLOTS", do(t, s, "CLUSTER", "KEYSLOT", s.to.prefix.part("a", "line")))
	_, err = s.Acquire(t.Context(), request("a"))
	wantTrouble(t, err, "in a cluster that is down")
}

func awaitCluster(t testing.TB, s *Store) {
	t.Helper()
	await(t, "a cluster that is up", func() (string, bool) {
		info := do(t, s, "CLUSTER", "INFO").(string)
		return info, strings.Contains(info, "cluster_state:ok")
	})
}

// What others keep under our names, and what we can't read, is refused.
func TestForeignRecords(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	for what, spoil := range map[string]func(key string, id string){
		"is no record of flockd's": func(key, id string) {
			do(t, s, "HSET", s.to.prefix.part(key, "claims"), id, "by hand")
		},
		"is no record of flockd's ": func(key, id string) {
			do(t, s, "HSET", s.to.prefix.part(key, "claims"), id, `{"v":1,"ends":"soon"}`)
		},
		"(record version 7, this one knows 1)": func(key, id string) {
			do(t, s, "HSET", s.to.prefix.part(key, "claims"), id, `{"v":7}`)
		},
		"is something else there": func(key, id string) {
			do(t, s, "SET", s.to.prefix.part(key, "line"), "x")
		},
	} {
		key, text := backends.NewID(), strings.TrimSpace(what)
		lease := acquire(t, s, request(key))
		spoil(key, lease.ID)
		_, err := s.Acquire(t.Context(), request(key))
		wantRefused(t, err, text)
		_, err = s.Renew(t.Context(), lease)
		wantRefused(t, err, text)
		_, err = s.Inspect(t.Context(), key)
		wantRefused(t, err, text)
		wantRefused(t, s.Complete(t.Context(), lease), text)
		wantRefused(t, s.Release(t.Context(), key, lease.ID, backends.Outcome{}), text)
		wantRefused(t, s.Ask(t.Context(), key, lease.ID, backends.Notice{Force: true}), text)
	}
	// A dead claim of a newer version is refused as well, not pruned.
	lease := acquire(t, s, backends.Request{Key: "dead", ID: backends.NewID(), Mode: backends.Exclusive, TTL: 1})
	do(t, s, "HSET", s.to.prefix.part("dead", "claims"), lease.ID, `{"v":3}`)
	_, err := s.Acquire(t.Context(), request("dead"))
	wantRefused(t, err, "record version 3")
}

// A token that isn't a number is none.
func TestTokenByHand(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	for _, token := range []string{"nan", "-nan", "inf", "-inf", "", "x"} {
		lease := acquire(t, s, request("a"))
		release(t, s, lease)
		do(t, s, "HSET", s.to.prefix.part("a", "key"), "token", token)
		release(t, s, grows(t, s, lease))
	}
}

// The dead are not counted.
func TestDeadWaitersAreNotCounted(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	acquire(t, s, request("k"))
	dead := request("k")
	for range 150 {
		dead.ID, dead.Place = backends.NewID(), 1 // ns, so 1 µs
		held(t, s, dead)
	}
	for range 2 {
		if h := held(t, s, request("k")); h.Waiters != 0 || h.Ahead != 0 {
			t.Errorf("%+v", h)
		}
	}
}

func TestOneServerManyPrefixes(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	a, b := open(t, "redis://"+server.Addr), open(t, "redis://"+server.Addr+"?prefix=team*")
	acquire(t, a, request("k"))
	acquire(t, b, request("k"))
	acquire(t, a, request("l"))
	for s, want := range map[*Store]int{a: 2, b: 1} {
		n := 0
		for _, err := range s.List(t.Context(), "") {
			if n++; err != nil {
				t.Error(err)
			}
		}
		if n != want {
			t.Errorf("%d keys under %s, want %d", n, s.to.prefix, want)
		}
	}
}

// A server that speaks something else is no endless wait. It keeps the connection, the
// end of which would be another thing to complain of.
func TestNotARedis(t *testing.T) {
	t.Parallel()
	addr := stranger(t, func(conn net.Conn) { conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) })
	name := "redis://" + addr
	_, err := open(t, name).Acquire(t.Context(), request("a"))
	wantTrouble(t, err, name+": what it says isn't Redis's protocol")
}
