package servers

import (
	"fmt"
	"net"
	"testing"
)

// MariaDBPair is a primary and an asynchronous replica, which takes no writes of users
// other than root.
type MariaDBPair struct {
	Primary, Replica *Process

	t testing.TB
}

// ReplicatedMariaDB starts a pair, and returns when the replica follows. The arguments
// are for both.
func ReplicatedMariaDB(t testing.TB, args ...string) *MariaDBPair {
	t.Helper()
	node := func(id int) *Process {
		own := []string{fmt.Sprint("--server-id=", id), "--log-bin=binlog", "--sync-binlog=1", "--log-slave-updates", "--rpl-semi-sync-slave-enabled=1"}
		return MariaDB(t, append(own, args...)...)
	}
	p := &MariaDBPair{Primary: node(1), Replica: node(2), t: t}
	host, port, _ := net.SplitHostPort(p.Primary.Addr)
	MariaDBSays(t, p.Replica, fmt.Sprintf(
		"CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%s, MASTER_USER='root', MASTER_CONNECT_RETRY=1, MASTER_USE_GTID=slave_pos;"+
			"SET GLOBAL read_only = 1; START SLAVE", host, port))
	p.Await()
	return p
}

// Await returns when the replica has all that the primary has acknowledged.
func (p *MariaDBPair) Await() {
	p.t.Helper()
	position := MariaDBSays(p.t, p.Primary, "SELECT @@gtid_binlog_pos")
	wait := fmt.Sprintf("SELECT MASTER_GTID_WAIT('%s', %d)", position, int(limit.Seconds()))
	if MariaDBSays(p.t, p.Replica, wait) != "0" {
		p.t.Errorf("the replica doesn't follow within %v: %s", limit, MariaDBSays(p.t, p.Replica, "SHOW SLAVE STATUS"))
	}
}

// Semisync has the primary acknowledge nothing from now on that the replica hasn't got,
// however long it has to wait.
func (p *MariaDBPair) Semisync() {
	p.t.Helper()
	p.Await()
	MariaDBSays(p.t, p.Primary, "SET GLOBAL rpl_semi_sync_master_timeout = 3600000;"+
		"SET GLOBAL rpl_semi_sync_master_wait_point = 'AFTER_SYNC'; SET GLOBAL rpl_semi_sync_master_enabled = 1")
}

// Part lets the replica miss what the primary acknowledges from now on.
func (p *MariaDBPair) Part() {
	p.t.Helper()
	p.Await()
	MariaDBSays(p.t, p.Replica, "STOP SLAVE")
}

// Promote makes the replica, once it has done what it was sent, a server that takes
// writes. The primary isn't told.
func (p *MariaDBPair) Promote() {
	p.t.Helper()
	MariaDBSays(p.t, p.Replica, "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0")
}
