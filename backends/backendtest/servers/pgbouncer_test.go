package servers_test

import (
	"testing"
	"time"

	"flockd/backends/backendtest/servers"
)

// TestPgBouncer: two clients share one session of the server, from one transaction to the
// next, or one waits until the other has left.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	p := servers.Postgres(t)
	const who = "SELECT pg_backend_pid();"
	t.Run("transaction", func(t *testing.T) {
		x := servers.PgBouncer(t, p, "transaction", "default_pool_size=1")
		a, b := openSession(t, ownerURL(x.Addr)), openSession(t, ownerURL(x.Addr))
		if first, second := a.says(who), b.says(who); first == "" || first != second {
			t.Errorf("sessions %q and %q of the server, want one", first, second)
		}
	})
	t.Run("session", func(t *testing.T) {
		x := servers.PgBouncer(t, p, "session", "default_pool_size=1")
		a := openSession(t, ownerURL(x.Addr))
		first := a.says(who)
		if got, err := psql(x.Addr, who, soon); err == nil {
			t.Errorf("session %q of the server is taken, another client was given %q", first, got)
		}
		a.close()
		if got, err := psql(x.Addr, who, time.Minute); err != nil {
			t.Errorf("once it is free: %q, %v", got, err)
		}
	})
}
