//go:build linux

package testscripts

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"flockd/backends/backendtest/servers"
	"github.com/jackc/pgx/v5/pgconn"
)

func init() {
	fencingSections["PostgreSQL"] = func(p *page) {
		fence, recount := p.take("sql", ""), p.take("sh", "./recount.sh")
		column, row := p.take("sql", ""), p.take("sh", "./recount-row.sh")
		trigger, fenced := p.take("sql", ""), p.take("sh", "./fenced.sh")
		open := postgresDatabases(p.T)
		const says = "stale token"
		const condition = " WHERE fences.token <= excluded.token"
		several := fencedWriter{setup: fence, script: recount, condition: condition, status: 3, says: "ERROR:  " + says}
		several.test(p.T, "several", open)
		several.keeps(p.T, "several", open)
		one := fencedWriter{setup: column, script: row, condition: " AND token <= :token", status: 80, says: says}
		one.test(p.T, "row", open)
		one.keeps(p.T, "row", open)
		fence.text += trigger.text
		p.Run("edges", func(t *testing.T) {
			t.Parallel()
			postgresEdges(t, open, fence.text)
		})
		mixed := recount
		mixed.text = strings.Replace(mixed.text, "BEGIN;\n", "BEGIN;\nSET LOCAL flockd.token = :'token';\n", 1)
		p.Run("recipe and trigger", func(t *testing.T) {
			t.Parallel()
			for script, status := range map[block]int{recount: 3, mixed: 0} {
				fencedWriter{setup: fence, script: script}.tried(t, open, func(r *recipe, db *database) {
					r.alone(script, "FLOCKD_TOKEN=41").ends(status)
				})
			}
		})
		legacy := block{name: "./legacy.sh", text: `#!/bin/sh
set -eu
new=$(./count.sh "$(psql -XqAtc "SELECT n FROM stock")")
exec psql -Xqc "UPDATE stock SET n = $new"
`}
		fencedWriter{
			setup: fence, script: fenced, others: []block{legacy}, condition: condition, status: 1, says: says,
			reads: "CALL fence('stock', :token);\nSELECT n FROM stock",
			adds:  "SET flockd.token = :'token';\nUPDATE stock SET n = :new",
		}.test(p.T, "trigger", open)
	}
}

// postgresDatabases are schemas of one server's database, each with an owner of its name,
// who by PostgreSQL's default looks for tables there. A database of its own costs a second.
func postgresDatabases(t *testing.T) databases {
	server := servers.Postgres(t, "max_connections=400")
	var made atomic.Int64
	host, port, _ := net.SplitHostPort(server.Addr)
	return func(t *testing.T, dir string) *database {
		name := fmt.Sprint("app", made.Add(1))
		servers.PostgresSays(t, server, "CREATE ROLE "+name+" LOGIN PASSWORD 'secret'", "CREATE SCHEMA AUTHORIZATION "+name)
		url := fmt.Sprintf("postgres://%s:secret@%s/%s", name, server.Addr, servers.PostgresDatabase)
		return &database{
			T: t,
			connect: func() connection {
				conn, err := pgconn.Connect(t.Context(), url)
				must(t, err)
				t.Cleanup(func() { conn.Close(context.Background()) })
				return postgresSession{conn}
			},
			variables: []string{"PGHOST=" + host, "PGPORT=" + port, "PGUSER=" + name, "PGPASSWORD=secret", "PGDATABASE=" + servers.PostgresDatabase},
			says: func(statements string) string {
				return (&rig{T: t}).tool("psql", "-XqAt", "-v", "ON_ERROR_STOP=1", url, "-c", statements)
			},
		}
	}
}
