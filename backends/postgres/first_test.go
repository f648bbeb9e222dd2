package postgres

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"flockd/backends"
	"flockd/backends/backendtest"
	"flockd/backends/backendtest/servers"
)

// firstUse: of fifty that are the first to use a database, at once and for one key, one is
// granted it and the others are told so.
func firstUse(t *testing.T, p *servers.Process) {
	url := database(t, p, "") + "?timeout=60s"
	all := make(chan error)
	for range 50 {
		s := open(t, url)
		go func() {
			_, err := s.Acquire(t.Context(), queue("a"))
			all <- err
		}()
	}
	granted := 0
	for range 50 {
		switch err := <-all; {
		case err == nil:
			granted++
		case !errors.Is(err, backends.ErrHeld):
			t.Error(err)
		}
	}
	status, err := open(t, url).Inspect(t.Context(), "a")
	if err != nil || granted != 1 || len(status.Line) != 50 {
		t.Errorf("%d granted, %d in line, %v", granted, len(status.Line), err)
	}
}

// user makes a user without rights in the database of url, and returns its URL there.
func user(t testing.TB, url string) (name, its string) {
	t.Helper()
	name = "user " + backends.NewID()[:8]
	run(t, url, `CREATE ROLE "`+name+`" LOGIN PASSWORD 'secret'`)
	return name, strings.Replace(url, "postgres@", strings.ReplaceAll(name, " ", "%20")+":secret@", 1)
}

// noTables: a user that may not make tables is told who has to.
func noTables(t *testing.T, p *servers.Process) {
	_, its := user(t, database(t, p, ""))
	_, err := open(t, its).Acquire(t.Context(), request("a"))
	wantRefused(t, err, "has no schema flockd, and the user may not make it")
	wantHint(t, err, "flockd schema postgres | psql")
	_, err = open(t, its+"?prefix=team").Acquire(t.Context(), request("a"))
	wantHint(t, err, "flockd schema postgres --prefix team | psql")
}

// noRights: nor may it use what others have made, without being let.
func noRights(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	acquire(t, open(t, url), request("a"))
	name, its := user(t, url)
	for _, grant := range []string{"", "GRANT USAGE ON SCHEMA flockd"} {
		if grant != "" {
			run(t, url, grant+` TO "`+name+`"`)
		}
		_, err := open(t, its).Acquire(t.Context(), request("a"))
		wantRefused(t, err, "the user lacks a right")
		wantHint(t, err, "flockd schema postgres")
	}
}

// schemaForOthers: what an administrator has run, twice, is enough for a user that has no
// other rights.
func schemaForOthers(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	name, its := user(t, url)
	text, err := Schema("team", name)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		psql(t, url, text)
	}
	backendtest.Everything(t, open(t, its+"?prefix=team"))
	psql(t, url, text) // in use
	backendtest.Everything(t, open(t, its+"?prefix=team"))
}

// schemaByItsOwner: who may make nothing but in a schema that is its own makes the rest.
func schemaByItsOwner(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	name, its := user(t, url)
	run(t, url, `CREATE SCHEMA flockd AUTHORIZATION "`+name+`"`)
	backendtest.Everything(t, open(t, its))
}

