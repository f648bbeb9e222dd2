package mysql

import (
	"context"
	_ "embed" // the first schema
	"errors"
	"strings"
	"testing"

	"flockd/backends"
	"flockd/backends/backendtest"
	"flockd/backends/backendtest/servers"
)

// first is what the last flockd without a register printed as its schema, for its user
// 'flockd'@'%'.
//
//go:embed testdata/first.sql
var first string

// registerIsAdded: who may adds the register to what is in use, when it is first used, and waits
// for no other's lock of rows with that; those before it neither see nor undo it.
func registerIsAdded(t *testing.T, p *servers.Process) {
	url := fresh(t, p, "ALL")
	pipe(t, p, databaseIn(url), first)
	s, stranger := open(t, url+"?timeout=20s"), session(t, p, databaseIn(url))
	lease := acquire(t, s, request("a"))
	run(t, stranger, "START TRANSACTION")
	run(t, stranger, "UPDATE flockd_keys SET token = token + 1")
	run(t, stranger, "UPDATE flockd_claims SET told = 1 - told")
	backendtest.Admit(t, s, "a", 7)
	run(t, stranger, "ROLLBACK")
	renew(t, s, lease)
	pipe(t, p, databaseIn(url), first) // as the older program's "flockd schema" does
	backendtest.WantHighest(t, s, "a", 7)
	backendtest.Everything(t, s)
}

// registerIsAddedOnce: of many who use it first at once all are served.
func registerIsAddedOnce(t *testing.T, p *servers.Process) {
	url := fresh(t, p, "ALL")
	pipe(t, p, databaseIn(url), first)
	var all []<-chan error
	for n := range 20 {
		r := backendtest.RegisterOf(t, open(t, url+"?timeout=60s"))
		all = append(all, begin(t, func(ctx context.Context) error { return r.Admit(ctx, "a", backends.Token(1+n)) }))
	}
	for _, done := range all {
		if err := <-done; err != nil && !errors.Is(err, backends.ErrStale) {
			t.Error(err)
		}
	}
	backendtest.WantHighest(t, open(t, url), "a", 20)
}

// registerWithoutRights: who may add nothing to what the first flockd made is told who has to, and
// locks as before; who only looks is told that nothing was admitted.
func registerWithoutRights(t *testing.T, p *servers.Process) {
	const none = "CREATE TEMPORARY TABLES" // so much, to be let into the database
	for _, rights := range []string{none, "SELECT, INSERT, UPDATE, DELETE, EXECUTE"} {
		url := fresh(t, p, rights)
		pipe(t, p, databaseIn(url), first)
		s := open(t, url)
		lease := acquire(t, s, request("a"))
		err := backendtest.RegisterOf(t, s).Admit(t.Context(), "a", 7)
		wantRefused(t, err, "the user lacks a right")
		wantHint(t, err, "flockd schema mysql --grant-to")
		renew(t, s, lease)
		release(t, s, lease)
		root := open(t, "mysql://root@"+p.Addr+"/"+databaseIn(url))
		backendtest.Admit(t, root, "a", 7) // by who may, and that lets in nobody else
		if rights == none {
			wantHint(t, backendtest.RegisterOf(t, s).Admit(t.Context(), "a", 8), "--grant-to")
		}
		text, err := Schema(backends.DefaultPrefix, servers.MariaDBUser)
		if err != nil {
			t.Fatal(err)
		}
		pipe(t, p, databaseIn(url), text)
		backendtest.Everything(t, s)
	}
}

// registerUnused: who only looks adds nothing.
func registerUnused(t *testing.T, p *servers.Process) {
	url := fresh(t, p, "ALL")
	pipe(t, p, databaseIn(url), first)
	u, err := backends.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Find(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = backendtest.RegisterOf(t, s).Highest(t.Context(), "a")
	var none *backends.UnusedError
	if !errors.As(err, &none) || none.Why != "it has no register yet" {
		t.Errorf("Highest = %v", err)
	}
	if tables := says(t, p, "SHOW TABLES IN "+databaseIn(url)+" LIKE '%fences'"); tables != "" {
		t.Errorf("there is %s", tables)
	}
}

// registerOfTheLocked: a token is judged by the one that is there once the row's lock is, also
// where that row is new.
func registerOfTheLocked(t *testing.T, p *servers.Process) {
	url := fresh(t, p, "ALL")
	s := open(t, url+"?timeout=60s")
	backendtest.Admit(t, s, "old", 1)
	for _, resource := range []string{"old", "new"} {
		stranger := session(t, p, databaseIn(url))
		run(t, stranger, "START TRANSACTION")
		run(t, stranger, "INSERT INTO flockd_fences VALUES ('"+resource+"', 1, 9, 1) ON DUPLICATE KEY UPDATE token = 9")
		answered := begin(t, func(ctx context.Context) error { return backendtest.RegisterOf(t, s).Admit(ctx, resource, 8) })
		awaitLock(t, p, "INSERT INTO flockd_fences")
		run(t, stranger, "COMMIT")
		backendtest.WantStale(t, <-answered, 9)
		backendtest.WantHighest(t, s, resource, 9)
	}
}

// newerRegister: what a later version has written is refused, and stays as it is.
func newerRegister(t *testing.T, p *servers.Process) {
	url := fresh(t, p, "ALL")
	s := open(t, url)
	backendtest.Admit(t, s, "a", 7)
	says(t, p, "UPDATE "+databaseIn(url)+".flockd_fences SET v = 3")
	r := backendtest.RegisterOf(t, s)
	for _, token := range []backends.Token{6, 7, 8} {
		wantRefused(t, r.Admit(t.Context(), "a", token), "record version 3")
		wantRefused(t, r.Reset(t.Context(), "a", token, true), "record version 3")
	}
	_, err := r.Highest(t.Context(), "a")
	wantRefused(t, err, "record version 3")
	if row := says(t, p, "SELECT v, token FROM "+databaseIn(url)+".flockd_fences"); row != "3\t7" {
		t.Errorf("it was changed: %q", row)
	}
}

// admitAgain: what was admitted, and the answer lost, is admitted when asked again; and is then
// written again, so that the answer has waited for the disk.
func admitAgain(t *testing.T, p *servers.Process) {
	url := fresh(t, p, "ALL")
	x := servers.Proxy(t, p.Addr)
	s := open(t, strings.Replace(url, p.Addr, x.Addr, 1))
	backendtest.Admit(t, s, "a", 7)
	lost := x.LoseReply([]byte("flockd_admit_1"))
	wantTrouble(t, backendtest.RegisterOf(t, s).Admit(t.Context(), "a", 8), "")
	<-lost
	backendtest.WantHighest(t, open(t, url), "a", 8)
	says(t, p, "UPDATE "+databaseIn(url)+".flockd_fences SET at = at + 3600000000") // the clock was set back since
	at := "SELECT at FROM " + databaseIn(url) + ".flockd_fences"
	before := says(t, p, at)
	backendtest.Admit(t, s, "a", 8)
	if after := says(t, p, at); after <= before {
		t.Errorf("written at %s, and before that at %s", after, before)
	}
}
