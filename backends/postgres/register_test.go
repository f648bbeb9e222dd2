package postgres

import (
	_ "embed" // the first schema
	"errors"
	"strings"
	"testing"

	"flockd/backends"
	"flockd/backends/backendtest"
	"flockd/backends/backendtest/servers"
	"flockd/backends/stored"
)

// first is what the last flockd without a register printed as its schema.
//
//go:embed testdata/first.sql
var first string

// makeFirst has an administrator make the first schema in url's database, for a user.
func makeFirst(t *testing.T, url, user string) {
	t.Helper()
	psql(t, url, strings.ReplaceAll(first, `TO "flockd"`, `TO "`+user+`"`))
}

// registerIsAdded: who may adds the register to a schema that is in use, when it is first used,
// and waits for no other's lock with that; those before it neither see nor undo it.
func registerIsAdded(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	makeFirst(t, url, "postgres")
	s := open(t, url+"?timeout=20s")
	lease := acquire(t, s, request("a"))
	other := session(t, url)
	other.does("BEGIN; UPDATE flockd.keys SET token = token; UPDATE flockd.claims SET told = told; LOCK flockd.ledger IN ROW EXCLUSIVE MODE")
	backendtest.Admit(t, s, "a", 7)
	other.does("COMMIT")
	renew(t, s, lease)
	makeFirst(t, url, "postgres") // as the older program's "flockd schema" does
	backendtest.WantHighest(t, s, "a", 7)
	backendtest.Everything(t, s)
}

// registerIsAddedOnce: of many who use it first at once all are served.
func registerIsAddedOnce(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	makeFirst(t, url, "postgres")
	all := make(chan error)
	for n := range 20 {
		s := open(t, url+"?timeout=60s")
		go func() { all <- s.Admit(t.Context(), "a", backends.Token(1+n)) }()
	}
	for range 20 {
		if err := <-all; err != nil && !errors.Is(err, backends.ErrStale) {
			t.Error(err)
		}
	}
	backendtest.WantHighest(t, open(t, url), "a", 20)
}

// registerWithoutRights: who may add nothing to the first schema is told who has to, and locks as
// before; who only looks is told that nothing was admitted.
func registerWithoutRights(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	name, its := user(t, url)
	makeFirst(t, url, name)
	s := open(t, its)
	lease := acquire(t, s, request("a"))
	err := s.Admit(t.Context(), "a", 7)
	wantRefused(t, err, "has no register in its schema flockd, and the user may not make it")
	wantHint(t, err, "flockd schema postgres | psql")
	_, err = s.Highest(t.Context(), "a")
	wantHint(t, err, "flockd schema postgres | psql")
	_, err = find(t, its).Highest(t.Context(), "a")
	var none *backends.UnusedError
	if !errors.As(err, &none) || none.Why != "it has no register yet" {
		t.Errorf("Highest = %v", err)
	}
	renew(t, s, lease)
	release(t, s, lease)
	run(t, url, "DROP FUNCTION flockd.renew_1") // which is no reason to add the register
	_, err = s.Renew(t.Context(), lease)
	wantRefused(t, err, "the schema flockd is incomplete")
	backendtest.Admit(t, open(t, url), "a", 7) // by who may, and that lets in nobody else
	err = s.Admit(t.Context(), "a", 8)
	wantRefused(t, err, "the user lacks a right")
	wantHint(t, err, "--grant-to")
	text, err := Schema(backends.DefaultPrefix, name)
	if err != nil {
		t.Fatal(err)
	}
	psql(t, url, text)
	backendtest.Everything(t, s)
}

// registerOfTheLocked: a token is judged by the one that is there once the row's lock is, also
// where that row is new.
func registerOfTheLocked(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	s := open(t, url+"?timeout=60s")
	backendtest.Admit(t, s, "old", 1)
	for _, resource := range []string{"old", "new"} {
		other := session(t, url)
		other.does(`BEGIN; INSERT INTO flockd.fences VALUES (convert_to('%s', 'UTF8'), 1, 9, 1) ON CONFLICT (resource) DO UPDATE SET token = 9`, resource)
		answered := begin(func() error { return s.Admit(t.Context(), resource, 8) })
		awaitLock(t, url, 0)
		other.does("COMMIT")
		backendtest.WantStale(t, <-answered, 9)
		backendtest.WantHighest(t, s, resource, 9)
	}
}

// newerRegister: what a later version has written is refused, and stays as it is.
func newerRegister(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	s := open(t, url)
	backendtest.Admit(t, s, "a", 7)
	run(t, url, "UPDATE flockd.fences SET v = 3")
	for _, token := range []backends.Token{6, 7, 8} {
		wantRefused(t, s.Admit(t.Context(), "a", token), "record version 3")
		wantRefused(t, s.Reset(t.Context(), "a", token, true), "record version 3")
	}
	_, err := s.Highest(t.Context(), "a")
	wantRefused(t, err, "record version 3")
	if rows := run(t, url, "SELECT FROM flockd.fences WHERE v = 3 AND token = 7"); len(rows) != 1 {
		t.Error("it was changed")
	}
}

// admitAgain: what was admitted, and the answer lost, is admitted when asked again.
func admitAgain(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	x := servers.Proxy(t, p.Addr)
	s := open(t, strings.Replace(url, p.Addr, x.Addr, 1))
	backendtest.Admit(t, s, "a", 7)
	lost := x.LoseReply([]byte("admit_1"))
	wantTrouble(t, s.Admit(t.Context(), "a", 8), "")
	<-lost
	backendtest.WantHighest(t, open(t, url), "a", 8)
	backendtest.Admit(t, s, "a", 8)
}

// find opens a store that makes nothing.
func find(t testing.TB, url string) *stored.Store {
	t.Helper()
	u, err := backends.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Find(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b.(*stored.Store)
}
