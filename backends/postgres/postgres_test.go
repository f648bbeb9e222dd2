package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
	"flockd/backends/stored"
)

// database makes a database, as CREATE DATABASE's options say, and returns its URL.
func database(t testing.TB, server *servers.Process, options string) string {
	t.Helper()
	name := fmt.Sprintf("test%d", numbers.Add(1))
	sql(t, server, servers.PostgresDatabase, fmt.Sprintf("CREATE DATABASE %s TEMPLATE template0 %s", name, options))
	return urlOf(server, name)
}

// numbers make names that no other test has.
var numbers atomic.Int64

func urlOf(server *servers.Process, database string) string {
	return "postgres://postgres@" + server.Addr + "/" + database
}

// sql runs statements as the superuser, and returns the rows of the last one.
func sql(t testing.TB, server *servers.Process, database, text string) [][][]byte {
	t.Helper()
	return run(t, urlOf(server, database), text)
}

// run does so at a URL.
func run(t testing.TB, url, text string) [][][]byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := pgconn.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	results, err := conn.Exec(ctx, text).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if len(results) == 0 {
		return nil
	}
	return results[len(results)-1].Rows
}

// patience is for what takes a second on an idle machine.
const patience = 30 * time.Second

func openURL(t testing.TB, text string) (*stored.Store, error) {
	t.Helper()
	u, err := backends.ParseURL(text)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(t.Context(), u)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { b.Close() })
	return b.(*stored.Store), nil
}

func open(t testing.TB, url string) *stored.Store {
	t.Helper()
	s, err := openURL(t, url)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func request(key string) backends.Request {
	return backends.Request{Key: key, ID: backends.NewID(), Mode: backends.Exclusive, TTL: time.Minute}
}

func queue(key string) backends.Request {
	r := request(key)
	r.Place = 15 * time.Second
	return r
}

func acquire(t testing.TB, s *stored.Store, r backends.Request) backends.Lease {
	t.Helper()
	lease, err := s.Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func held(t testing.TB, s *stored.Store, r backends.Request) *backends.HeldError {
	t.Helper()
	_, err := s.Acquire(t.Context(), r)
	var held *backends.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("Acquire = %v, want held", err)
	}
	return held
}

func renew(t testing.TB, s *stored.Store, lease backends.Lease) {
	t.Helper()
	if _, err := s.Renew(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
}

func release(t testing.TB, s *stored.Store, lease backends.Lease) {
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

// userURL is for who owns the database and has no other right.
func userURL(server *servers.Process) string {
	return fmt.Sprintf("postgres://%s:%s@%s/%s", servers.PostgresUser, servers.PostgresPassword, server.Addr, servers.PostgresDatabase)
}

func wantLost(t testing.TB, err error) {
	t.Helper()
	if !errors.Is(err, backends.ErrLost) {
		t.Errorf("err = %v, want %v", err, backends.ErrLost)
	}
}
