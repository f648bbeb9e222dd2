package postgres

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"flockd/backends"
	"flockd/backends/backendtest"
	"flockd/backends/backendtest/servers"
)

// A standby is passed by, or refused where the URL names no other, and is the next primary
// once it is promoted.
func TestStandby(t *testing.T) {
	t.Parallel()
	pair := servers.ReplicatedPostgres(t)
	lease := acquire(t, open(t, userURL(pair.Primary)), request("a"))
	pair.Await()
	s := open(t, userURL(pair.Standby))
	_, err := s.Acquire(t.Context(), request("a"))
	wantRefused(t, err, pair.Standby.Addr+": it is a standby")
	_, err = s.Inspect(t.Context(), "a")
	wantRefused(t, err, "it is a standby")
	wantHint(t, err, "name its primary")
	_, err = s.Renew(t.Context(), lease)
	wantRefused(t, err, "it is a standby")
	wantRefused(t, s.Admit(t.Context(), "a", 7), "it is a standby")
	_, err = s.Highest(t.Context(), "a")
	wantRefused(t, err, "it is a standby")
	both := open(t, strings.Replace(userURL(pair.Standby), pair.Standby.Addr, pair.Standby.Addr+","+pair.Primary.Addr, 1))
	renew(t, both, lease)
	pair.Await()
	pair.Primary.Kill()
	_, err = both.Renew(t.Context(), lease) // of the connection from before, or of both hosts
	wantTrouble(t, err, "")
	_, err = both.Renew(t.Context(), lease)
	wantTrouble(t, err, pair.Primary.Addr+": connection refused")
	wantTrouble(t, err, pair.Standby.Addr+": it is a standby")
	pair.Promote()
	renew(t, both, lease)
	renew(t, s, lease)
	pair.Standby.Stop()
	if err := os.WriteFile(filepath.Join(pair.Standby.Data(), "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	pair.Standby.Start()
	_, err = s.Renew(t.Context(), lease) // it has been the primary, and may be so again
	wantTrouble(t, err, "it is a standby now")
}

// Half of the hosts are dead, one way or the other.
func TestDeadHosts(t *testing.T) {
	t.Parallel()
	frozen, killed, alive := servers.Postgres(t), servers.Postgres(t), servers.Postgres(t)
	frozen.Freeze()
	killed.Kill()
	list := strings.Join([]string{frozen.Addr, killed.Addr, "nowhere.invalid", alive.Addr}, ",")
	s := open(t, strings.Replace(userURL(alive), alive.Addr, list, 1)+"?timeout=20s")
	backendtest.Everything(t, s)
	alive.Kill()
	frozen.Thaw()
	frozen.Kill()
	_, err := s.Acquire(t.Context(), request("b"))
	for _, text := range []string{frozen.Addr + ": connection refused", "nowhere.invalid:5432: no such host", alive.Addr + ": connection refused"} {
		wantTrouble(t, err, text)
	}
	alive.Start()
	acquire(t, s, request("b"))
}

// TLS is what ?sslmode= asks for, with whom the certificates say.
func TestTLS(t *testing.T) {
	t.Parallel()
	a, strange := servers.CA(t), servers.CA(t)
	p := servers.Postgres(t, a.PostgresSettings()...)
	base := userURL(p)
	backendtest.Everything(t, open(t, base))
	backendtest.Everything(t, open(t, base+"?sslmode=verify-full&sslrootcert="+a.File))
	_, port, _ := net.SplitHostPort(p.Addr)
	for url, want := range map[string]struct{ text, hint string }{
		base + "?sslmode=verify-full&sslrootcert=" + strange.File: {"unknown authority", "?sslrootcert="},
		base + "?sslmode=disable":                                 {"no pg_hba.conf entry", "pg_hba.conf"},
		strings.Replace(base, p.Addr, "localhost:"+port, 1) + "?sslmode=verify-full&sslrootcert=" + strange.File: {"unknown authority", "?sslrootcert="},
	} {
		_, err := open(t, url).Acquire(t.Context(), request("b"))
		wantRefused(t, err, want.text)
		wantHint(t, err, want.hint)
	}
}

// A server that is too old is refused before anything is asked of it.
func TestOldServer(t *testing.T) {
	t.Parallel()
	for release, text := range map[string]string{
		"9.6.24":                       "is PostgreSQL 9.6.24, and flockd needs 12 or later",
		"11.22 (Debian 11.22-0+deb10)": "is PostgreSQL 11.22",
	} {
		s := open(t, "postgres://u:secret@"+pretend(t, release)+"/d?sslmode=disable")
		_, err := s.Acquire(t.Context(), request("a"))
		wantRefused(t, err, text)
	}
}

// pretend is the address of somebody who says to be a PostgreSQL of that release.
func pretend(t *testing.T, release string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go greet(conn, release)
		}
	}()
	return listener.Addr().String()
}

func greet(conn net.Conn, release string) {
	defer conn.Close()
	b := pgproto3.NewBackend(conn, conn)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: release})
	b.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{1, 2, 3, 4}})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	b.Flush()
	b.Receive()
}

// A server that isn't there for a while is found again at once.
func TestServerComesBack(t *testing.T) {
	t.Parallel()
	p := servers.Postgres(t)
	s := open(t, userURL(p))
	lease := acquire(t, s, request("a"))
	p.Kill()
	for range 2 * connections {
		_, err := s.Acquire(t.Context(), request("a"))
		wantTrouble(t, err, "connection refused")
	}
	p.Start()
	renew(t, s, lease) // the server remembers
	_, err := s.Renew(t.Context(), backends.Lease{Key: "a", ID: backends.NewID(), TTL: lease.TTL})
	wantLost(t, err)
}

// A server without TLS that is lost before it greets a client without TLS either may come back.
func TestLostWithoutTLS(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if _, err := pgproto3.NewBackend(conn, conn).ReceiveStartupMessage(); err == nil {
				conn.Write([]byte("N")) // to who asks for TLS
			}
			conn.Close()
		}
	}()
	for _, mode := range []string{"prefer", "allow"} {
		_, err = open(t, "postgres://u:secret@"+listener.Addr().String()+"/d?sslmode="+mode).Acquire(t.Context(), request("a"))
		wantTrouble(t, err, "")
	}
}
