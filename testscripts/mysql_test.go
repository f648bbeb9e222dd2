//go:build linux

package testscripts

import (
	"database/sql"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"flockd/backends/backendtest/servers"
	_ "github.com/go-sql-driver/mysql"
)

// mysqlFaults are what can happen to a database beside what happens to every store.
var mysqlFaults = []struct {
	name string
	show func(r *rig)
}{
	{"IdleTransactionOverOurRows", func(r *rig) { blockedForLong(r, "BEGIN", "SELECT * FROM flockd_claims FOR UPDATE") }},
	{"TablesAreLocked", func(r *rig) { blockedForLong(r, "LOCK TABLES flockd_keys WRITE, flockd_claims WRITE") }},
	{"ServerIsReadLocked", func(r *rig) { blockedForLong(r, "FLUSH TABLES WITH READ LOCK") }},
	{"RowsAreLockedBriefly", blockedBriefly},
	{"FrozenInsideAStep", frozenInsideStep},
	{"Deadlock", mysqlDeadlock},
	{"TooManyConnections", tooManyConnections},
}

func TestMySQLFaults(t *testing.T) {
	t.Parallel()
	for _, f := range mysqlFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.show(newRig(t, mysql))
		})
	}
}

// root is a connection to the rig's server with all rights, behind flockd's back.
func (r *rig) root() *sql.Conn {
	r.Helper()
	db, err := sql.Open("mysql", "root@tcp("+r.server.Addr+")/flockd")
	must(r, err)
	r.Cleanup(func() { db.Close() })
	conn, err := db.Conn(r.Context())
	must(r, err)
	return conn
}

func (r *rig) do(conn *sql.Conn, statements ...string) {
	r.Helper()
	for _, s := range statements {
		_, err := conn.ExecContext(r.Context(), s)
		must(r, err)
	}
}

// blocked has somebody lock our rows or tables until the returned function is called.
func (r *rig) blocked(statements ...string) (release func()) {
	r.Helper()
	conn := r.root()
	r.do(conn, statements...)
	return func() {
		r.Helper()
		r.do(conn, "COMMIT", "UNLOCK TABLES")
	}
}

// Whoever locks what is ours for longer than the lease lasts stops the command in time,
// and keeps everybody else from the key as well.
func blockedForLong(r *rig, statements ...string) {
	j := r.probes("stamps", "--ttl", "3s")
	release := r.blocked(statements...)
	next := r.next()
	j.lost()
	release()
	next.ends(0)
	r.before("stamps", "next")
}

// The first renewal waits for the rows, and one of those that follow is done in time.
func blockedBriefly(r *rig) {
	j := r.works("10", "--ttl", "8s")
	release := r.blocked("BEGIN", "SELECT * FROM flockd_claims FOR UPDATE")
	time.Sleep(4 * time.Second)
	release()
	j.ends(0).says("renewed again")
	r.free(0)
}

// A flockd that stands still between a request and its answer is in nobody's way.
func frozenInsideStep(r *rig) {
	j := r.probes("stamps", "--ttl", "3s")
	next := r.successor()
	renewed := func() string {
		return servers.MariaDBSays(r, r.server, "SELECT renewed FROM flockd.flockd_claims WHERE state = 'holding'")
	}
	r.link.Stall(servers.Replies)
	before := renewed()
	until(r, "a renewal without an answer", func() bool { return renewed() != before })
	must(r, servers.Freeze(j.cmd.Process.Pid))
	next.ends(0)
	r.before("stamps", "next")
	j.cmd.Process.Signal(syscall.SIGCONT)
	j.ends(79)
}

// Of a deadlock, here provoked, the server makes flockd's step the victim, since less has
// to be undone. The step is done again, and nobody hears of it.
func mysqlDeadlock(r *rig) {
	j := r.works("2", "--ttl", "1m")
	conn := r.root()
	r.do(conn, "CREATE TABLE heavy (n INT) ENGINE=InnoDB", "BEGIN", "INSERT INTO heavy SELECT seq FROM seq_1_to_1000",
		"SELECT * FROM flockd_claims FOR UPDATE")
	until(r, "the release waits for the claim", func() bool {
		return servers.MariaDBSays(r, r.server, "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'") != "0"
	})
	r.do(conn, "SELECT * FROM flockd_keys FOR UPDATE", "COMMIT")
	j.ends(0)
	if said := j.stderr.String(); said != "" {
		r.Errorf("it says %q", said)
	}
	if servers.MariaDBSays(r, r.server, "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Innodb_deadlocks'") == "0" {
		r.Error("there was no deadlock")
	}
	r.free(0)
}

// A server that takes no more connections goes on serving those that it has.
func tooManyConnections(r *rig) {
	j := r.works("8", "--ttl", "6s")
	servers.MariaDBSays(r, r.server, "SET GLOBAL max_connections = 10")
	db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/", servers.MariaDBUser, servers.MariaDBPassword, r.server.Addr))
	must(r, err)
	defer db.Close()
	for err == nil {
		_, err = db.Conn(r.Context())
	}
	if !strings.Contains(err.Error(), "Too many connections") {
		r.Fatal(err)
	}
	r.run(r.direct, "other", "--", "touch", "ran").ends(69).says("connections")
	w := r.run(r.direct, "k", "--wait", "1m", "--", "true")
	j.ends(0)
	must(r, db.Close())
	w.ends(0)
	r.free(0)
}
