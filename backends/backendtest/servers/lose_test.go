package servers_test

import (
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends/backendtest/servers"
)

// TestLostReplyOfRedis: what was asked was done, and the client saw a reset, or the end.
func TestLostReplyOfRedis(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t)
	x := servers.Proxy(t, r.Addr)
	for key, want := range map[string]struct {
		lose func(match []byte) <-chan struct{}
		see  func(link)
	}{"reset-key": {x.LoseReply, link.wantsReset}, "end-key": {x.EndBeforeReply, link.wantsEnd}} {
		lost := want.lose([]byte(key))
		c := dial(t, x.Addr)
		c.send("SET kept-key 1\r\n")
		c.wants("+OK\r\n")
		c.send("SET " + key + " 1\r\n")
		want.see(c)
		wantsClosed(t, lost)
	}
	if got, err := redisSays(r.Addr, "EXISTS kept-key reset-key end-key", enough); got != ":3\r\n" {
		t.Errorf("EXISTS: %q, %v, want all", got, err)
	}
}

// TestLostReplyOfEtcd has a watch on the same connection, whose events and the
// connection's own frames must not be taken for the reply.
func TestLostReplyOfEtcd(t *testing.T) {
	t.Parallel()
	for _, v := range []servers.Version{servers.Current, servers.Debian} {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			e := servers.Etcd(t, v)
			x := servers.Proxy(t, e.Addr)
			direct, through := client(t, e.Addr), client(t, x.Addr)
			watch := through.Watch(t.Context(), "lost-", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
			<-watch
			for i := range 50 {
				key := fmt.Sprintf("lost-%d.", i)
				lost := x.LoseReply([]byte(key))
				if _, err := through.Put(t.Context(), key, "1"); err == nil {
					t.Fatalf("%s was acknowledged", key)
				}
				wantsClosed(t, lost)
				if got, err := direct.Get(t.Context(), key); err != nil || got.Count != 1 {
					t.Fatalf("%s wasn't written: %v, %v", key, got, err)
				}
			}
		})
	}
}

func client(t *testing.T, addr string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
