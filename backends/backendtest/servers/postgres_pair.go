package servers

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// PostgresPair is a primary and an asynchronous standby.
type PostgresPair struct {
	Primary, Standby *Process

	t    testing.TB
	link *TCPProxy // from the standby to the primary
}

// ReplicatedPostgres starts a pair, and returns when the standby follows. The settings are
// for both.
func ReplicatedPostgres(t testing.TB, settings ...string) *PostgresPair {
	t.Helper()
	settings = append([]string{"wal_keep_size=64MB", "wal_retrieve_retry_interval=100ms"}, settings...)
	p := &PostgresPair{Primary: Postgres(t, settings...), t: t}
	p.link = Proxy(t, p.Primary.Addr)
	host, port, _ := net.SplitHostPort(p.link.Addr)
	source := fmt.Sprintf("primary_conninfo=host=%s port=%s user=postgres application_name=standby", host, port)
	// Both begin with the same copy, so that one can go on with the other's log.
	p.Standby = newPostgres(t, Host{}, append(settings, source)...)
	if err := os.WriteFile(filepath.Join(p.Standby.Data(), "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	p.Standby.serve()
	p.Await()
	return p
}

// Await returns when the standby has all that the primary has acknowledged.
func (p *PostgresPair) Await() {
	p.t.Helper()
	written := PostgresSays(p.t, p.Primary, "SELECT pg_current_wal_lsn()")
	p.until(p.Standby, fmt.Sprintf("SELECT pg_last_wal_replay_lsn() >= '%s'", written))
}

// Synchronous has the primary acknowledge nothing from now on that the standby hasn't got,
// however long it has to wait.
func (p *PostgresPair) Synchronous() {
	p.t.Helper()
	PostgresSays(p.t, p.Primary, "ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()")
	p.until(p.Primary, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')")
}

// until returns when a server says yes.
func (p *PostgresPair) until(server *Process, question string) {
	p.t.Helper()
	for end := time.Now().Add(limit); PostgresSays(p.t, server, question) != "t"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("%s: not within %v: %s; its last lines:\n%s", server, limit, question, server.log.tail())
		}
	}
}

// Part lets the standby miss what the primary acknowledges from now on.
func (p *PostgresPair) Part() {
	p.t.Helper()
	p.Await()
	p.link.Refuse(true)
	p.link.Cut()
}

// Promote makes the standby a server that takes writes. The primary isn't told.
func (p *PostgresPair) Promote() {
	p.t.Helper()
	if PostgresSays(p.t, p.Standby, "SELECT pg_promote()") != "t" {
		p.t.Errorf("the standby isn't promoted; its last lines:\n%s", p.Standby.log.tail())
	}
}
