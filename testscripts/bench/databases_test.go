//go:build linux

package bench

import (
	"testing"

	"flockd/backends/backendtest/servers"
)

func postgresURL(addr string) string {
	return "postgres://" + servers.PostgresUser + ":" + servers.PostgresPassword + "@" + addr + "/" + servers.PostgresDatabase
}

func mariaDBURL(addr string) string {
	return "mysql://" + servers.MariaDBUser + ":" + servers.MariaDBPassword + "@" + addr + "/" + servers.MariaDBDatabase
}

// ofPostgres has most of its waiters look, where there are many in one process. Neither
// database waits for its disk, which is not what is counted.
func ofPostgres(t testing.TB) *counted {
	return database(t, postgresURL, servers.Postgres(t, "fsync=off"))
}

func ofMariaDB(t testing.TB) *counted {
	s := database(t, mariaDBURL, servers.MariaDB(t, "--innodb-flush-log-at-trx-commit=0"))
	s.often = 1.5 // since a hold that is young may well end the next moment
	return s
}

func database(t testing.TB, url func(addr string) string, server *servers.Process) *counted {
	patient := func(addr string) string { return url(addr) + "?timeout=1m" } // a busy machine takes its time to make the tables
	s := through(t, patient, server,
		func(link *servers.TCPProxy) (int, error) { return link.Trips(), nil },
		func(want int) (int, error) { return want, nil }) // who comes late misses no hint
	s.looks = true
	return s
}
