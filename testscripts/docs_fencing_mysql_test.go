//go:build linux

package testscripts

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"flockd/backends/backendtest/servers"
)

func init() {
	fencingSections["MySQL and MariaDB"] = func(p *page) {
		fence, _, recount := p.take("sql", ""), p.take("text", mysqlSettings), p.take("sh", "./recount.sh")
		column, row := p.take("sql", ""), p.take("sh", "./recount-row.sh")
		triggers := p.take("sql", "")
		open := mariaDBDatabases(p.T)
		const condition = "seen > mine"
		several := fencedWriter{
			setup: fence, script: recount, condition: condition, instead: "FALSE", status: 1,
			says: "ERROR 1644 (45000) at line 2: stale token",
		}
		several.test(p.T, "several", open)
		several.keeps(p.T, "several", open)
		p.Run("autocommit off", func(t *testing.T) {
			t.Parallel()
			several.tried(t, open, func(r *recipe, db *database) { raisesAtOnce(db, several) })
		})
		one := fencedWriter{setup: column, script: row, condition: " AND token <= @token", status: 80, says: "stale token"}
		one.test(p.T, "row", open)
		one.keeps(p.T, "row", open)
		fence.text += triggers.text
		p.Run("edges", func(t *testing.T) {
			t.Parallel()
			mysqlEdges(t, open, fence.text)
		})
		legacy := block{name: "./legacy.sh", text: `#!/bin/sh
set -eu
sql() { mariadb --batch --skip-column-names --init-command="SET @token = $FLOCKD_TOKEN" -e "$1"; }
new=$(./count.sh "$(sql "SELECT n FROM stock")")
sql "UPDATE stock SET n = $new"
`}
		fencedWriter{
			setup: fence, script: legacy, condition: condition, instead: "FALSE", status: 1, says: "stale token",
			reads: "CALL fence('stock', @token);\nSELECT n FROM stock",
			adds:  "SET @`token` = :token;\nUPDATE stock SET n = :new",
		}.test(p.T, "trigger", open)
	}
}

// raisesAtOnce: what a script raises before its work is there for others during that, also on a
// server that commits only when it is told to.
func raisesAtOnce(db *database, w fencedWriter) {
	reads, adds := w.statements(db.T)
	c := db.connect()
	db.allows(c, "SET autocommit = 0")
	_, err := sqlSink{c, reads, adds}.begin(41)
	must(db.T, err)
	db.sees("SELECT token FROM fences", 41)
}

const mysqlSettings = "~/.my.cnf"

// mariaDBDatabases are databases of one server, which clients find by the page's settings.
func mariaDBDatabases(t *testing.T) databases {
	settings := fencingBlock(t, "MySQL and MariaDB", mysqlSettings)
	server := servers.MariaDB(t, "--max-connections=400")
	var made atomic.Int64
	return func(t *testing.T, dir string) *database {
		name := fmt.Sprint("app", made.Add(1))
		servers.MariaDBSays(t, server, strings.ReplaceAll("CREATE DATABASE X; CREATE USER X IDENTIFIED BY 'SECRET'; GRANT ALL ON X.* TO X", "X", name))
		host, port, _ := net.SplitHostPort(server.Addr)
		ours := strings.NewReplacer("db1.example.com", host+"\nport = "+port, "= app\n", "= "+name+"\n").Replace(settings.text)
		must(t, os.WriteFile(filepath.Join(dir, ".my.cnf"), []byte(ours), 0o600))
		return &database{
			T:       t,
			connect: connects(t, "mysql", "root@tcp("+server.Addr+")/"+name),
			says: func(statements string) string {
				file := filepath.Join(dir, "statements")
				must(t, os.WriteFile(file, []byte(statements), 0o600))
				return (&rig{T: t}).tool("sh", "-c", `mariadb --defaults-file="$0/.my.cnf" --batch --skip-column-names <"$0/statements"`, dir)
			},
		}
	}
}
