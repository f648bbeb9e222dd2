//go:build linux

package testscripts

import (
	"errors"
	"strings"
	"testing"
)

// refusal wants a statement to fail, and to say so.
func (d *database) refusal(c connection, statement, says string) {
	d.Helper()
	if _, _, err := c.ask(statement); err == nil || !strings.Contains(err.Error(), says) {
		d.Errorf("%s: %v, want %q", statement, err, says)
	}
}

// allows wants statements to succeed.
func (d *database) allows(c connection, statements ...string) {
	d.Helper()
	for _, statement := range statements {
		if _, _, err := c.ask(statement); err != nil {
			d.Errorf("%s: %v", statement, err)
		}
	}
}

// sees wants a number as the answer to a question.
func (d *database) sees(question string, want int) {
	d.Helper()
	if got := d.number(question); got != want {
		d.Errorf("%s: %d, want %d", question, got, want)
	}
}

// triggers are shown to refuse all that writes without a token, or with a stale one, and
// to admit an equal one. sets has %s for the token.
func triggers(db *database, sets, missing string, writes ...string) {
	c := db.connect()
	for _, write := range writes {
		db.refusal(c, write, missing)
	}
	db.allows(c, "CALL fence('stock', 57)", strings.Replace(sets, "%s", "41", 1))
	for _, write := range writes {
		db.refusal(c, write, "stale token 41 for stock, which has seen 57")
	}
	db.allows(c, strings.Replace(sets, "%s", "57", 1))
	db.allows(c, writes...)
}

