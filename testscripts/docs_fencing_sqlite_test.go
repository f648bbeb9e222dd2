//go:build linux

package testscripts

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func init() {
	fencingSections["SQLite"] = func(p *page) {
		fence, recount := p.take("sql", ""), p.take("sh", "./recount.sh")
		_, trigger, _ := strings.Cut(fence.text, "\n")
		w := fencedWriter{
			setup: fence, script: recount, condition: trigger,
			status: 1, says: "Runtime error near line 2: stale token (19)",
		}
		w.test(p.T, "several", sqliteDatabase)
		w.keeps(p.T, "several", sqliteDatabase)
		p.Run("edges", func(t *testing.T) {
			t.Parallel()
			sqliteEdges(t, w)
		})
		p.Run("locked", func(t *testing.T) {
			t.Parallel()
			w := w
			w.script.text = strings.ReplaceAll(w.script.text, ".timeout 5000", ".timeout 1")
			w.tried(t, sqliteDatabase, func(r *recipe, db *database) {
				db.allows(db.connect(), "BEGIN IMMEDIATE")
				r.alone(w.script, "FLOCKD_TOKEN=41").ends(1).says("database is locked")
			})
		})
		p.Run("argument", func(t *testing.T) {
			t.Parallel()
			w.tried(t, sqliteDatabase, func(r *recipe, db *database) {
				db.says("INSERT INTO fences VALUES ('stock', 57)")
				r.launch(exec.Command("sqlite3", "-batch", "-bail", "app.db", "UPDATE fences SET token = 41")).ends(19).says("stale token (19)")
			})
		})
		p.Run("bail", func(t *testing.T) {
			t.Parallel()
			w := w
			w.condition = " -bail"
			w.loose(t).tried(t, sqliteDatabase, func(r *recipe, db *database) {
				r.zombie().ended(1, "stale token")
				r.stock(db, "1")
			})
		})
		p.Run("row", func(t *testing.T) {
			t.Parallel()
			db := sqliteDatabase(t, folder(t))
			column, row := postgresRow(t)
			db.says(stockTable + column.text)
			fencedContest(t, 5, db.sinks(t, fencedWriter{script: row}))
		})
	}
}

func sqliteDatabase(t *testing.T, dir string) *database {
	file := filepath.Join(dir, "app.db")
	r := &rig{T: t}
	return &database{
		T:       t,
		connect: connects(t, "sqlite3", "file:"+file+"?_busy_timeout=30000&_sync=OFF"),
		says:    func(statements string) string { return r.tool("sqlite3", "-batch", "-bail", file, statements) },
	}
}

// postgresRow is what the page has for PostgreSQL as "One row".
func postgresRow(t *testing.T) (column, script block) {
	for _, s := range sections(t, "fencing.md") {
		if s.title == "PostgreSQL" {
			return s.blocks[2], s.blocks[3]
		}
	}
	t.Fatal("there is no PostgreSQL")
	return
}
