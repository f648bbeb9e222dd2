//go:build linux

package bench

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

// BenchmarkHold is of a client that is connected: it takes a free key and gives it back.
func BenchmarkHold(b *testing.B) {
	server := servers.Postgres(b)
	link := servers.Proxy(b, server.Addr)
	url := postgresURL(server.Addr)
	holds := map[string]func(){"flockd": holdKey(b, url), "row": holdRow(b, url)}
	sideBySide(b, starts, locker{name: "flockd"}, locker{name: "row"}, func(l locker) time.Duration {
		began := time.Now()
		holds[l.name]()
		return time.Since(began)
	})
	for name, hold := range map[string]func(){"flockd": holdKey(b, postgresURL(link.Addr)), "row": holdRow(b, postgresURL(link.Addr))} {
		hold() // connects
		before := link.Trips()
		hold()
		b.ReportMetric(float64(link.Trips()-before), name+"-trips")
	}
}

func holdKey(b *testing.B, url string) func() {
	store := (&counted{url: url}).open(b)
	return func() {
		lease, err := store.Acquire(b.Context(), backends.Request{
			Key: "key", ID: backends.NewID(), Mode: backends.Exclusive, TTL: 5 * time.Minute,
		})
		check(b, err)
		check(b, store.Release(b.Context(), lease.Key, lease.ID, backends.Outcome{Class: "finished", Success: true}))
	}
}

// holdRow is a lease in a row as libraries have it that decide with the client: nothing is
// kept but the holder's version, and nobody stands in line. It is the statements and the
// transactions of cirello.io/pglock, each statement of which takes one round trip; with
// lib/pq most take two.
func holdRow(b *testing.B, url string) func() {
	conn, err := pgconn.Connect(b.Context(), url)
	check(b, err)
	b.Cleanup(func() { conn.Close(context.Background()) })
	ask := func(statement string) string {
		results, err := conn.Exec(b.Context(), statement).ReadAll()
		check(b, err)
		if rows := results[len(results)-1].Rows; len(rows) > 0 {
			return string(rows[0][0])
		}
		return ""
	}
	ask("CREATE TABLE IF NOT EXISTS lease (name text PRIMARY KEY, version bigint, holder text); CREATE SEQUENCE IF NOT EXISTS lease_version")
	const begin = "BEGIN ISOLATION LEVEL SERIALIZABLE"
	return func() {
		version := ask("SELECT nextval('lease_version')")
		mine := strings.NewReplacer("$", version)
		ask(begin)
		ask(mine.Replace("INSERT INTO lease VALUES ('key', $, 'me') ON CONFLICT (name) DO UPDATE SET version = $, holder = 'me' WHERE lease.version IS NULL"))
		if got := ask("SELECT version FROM lease WHERE name = 'key' FOR UPDATE"); got != version {
			b.Fatalf("version %s holds, not %s", got, version)
		}
		ask("COMMIT")
		ask(begin)
		ask(mine.Replace("UPDATE lease SET version = NULL WHERE name = 'key' AND version = $"))
		ask("DELETE FROM lease WHERE name = 'key' AND version IS NULL")
		ask("COMMIT")
	}
}
