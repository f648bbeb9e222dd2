//go:build linux

package testscripts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func init() {
	fencingSections["Without tokens"] = func(p *page) {
		all := []withoutTokens{
			{name: "unique", table: p.take("sql", ""), steps: []block{p.take("sql", "")}, condition: " PRIMARY KEY", show: notTwice},
			{name: "state", table: p.take("sql", ""), steps: []block{p.take("sql", ""), p.take("sql", "")}, condition: " AND status = 'new'", show: once},
			{name: "version", table: p.take("sql", ""), steps: []block{p.take("sql", "")}, condition: " AND version = :version", show: notOver},
			{name: "condition", table: p.take("sql", ""), steps: []block{p.take("sql", "")}, condition: " AND n >= 1", show: notBelow},
		}
		worker := all[1]
		worker.name, worker.condition = "worker", " AND worker = :me"
		all = append(all, worker)
		for name, open := range map[string]databases{"postgres": postgresDatabases(p.T), "mysql": mariaDBDatabases(p.T), "sqlite": sqliteDatabase} {
			p.Run(name, func(t *testing.T) {
				t.Parallel()
				db := open(t, folder(t))
				connections := db.clients()
				for _, w := range all {
					w.test(t, db, connections)
				}
			})
		}
	}
}

// withoutTokens is a recipe for 20 clients at once.
type withoutTokens struct {
	name      string
	table     block
	steps     []block
	condition string // what the control leaves out
	show      func(w withoutTokens, db *database, all []connection) (broken string)
}

// test shows that the recipe does what it is for, and that without its condition it doesn't.
func (w withoutTokens) test(t *testing.T, db *database, all []connection) {
	t.Helper()
	if broken := w.broken(db, all); broken != "" {
		t.Errorf("%s: %s", w.name, broken)
	}
	broken := w.loose(t).broken(db, all)
	t.Logf("%s without %q: %s", w.name, w.condition, broken)
	if broken == "" {
		t.Errorf("%s: it isn't broken without%s, so that this shows nothing", w.name, w.condition)
	}
}

// broken runs it on tables of its own, and says what isn't as it should be.
func (w withoutTokens) broken(db *database, all []connection) string {
	db.Helper()
	db.says(w.table.text)
	defer db.says("DROP TABLE " + strings.Fields(w.table.text)[2])
	return w.show(w, db, all)
}

// loose is the control.
func (w withoutTokens) loose(t *testing.T) withoutTokens {
	t.Helper()
	found := false
	cut := func(b block) block {
		found = found || strings.Contains(b.text, w.condition)
		b.text = strings.ReplaceAll(b.text, w.condition, "")
		return b
	}
	w.table = cut(w.table)
	w.steps = append([]block{}, w.steps...)
	for i, step := range w.steps {
		w.steps[i] = cut(step)
	}
	if !found {
		t.Fatalf("there is no %q", w.condition)
	}
	return w
}

const clients = 20

// together has all clients do the same, each through a connection of its own.
func together(connections []connection, do func(client int, c connection)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for n, c := range connections {
		all.Go(func() {
			<-start
			do(n, c)
		})
	}
	close(start)
	all.Wait()
}

// clients are as many connections.
func (d *database) clients() (all []connection) {
	for range clients {
		all = append(all, d.connect())
	}
	return all
}

// do has a text's statements done, in a transaction that is given up where one fails, and is
// how many rows the last one but COMMIT has changed.
func do(c connection, text string, variables ...any) (changed int64, err error) {
	for again := true; again; again = err != nil && strings.Contains(err.Error(), "Deadlock") {
		for _, statement := range statements(text, variables...) {
			var n int64
			if _, n, err = c.ask(statement); err != nil {
				c.ask("ROLLBACK")
				break
			}
			if statement != "COMMIT" {
				changed = n
			}
		}
	}
	return changed, err
}

