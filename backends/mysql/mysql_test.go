package mysql

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

// urlOf names a server's database, as its own user.
func urlOf(p *servers.Process) string {
	return "mysql://" + servers.MariaDBUser + ":" + servers.MariaDBPassword + "@" + p.Addr + "/" + servers.MariaDBDatabase
}

// fresh is the URL of a database of its own, in which the user has all rights or those
// that are named.
func fresh(t testing.TB, p *servers.Process, rights string) string {
	t.Helper()
	name := "d" + backends.NewID()[:12]
	says(t, p, "CREATE DATABASE "+name+"; GRANT "+rights+" ON "+name+".* TO "+servers.MariaDBUser+"@'%'")
	return strings.TrimSuffix(urlOf(p), servers.MariaDBDatabase) + name
}

// databaseIn is the name of a URL's database.
func databaseIn(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }

func says(t testing.TB, p *servers.Process, statements string) string {
	t.Helper()
	return servers.MariaDBSays(t, p, statements)
}

// enough is for what takes a second on an idle machine.
const enough = 30 * time.Second

// await asks until done says so, and shows what was said last if it never does.
func await(t testing.TB, what string, done func() (said string, ok bool)) {
	t.Helper()
	for end := time.Now().Add(enough); ; time.Sleep(5 * time.Millisecond) {
		said, ok := done()
		if ok {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s: %s", what, said)
		}
	}
}

func openURL(t testing.TB, text string) (backends.Backend, error) {
	t.Helper()
	u, err := backends.ParseURL(text)
	if err != nil {
		t.Fatal(err)
	}
	if !u.Query.Has("timeout") {
		u.Query.Set("timeout", enough.String()) // a busy machine may take the usual 5 s to make the tables
	}
	s, err := Open(t.Context(), u)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { s.Close() })
	return s, nil
}

func open(t testing.TB, url string) backends.Backend {
	t.Helper()
	s, err := openURL(t, url)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// session is a connection of the test's own, as root.
func session(t testing.TB, p *servers.Process, database string) *sql.Conn {
	t.Helper()
	u, err := backends.ParseURL("mysql://root@" + p.Addr + "/" + database)
	if err != nil {
		t.Fatal(err)
	}
	settings, err := read(u)
	if err != nil {
		t.Fatal(err)
	}
	s := connect(settings)
	t.Cleanup(func() { s.Close() })
	conn, err := s.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// run does a statement.
func run(t testing.TB, conn *sql.Conn, statement string) {
	t.Helper()
	if _, err := conn.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func request(key string) backends.Request {
	return backends.Request{Key: key, ID: backends.NewID(), Mode: backends.Exclusive, TTL: time.Minute}
}

// queue is a request that stands in line.
func queue(key string) backends.Request {
	r := request(key)
	r.Place = time.Minute
	return r
}

func acquire(t testing.TB, s backends.Backend, r backends.Request) backends.Lease {
	t.Helper()
	lease, err := s.Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func held(t testing.TB, s backends.Backend, r backends.Request) *backends.HeldError {
	t.Helper()
	_, err := s.Acquire(t.Context(), r)
	var held *backends.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("Acquire = %v, want a HeldError", err)
	}
	return held
}

func renew(t testing.TB, s backends.Backend, lease backends.Lease) {
	t.Helper()
	if _, err := s.Renew(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
}

func release(t testing.TB, s backends.Backend, lease backends.Lease) {
	t.Helper()
	if err := s.Release(t.Context(), lease.Key, lease.ID, backends.Outcome{Class: "finished", Success: true}); err != nil {
		t.Fatal(err)
	}
}

func wantRefused(t testing.TB, err error, text string) {
	t.Helper()
	if !errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), text) {
		t.Errorf("err = %v, want a refusal that says %q", err, text)
	}
}

// wantTrouble is for an error that may pass.
func wantTrouble(t testing.TB, err error, text string) {
	t.Helper()
	if err == nil || errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), text) {
		t.Errorf("err = %v, want an ordinary error that says %q", err, text)
	}
}

func wantHint(t testing.TB, err error, text string) {
	t.Helper()
	var refused *backends.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Hint, text) {
		t.Errorf("err = %+v, want a hint that says %q", err, text)
	}
}

// begin calls f, and returns what it comes to.
func begin(t testing.TB, f func(context.Context) error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f(t.Context()) }()
	return done
}

// TestServer is what needs a server of no particular kind, each in a database of its own.
func TestServer(t *testing.T) {
	t.Parallel()
	p := servers.MariaDB(t)
	for name, test := range map[string]func(*testing.T, *servers.Process){
		"FirstUse": firstUse, "NoTables": noTables, "NoRights": noRights, "Schema": schemaForOthers, "SchemaForNobody": schemaForNobody,
		"ForeignTable": foreignTable, "NewerSchema": newerSchema, "NewerRecords": newerRecords, "Unused": unused,
		"Login": login, "Deadlock": deadlock, "LockTimeout": lockTimeout, "RenewalWaitsForNobody": renewalWaitsForNobody,
		"ReadersWaitForNobody": readersWaitForNobody, "ManyAtOnce": manyAtOnce,
		"Killed": killed, "Late": late, "Sweep": sweep, "Prefixes": prefixes, "UnixSocket": unixSocket, "TooManyConnections": tooMany,
		"RegisterIsAdded": registerIsAdded, "RegisterIsAddedOnce": registerIsAddedOnce, "RegisterWithoutRights": registerWithoutRights,
		"RegisterUnused": registerUnused, "RegisterOfTheLocked": registerOfTheLocked, "NewerRegister": newerRegister, "AdmitAgain": admitAgain,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}