// postgresEdges is what the page says of PostgreSQL beside the recipes.
func postgresEdges(t *testing.T, open databases, setup string) {
	db := open(t, folder(t))
	db.says(stockTable + setup)
	triggers(db, "SET flockd.token = '%s'", "no token for stock",
		"INSERT INTO stock VALUES ('pears', 1)", "UPDATE stock SET n = 2", "DELETE FROM stock WHERE n = 3", "TRUNCATE stock")

	postgresReads(db)
	postgresChildren(db)
	early, late := db.connect(), db.connect()
	db.allows(late, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT * FROM fences")
	db.allows(early, "CALL fence('stock', 61)")
	db.refusal(late, "CALL fence('stock', 62)", "40001")
	db.allows(late, "ROLLBACK")

	db.allows(early, "BEGIN", "CALL fence('stock', 63)", "SET idle_in_transaction_session_timeout = '100ms'")
	db.allows(late, "CALL fence('stock', 64)")
	if _, _, err := early.ask("COMMIT"); err == nil {
		db.Error("who was ended in its transaction has committed")
	}
}

// postgresChildren: the trigger of a table isn't asked when the statement names its parent.
func postgresChildren(db *database) {
	c := db.connect()
	db.allows(c, "CREATE TABLE shops (sku varchar(20), n bigint)", "SET flockd.token = '60'", "INSERT INTO stock VALUES ('kiwis', 1)", "ALTER TABLE stock INHERIT shops")
	db.allows(c, "SET flockd.token = '41'", "UPDATE shops SET n = 2 WHERE sku = 'kiwis'")
	db.sees("SELECT n FROM stock WHERE sku = 'kiwis'", 2)
	db.allows(c, "CREATE TRIGGER fenced BEFORE UPDATE ON shops FOR EACH STATEMENT EXECUTE FUNCTION fenced('stock')")
	db.refusal(c, "UPDATE shops SET n = 3", "stale token 41")
	db.allows(c, "DROP TABLE shops CASCADE")
}

// postgresReads: a statement that waits in its trigger doesn't see what it has waited for, and
// one after the call does.
func postgresReads(db *database) {
	early, late := db.connect(), db.connect()
	db.says("CREATE TABLE items (n int)")
	db.allows(late, "SET flockd.token = '60'", "INSERT INTO stock VALUES ('apples', 0)")
	for token, statements := range map[string][]string{
		"58": {"UPDATE stock SET n = (SELECT count(*) FROM items)"},
		"59": {"CALL fence('stock', 60)", "UPDATE stock SET n = (SELECT count(*) FROM items)"},
	} {
		db.says("DELETE FROM items; UPDATE fences SET token = 57")
		db.allows(early, "BEGIN", "CALL fence('stock', "+token+")", "INSERT INTO items VALUES (1)")
		done := make(chan struct{})
		go func() { defer close(done); db.allows(late, statements...) }()
		until(db, "a wait", func() bool {
			return db.number("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_stat_activity WHERE usename = current_user)") > 0
		})
		db.allows(early, "COMMIT")
		<-done
		db.sees("SELECT n FROM stock", len(statements)-1)
	}
}

// mysqlEdges is what the page says of MySQL beside the recipes.
func mysqlEdges(t *testing.T, open databases, setup string) {
	db := open(t, folder(t))
	db.says(stockTable + setup)
	triggers(db, "SET @token = %s", "Column 'token' cannot be null",
		"INSERT INTO stock VALUES ('pears', 1)", "UPDATE stock SET n = n + 1", "DELETE FROM stock WHERE sku = 'apples'")

	c := db.connect()
	db.allows(c, "SET @token = 57", "INSERT INTO stock VALUES ('plums', 1)", "BEGIN", "UPDATE stock SET n = 2 WHERE sku = 'plums'")
	db.refusal(c, "CALL fence('stock', 41)", "stale token 41")
	db.allows(c, "COMMIT")
	db.sees("SELECT n FROM stock WHERE sku = 'plums'", 2)
	if _, changed, err := c.ask("UPDATE stock SET n = 2 WHERE sku = 'plums'"); err != nil || changed != 0 {
		t.Errorf("an update to equal values: %d, %v", changed, err)
	}

	mysqlCascade(db)
	mysqlKeys(db)
	mysqlSnapshot(db)
	early, late := db.connect(), db.connect()
	db.allows(early, "BEGIN", "CALL fence('stock', 60)", "SET SESSION wait_timeout = 1")
	db.allows(late, "CALL fence('stock', 61)")
	if _, _, err := early.ask("COMMIT"); err == nil {
		t.Error("who was ended in its transaction has committed")
	}
}

// mysqlCascade: what a foreign key deletes goes past the triggers.
func mysqlCascade(db *database) {
	c := db.connect()
	db.allows(c, "CREATE TABLE shops (id int PRIMARY KEY)", "INSERT INTO shops VALUES (1)",
		"ALTER TABLE stock ADD shop int DEFAULT 1, ADD FOREIGN KEY (shop) REFERENCES shops (id) ON DELETE CASCADE",
		"SET @token = 41", "DELETE FROM shops")
	db.sees("SELECT count(*) FROM stock", 0)
}

// mysqlKeys: a varchar is no key for what is done once, and a varbinary is.
func mysqlKeys(db *database) {
	c := db.connect()
	db.allows(c, "CREATE TABLE done (id varchar(3) PRIMARY KEY)", "INSERT INTO done VALUES ('a1')", "SET sql_mode = ''", "INSERT INTO done VALUES ('b123')")
	db.refusal(c, "INSERT INTO done VALUES ('A1')", "Duplicate")
	db.refusal(c, "INSERT INTO done VALUES ('b124')", "Duplicate")
	db.allows(c, "ALTER TABLE done MODIFY id varbinary(512)", "INSERT INTO done VALUES ('A1')", "INSERT INTO done VALUES ('b124')")
}

// mysqlSnapshot: the fence isn't what it was when the transaction began to read.
func mysqlSnapshot(db *database) {
	early, late := db.connect(), db.connect()
	db.allows(late, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "BEGIN", "SELECT token FROM fences")
	db.allows(early, "CALL fence('stock', 59)")
	if _, _, err := late.ask("CALL fence('stock', 58)"); err == nil {
		db.Error("who read before a larger token came was let in after it")
	}
	db.allows(late, "ROLLBACK")
}

// sqliteEdges is what the page says of SQLite beside the recipe, and what it says of all: who
// doesn't raise the token before the read overwrites what an older holder could write.
func sqliteEdges(t *testing.T, w fencedWriter) {
	db := sqliteDatabase(t, folder(t))
	db.says(stockTable + w.setup.text)
	older, newer := db.sinks(t, w)(), db.sinks(t, w)()
	for token, s := range []sink{older, newer} {
		must(t, s.write(int64(41+token), 1))
	}
	db.sees("SELECT n FROM stock", 1)
	for token, s := range []sink{older, newer} {
		_, err := s.begin(int64(43 + token))
		must(t, err)
	}
	if err := older.write(43, 2); !errors.Is(err, errStale) {
		t.Errorf("the write of a holder that isn't the newest: %v", err)
	}
	c := db.connect()
	db.refusal(c, "INSERT INTO fences VALUES ('stock', '') ON CONFLICT (resource) DO UPDATE SET token = excluded.token", "cannot store TEXT")
	db.allows(c, "INSERT OR REPLACE INTO fences VALUES ('stock', 1)")
	db.sees("SELECT token FROM fences", 1)
}
