package servers

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// PgBouncer starts a pgbouncer before a PostgreSQL, for the owner of its database. The
// mode is "transaction", in which a client's next transaction may come to another
// session than the last, or "session". The settings are its own, "default_pool_size=1",
// come last and so win.
func PgBouncer(t testing.TB, server *Process, mode string, settings ...string) *Process {
	t.Helper()
	who, err := unprivileged() // it refuses to be root, too
	if err != nil {
		t.Fatalf("a user for pgbouncer: %v", err)
	}
	p := prepareIn(t, who.folder(t), address(t), "process up", nil, "pgbouncer", "{dir}/pgbouncer.ini")
	p.attr = who.alone()
	p.pooling(server, append([]string{"pool_mode=" + mode}, settings...))
	return p.serve()
}

// pooling writes what pgbouncer reads.
func (p *Process) pooling(server *Process, settings []string) {
	p.t.Helper()
	host, port, _ := net.SplitHostPort(server.Addr)
	_, own, _ := net.SplitHostPort(p.Addr)
	users := filepath.Join(p.Dir, "users")
	config := fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr=127.0.0.1
listen_port=%s
unix_socket_dir=
auth_type=scram-sha-256
auth_file=%s
%s
`, host, port, own, users, strings.Join(settings, "\n"))
	account := fmt.Sprintf("%q %q\n", PostgresUser, PostgresPassword)
	for name, text := range map[string]string{filepath.Join(p.Dir, "pgbouncer.ini"): config, users: account} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
}