// does is how many rows a statement changes, which must not fail.
func (d *database) does(c connection, text string, variables ...any) int64 {
	changed, err := do(c, text, variables...)
	if err != nil {
		d.Error(err)
	}
	return changed
}

// number is the one that a statement answers.
func (d *database) number(statement string) int {
	d.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(d.says(statement)))
	must(d, err)
	return n
}

// notTwice has everybody do each of three orders.
func notTwice(w withoutTokens, db *database, all []connection) string {
	db.says("CREATE TABLE accounts (owner varchar(20) PRIMARY KEY, balance int NOT NULL)")
	db.says("INSERT INTO accounts VALUES ('alice', 1000)")
	defer db.says("DROP TABLE accounts")
	var done atomic.Int64
	for order := range 3 {
		together(all, func(_ int, c connection) {
			_, err := do(c, w.steps[0].text, "id", fmt.Sprintf("'order %d'", order))
			if err == nil {
				done.Add(1)
			} else if said := strings.ToLower(err.Error()); !strings.Contains(said, "duplicate") && !strings.Contains(said, "unique") {
				db.Error(err)
			}
		})
	}
	return differs("done, and so much less", []int{3, 30}, int(done.Load()), 1000-db.number("SELECT balance FROM accounts"))
}

// once has everybody take each of three jobs. What was taken from somebody who seemed dead is
// ended by who has it then.
func once(w withoutTokens, db *database, all []connection) string {
	takes, ends := w.steps[0].text, w.steps[1].text
	var taken, late, ended atomic.Int64
	for id := range 3 {
		db.says(fmt.Sprintf("INSERT INTO jobs VALUES (%d, 'new', NULL)", id))
		together(all, func(n int, c connection) {
			taken.Add(db.does(c, takes, "id", id, "me", fmt.Sprintf("'worker %d'", n)))
		})
		db.says(fmt.Sprintf("UPDATE jobs SET status = 'new' WHERE id = %d", id))
		taken.Add(db.does(all[0], takes, "id", id, "me", "'another'"))
		together(all, func(n int, c connection) {
			late.Add(db.does(c, ends, "id", id, "me", fmt.Sprintf("'worker %d'", n)))
		})
		ended.Add(db.does(all[0], ends, "id", id, "me", "'another'"))
	}
	return differs("taken, ended too late, and ended", []int{6, 0, 3}, int(taken.Load()), int(late.Load()), int(ended.Load()))
}

// notOver has everybody add one to a page that all have read.
func notOver(w withoutTokens, db *database, all []connection) string {
	writes := w.steps[0].text
	db.says("INSERT INTO pages VALUES (1, '0', 0)")
	var read sync.WaitGroup
	read.Add(clients)
	together(all, func(_ int, c connection) {
		for first := true; ; first = false {
			version, _, err := c.ask("SELECT version FROM pages")
			body, _ := strconv.Atoi(version) // of a page that was changed so often
			if err != nil {
				db.Error(err)
			}
			if first {
				read.Done()
				read.Wait()
			}
			if db.does(c, writes, "id", 1, "version", version, "body", fmt.Sprintf("'%d'", body+1)) == 1 || db.Failed() {
				return
			}
		}
	})
	return differs("added", []int{clients}, db.number("SELECT body FROM pages"))
}

// notBelow has everybody take one of seven.
func notBelow(w withoutTokens, db *database, all []connection) string {
	db.says("INSERT INTO goods VALUES ('apples', 7)")
	var sold atomic.Int64
	together(all, func(_ int, c connection) {
		sold.Add(db.does(c, w.steps[0].text, "sku", "'apples'"))
	})
	return differs("sold, and left", []int{7, 0}, int(sold.Load()), db.number("SELECT n FROM goods"))
}

// differs says what isn't as it should be.
func differs(what string, want []int, got ...int) string {
	if slices.Equal(want, got) {
		return ""
	}
	return fmt.Sprintf("%s: %d, want %d", what, got, want)
}