// psql has the command do a script, as the administrator would.
func psql(t testing.TB, url, script string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", url)
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// foreignTable: a schema of our name that isn't ours is left alone.
func foreignTable(t *testing.T, p *servers.Process) {
	for _, theirs := range []string{
		"CREATE TABLE flockd.claims (k int)", "CREATE TABLE flockd.about (k int)", "CREATE VIEW flockd.keys AS SELECT 1",
	} {
		url := database(t, p, "")
		run(t, url, "CREATE SCHEMA flockd; "+theirs)
		_, err := open(t, url).Acquire(t.Context(), request("a"))
		wantRefused(t, err, "the schema flockd is another program's")
		wantHint(t, err, "?prefix=")
		if rows := run(t, url, "SELECT relname FROM pg_class WHERE relnamespace = 'flockd'::regnamespace"); len(rows) != 1 {
			t.Errorf("%s: %d tables after that", theirs, len(rows))
		}
		backendtest.Everything(t, open(t, url+"?prefix=other"))
	}
}

func newerSchema(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	run(t, url, "CREATE SCHEMA flockd; CREATE TABLE flockd.about (version integer); INSERT INTO flockd.about VALUES (2)")
	_, err := open(t, url).Acquire(t.Context(), request("a"))
	wantRefused(t, err, "the schema flockd was made by a newer flockd (version 2, ")
	wantHint(t, err, "newer flockd")
}

// newerRecords: what a later version has written is refused, whichever step comes upon it,
// and stays as it is.
func newerRecords(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	s := open(t, url)
	once := request("a")
	once.Once = &backends.Once{ID: "run"}
	lease := acquire(t, s, once)
	if err := s.Complete(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	for _, change := range []string{"v = 3", "v = 3, expires = 1"} {
		run(t, url, "UPDATE flockd.claims SET "+change)
		_, err := s.Acquire(t.Context(), queue("a"))
		wantRefused(t, err, "record version 3")
		_, err = s.Renew(t.Context(), lease)
		wantRefused(t, err, "record version 3")
		wantRefused(t, s.Complete(t.Context(), lease), "record version 3")
		wantRefused(t, s.Release(t.Context(), "a", lease.ID, backends.Outcome{}), "record version 3")
		wantRefused(t, s.Ask(t.Context(), "a", lease.ID, backends.Notice{Force: true}), "record version 3")
	}
	run(t, url, "UPDATE flockd.claims SET v = 1, expires = 1; UPDATE flockd.ledger SET v = 4")
	again := request("a")
	again.Once = once.Once
	_, err := s.Acquire(t.Context(), again)
	wantRefused(t, err, "record version 4")
	_, err = s.Completed(t.Context(), "a", "run")
	wantRefused(t, err, "record version 4")
	wantRefused(t, s.Forget(t.Context(), "a", "run"), "record version 4")
	if rows := run(t, url, "SELECT FROM flockd.claims JOIN flockd.ledger USING (key) WHERE ledger.v = 4"); len(rows) != 1 {
		t.Errorf("%d rows are left", len(rows))
	}
	run(t, url, "UPDATE flockd.keys SET v = 5")
	_, err = s.Acquire(t.Context(), request("a"))
	wantRefused(t, err, "record version 5")
}

// unused: who only looks makes nothing.
func unused(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	u, err := backends.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Find(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Inspect(t.Context(), "a")
	var none *backends.UnusedError
	if !errors.As(err, &none) || !errors.Is(err, backends.ErrNotFound) || strings.Contains(none.Address, "secret") {
		t.Errorf("Inspect = %v", err)
	}
	if rows := run(t, url, "SELECT FROM pg_namespace WHERE nspname = 'flockd'"); len(rows) > 0 {
		t.Error("there is a schema")
	}
	acquire(t, open(t, url), request("a"))
	name, its := user(t, url)
	run(t, url, `GRANT USAGE ON SCHEMA flockd TO "`+name+`"; GRANT SELECT ON ALL TABLES IN SCHEMA flockd TO "`+name+`"`)
	if status, err := open(t, its).Inspect(t.Context(), "a"); err != nil || len(status.Line) != 1 {
		t.Errorf("who may only read: %+v, %v", status, err)
	}
}

// login: what is wrong with a URL is said, without the password.
func login(t *testing.T, p *servers.Process) {
	sql(t, p, servers.PostgresDatabase, `CREATE ROLE odd LOGIN PASSWORD 'hunter2@#!/''\'; GRANT CREATE ON DATABASE flockd TO odd`)
	closed := database(t, p, "")
	closed = closed[strings.LastIndexByte(closed, '/')+1:]
	sql(t, p, servers.PostgresDatabase, "REVOKE CONNECT ON DATABASE "+closed+" FROM PUBLIC")
	base := "postgres://odd:hunter2%40%23!%2F'%5C@" + p.Addr + "/flockd?prefix=odd"
	backendtest.Everything(t, open(t, base))
	_, err := open(t, strings.Replace(base, "/flockd?", "/"+closed+"?", 1)).Acquire(t.Context(), request("a"))
	wantHint(t, err, "GRANT CONNECT")
	for url, text := range map[string]string{
		strings.Replace(base, "hunter2", "hunter3", 1):       `refuses the user or password: password authentication failed for user "odd"`,
		strings.Replace(base, ":hunter2", "x:hunter", 1):     "refuses the user or password",
		strings.Replace(base, "/flockd?", "/nodb?", 1):       `database "nodb" does not exist`,
		strings.Replace(base, "/flockd?", "/"+closed+"?", 1): "the user lacks a right: permission denied for database",
		base + "&sslmode=require":                            "speaks no TLS",
	} {
		_, err := open(t, url).Acquire(t.Context(), request("a"))
		wantRefused(t, err, text)
		if err != nil && strings.Contains(err.Error(), "hunter") {
			t.Errorf("it tells the password: %v", err)
		}
	}
}

func wantHint(t testing.TB, err error, text string) {
	t.Helper()
	var refused *backends.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Hint, text) {
		t.Errorf("the hint of %v doesn't say %q", err, text)
	}
}
