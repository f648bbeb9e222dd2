package mysql

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest"
	"flockd/backends/backendtest/servers"
)

// firstUse: of fifty that are the first to use a database, at once and for one key, one is
// granted it and the others are told so.
func firstUse(t *testing.T, p *servers.Process) {
	url := fresh(t, p, "ALL") + "?timeout=60s"
	var all []<-chan error
	for range 50 {
		s := open(t, url)
		all = append(all, begin(t, func(ctx context.Context) error {
			_, err := s.Acquire(ctx, queue("a"))
			return err
		}))
	}
	granted := 0
	for _, done := range all {
		switch err := <-done; {
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

// noTables: a user that may not make tables is told who has to.
func noTables(t *testing.T, p *servers.Process) {
	for _, rights := range []string{
		"SELECT, INSERT, UPDATE, DELETE, EXECUTE",
		"SELECT, INSERT, UPDATE, DELETE, EXECUTE, CREATE",
	} {
		url := fresh(t, p, rights)
		_, err := open(t, url).Acquire(t.Context(), request("a"))
		wantRefused(t, err, "the user lacks a right")
		wantHint(t, err, "flockd schema mysql --grant-to")
		_, err = open(t, url+"?prefix=team").Acquire(t.Context(), request("a"))
		wantHint(t, err, "flockd schema mysql --prefix team --grant-to")
	}
}

// noRights: nor may it use what others have made, without being let.
func noRights(t *testing.T, p *servers.Process) {
	url := fresh(t, p, "CREATE TEMPORARY TABLES")
	pipe(t, p, databaseIn(url), plainSchema(t))
	_, err := open(t, url).Acquire(t.Context(), request("a"))
	wantRefused(t, err, "the user lacks a right")
	wantHint(t, err, "flockd schema mysql")
}

// schemaForOthers: what an administrator has run, twice, is enough for a user that has no
// other rights.
func schemaForOthers(t *testing.T, p *servers.Process) {
	url := fresh(t, p, "CREATE TEMPORARY TABLES") // so much, to be let into the database
	text, err := Schema("team", servers.MariaDBUser)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		pipe(t, p, databaseIn(url), text)
	}
	backendtest.Everything(t, open(t, url+"?prefix=team"))
}

// schemaForNobody: a user that isn't there is an error to the administrator. MariaDB would make
// it, without a password.
func schemaForNobody(t *testing.T, p *servers.Process) {
	text, err := Schema(backends.DefaultPrefix, "nobody")
	if err != nil {
		t.Fatal(err)
	}
	out, err := piping(p, databaseIn(fresh(t, p, "ALL")), text).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "find any matching row in the user table") {
		t.Errorf("%v: %s", err, out)
	}
	if n := says(t, p, "SELECT COUNT(*) FROM mysql.user WHERE User = 'nobody'"); strings.TrimSpace(n) != "0" {
		t.Errorf("there are %s of that user", n)
	}
}

func plainSchema(t testing.TB) string {
	t.Helper()
	text, err := Schema(backends.DefaultPrefix, "root@%")
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ = strings.Cut(text, "GRANT ")
	return text
}

// pipe has the command mariadb do the statements, as the administrator would.
func pipe(t testing.TB, p *servers.Process, database, statements string) {
	t.Helper()
	if out, err := piping(p, database, statements).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func piping(p *servers.Process, database, statements string) *exec.Cmd {
	host, port, _ := net.SplitHostPort(p.Addr)
	cmd := exec.Command("mariadb", "--no-defaults", "--user=root", "--host="+host, "--port="+port, database)
	cmd.Stdin = strings.NewReader(statements)
	return cmd
}

// foreignTable: a table of one of our names that isn't ours is left alone.
func foreignTable(t *testing.T, p *servers.Process) {
	url := fresh(t, p, "ALL")
	says(t, p, "CREATE TABLE "+databaseIn(url)+".flockd_keys (k INT)")
	_, err := open(t, url).Acquire(t.Context(), request("a"))
	wantRefused(t, err, "the table flockd_keys is none of flockd's")
	wantHint(t, err, "?prefix=")
	acquire(t, open(t, url+"?prefix=other"), request("a"))
}

func newerSchema(t *testing.T, p *servers.Process) {
	url := fresh(t, p, "ALL")
	says(t, p, "CREATE TABLE "+databaseIn(url)+".flockd_keys (k INT) COMMENT 'flockd schema 2'")
	_, err := open(t, url).Acquire(t.Context(), request("a"))
	wantRefused(t, err, "the table flockd_keys is of a newer flockd")
	wantHint(t, err, "newer flockd")
}

// newerRecords: what a later version has written is refused, whichever step comes upon it,
// and stays as it is.
func newerRecords(t *testing.T, p *servers.Process) {
	url := fresh(t, p, "ALL")
	s := open(t, url)
	ledger, _ := backends.As[backends.Ledger](s)
	once := request("a")
	once.Once = &backends.Once{ID: "run"}
	lease := acquire(t, s, once)
	if err := ledger.Complete(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	for _, change := range []string{"v = 3", "v = 3, expires = 1, ends = 1"} {
		says(t, p, "UPDATE "+databaseIn(url)+".flockd_claims SET "+change)
		_, err := s.Acquire(t.Context(), queue("a"))
		wantRefused(t, err, "record version 3")
		_, err = s.Renew(t.Context(), lease)
		wantRefused(t, err, "record version 3")
		wantRefused(t, ledger.Complete(t.Context(), lease), "record version 3")
		wantRefused(t, s.Release(t.Context(), "a", lease.ID, backends.Outcome{}), "record version 3")
		wantRefused(t, s.Ask(t.Context(), "a", lease.ID, backends.Notice{Force: true}), "record version 3")
	}
	says(t, p, "UPDATE "+databaseIn(url)+".flockd_claims SET v = 1, ends = 1, expires = 1; UPDATE "+databaseIn(url)+".flockd_ledger SET v = 4")
	again := request("a")
	again.Once = once.Once
	_, err := s.Acquire(t.Context(), again)
	wantRefused(t, err, "record version 4")
	_, err = ledger.Completed(t.Context(), "a", "run")
	wantRefused(t, err, "record version 4")
	wantRefused(t, ledger.Forget(t.Context(), "a", "run"), "record version 4")
}

// unused: who only looks makes nothing.
func unused(t *testing.T, p *servers.Process) {
	url := fresh(t, p, "ALL")
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
	if !errors.As(err, &none) || none.Address != "mysql://"+p.Addr+"/"+databaseIn(url) {
		t.Errorf("Inspect = %v", err)
	}
	if tables := says(t, p, "SHOW TABLES IN "+databaseIn(url)); tables != "" {
		t.Errorf("there are tables: %s", tables)
	}
	acquire(t, open(t, url), request("a"))
	if status, err := s.Inspect(t.Context(), "a"); err != nil || len(status.Line) != 1 {
		t.Errorf("%+v, %v", status, err)
	}
}

// login: what is wrong with a URL is said, without the password.
func login(t *testing.T, p *servers.Process) {
	const password = "hunter2@#!/'\\"
	says(t, p, "CREATE USER odd@'%' IDENTIFIED BY 'hunter2@#!/''\\\\'; GRANT ALL ON flockd.* TO odd@'%'")
	base := "mysql://odd:hunter2%40%23%21%2F%27%5C@" + p.Addr + "/flockd?prefix=odd"
	acquire(t, open(t, base), request("a"))
	for url, text := range map[string]string{
		strings.Replace(base, "hunter2", "hunter3", 1):  "refuses the user or password: Access denied for user 'odd'@",
		strings.Replace(base, "/flockd?", "/nodb?", 1):  "the user lacks a right",
		strings.Replace(base, "/flockd?", "/mysql?", 1): "the user lacks a right",
		"mysql://root@" + p.Addr + "/nodb":              `has no database "nodb"`,
		base + "&tls=true":                              "has no TLS",
	} {
		_, err := open(t, url).Acquire(t.Context(), request("a"))
		wantRefused(t, err, text)
		if err != nil && (strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "hunter")) {
			t.Errorf("it tells the password: %v", err)
		}
	}
	backendtest.Everything(t, open(t, base+"&tls=preferred"))
}

// prefixes: what is under one is nothing to who uses another.
func prefixes(t *testing.T, p *servers.Process) {
	url := fresh(t, p, "ALL")
	acquire(t, open(t, url), request("a"))
	acquire(t, open(t, url+"?prefix=team_b"), request("a"))
	held(t, open(t, url), request("a"))
}

func unixSocket(t *testing.T, p *servers.Process) {
	backendtest.Everything(t, open(t, "mysql+unix://root@"+p.Dir+"/data/s?db=flockd&prefix=socket"))
}

// tooMany: a server with no connection to spare is unavailable, and not for good.
func tooMany(t *testing.T, p *servers.Process) {
	says(t, p, "CREATE USER few@'%' IDENTIFIED BY 'secret' WITH MAX_USER_CONNECTIONS 1; GRANT ALL ON flockd.* TO few@'%'")
	url := "mysql://few:secret@" + p.Addr + "/flockd?prefix=few"
	s := open(t, url)
	renews := func(s backends.Backend) func() (string, bool) {
		return func() (string, bool) {
			_, err := s.Renew(t.Context(), backends.Lease{Key: "a", ID: "none", TTL: time.Minute})
			return fmt.Sprint(err), errors.Is(err, backends.ErrLost)
		}
	}
	await(t, "an answer", renews(s)) // the connection that made the tables may not be gone at once
	_, err := open(t, url).Acquire(t.Context(), request("b"))
	wantTrouble(t, err, "has all the connections that it takes")
	s.Close()
	await(t, "a connection to spare", renews(open(t, url)))
}
