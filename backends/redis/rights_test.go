package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

// granted is what docs/stores.md tells to grant to a user, with the rights that it
// names for what not everybody uses. HELLO and AUTH need none.
func granted(t testing.TB) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/stores.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "ACL SETUSER flockd ")
	line, _, _ := strings.Cut(rest, "\n")
	words := strings.Fields(line)
	if !ok || !slices.Contains(words, "-@all") {
		t.Fatalf("docs/stores.md has no line of rights: %q", line)
	}
	for _, more := range []string{"+select", "+wait", "+scan"} {
		if !strings.Contains(rest, "`"+more+"`") {
			t.Errorf("docs/stores.md doesn't say what %s is for", more)
		}
		words = append(words, more)
	}
	return words
}

// user makes a user with these rights and returns a client that is it.
func user(t testing.TB, admin *Store, server *servers.Process, name string, rights []string) *Store {
	t.Helper()
	args := []any{"ACL", "SETUSER", name}
	for _, r := range rights {
		args = append(args, strings.ReplaceAll(r, "PASSWORD", "secret"))
	}
	do(t, admin, args...)
	return open(t, fmt.Sprintf("redis://%s:secret@%s/3?timeout=10s", name, server.Addr))
}

// tour does all that a Store can do, and returns the first error. It waits for its turn
// as long as hearing lasts.
func tour(ctx, hearing context.Context, s *Store) error {
	dead := request("a")
	dead.TTL = time.Microsecond // to be pruned
	holder := request("a")
	waiter := queue("a")
	var answer *backends.HeldError
	once := request("b")
	once.Once = &backends.Once{ID: "v42"}
	var lease backends.Lease
	steps := []func() error{
		func() error { _, err := s.Acquire(ctx, dead); return err },
		func() error { // to be mended
			return s.client.HSet(ctx, s.to.prefix.part("a", "claims"), "x", "y").Err()
		},
		func() error { _, err := s.Acquire(ctx, holder); return err },
		func() error {
			_, err := s.Renew(ctx, backends.Lease{Key: "a", ID: holder.ID, TTL: time.Minute})
			return err
		},
		func() error {
			_, err := s.Acquire(ctx, waiter)
			if !errors.As(err, &answer) {
				return err
			}
			return nil
		},
		func() error { _, err := s.Inspect(ctx, "a"); return err },
		func() error { return s.Ask(ctx, "a", holder.ID, backends.Notice{Kind: backends.Break}) },
		func() error {
			return s.Release(ctx, "a", holder.ID, backends.Outcome{Class: "finished", Success: true})
		},
		func() error { return s.Wait(hearing, answer) },
		func() error { return s.Release(ctx, "a", waiter.ID, backends.Outcome{}) },
		func() (err error) { lease, err = s.Acquire(ctx, once); return err },
		func() error { return s.Complete(ctx, lease) },
		func() error { _, err := s.Completed(ctx, "b", "v42"); return err },
		func() error {
			for _, err := range s.Entries(ctx, "b") {
				return err
			}
			return errors.New("no completed run")
		},
		func() error { return s.Forget(ctx, "b", "v42") },
		func() error { return s.Admit(ctx, "b", 7) },
		func() error { return s.Admit(ctx, "b", 8) },
		func() error { return s.Reset(ctx, "b", 7, true) },
		func() error { _, err := s.Highest(ctx, "b"); return err },
		func() error {
			for _, err := range s.List(ctx, "") {
				return err
			}
			return errors.New("nothing listed")
		},
	}
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// The rights that are documented suffice, and each is needed.
func TestRights(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	admin := open(t, "redis://"+server.Addr)
	rights := granted(t)
	without := func(right string) []string {
		return slices.DeleteFunc(slices.Clone(rights), func(r string) bool { return r == right })
	}
	if err := tour(t.Context(), t.Context(), user(t, admin, server, "all", without("+wait"))); err != nil {
		t.Errorf("with all rights: %v", err)
	}
	do(t, admin, "ACL", "SETUSER", "all", "+wait")
	replicated := open(t, "redis://all:secret@"+server.Addr+"?min-replicas=1&timeout=1s")
	_, err := replicated.Acquire(t.Context(), request("b"))
	wantTrouble(t, err, "0 of 1 replicas")

	for _, right := range rights {
		if !strings.HasPrefix(right, "+") {
			continue
		}
		do(t, admin, "FLUSHALL")
		needs(t, user(t, admin, server, "without"+right, without(right)), right)
	}
}

// needs wants the tour of a user without that right to fail, and to say why.
func needs(t *testing.T, s *Store, right string) {
	t.Helper()
	if right == "+wait" {
		s.to.replicas = 1
	}
	if right == "+rpush" { // a hint, which nobody misses; it doesn't come
		if err := tour(t.Context(), soon(t, 300*time.Millisecond), s); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without %s: %v, want no ring", right, err)
		}
		return
	}
	err := tour(t.Context(), t.Context(), s)
	var refused *backends.RefusedError
	switch {
	case err == nil:
		t.Errorf("%s isn't needed", right)
	case !errors.As(err, &refused), refused.Hint != rightsHint, !strings.Contains(err.Error(), "lacks a right"):
		t.Errorf("without %s: %v (%+v)", right, err, refused)
	case right == "+scan" && !strings.Contains(err.Error(), "SCAN"):
		t.Errorf("without %s: %v", right, err)
	}
}

// Where the server doesn't say how many replicas have a grant, it is given back.
func TestRefusedWaitLeavesNothing(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	admin := open(t, "redis://"+server.Addr)
	user(t, admin, server, "waitless", slices.DeleteFunc(granted(t), func(r string) bool { return r == "+wait" }))
	s := open(t, "redis://waitless:secret@"+server.Addr+"?min-replicas=1")
	_, err := s.Acquire(t.Context(), request("a"))
	wantRefused(t, err, "lacks a right")
	if status := inspect(t, admin, "a"); len(status.Line) > 0 {
		t.Errorf("it left %+v", status.Line)
	}
}

// A key of flockd's that another user may not touch.
func TestOtherNames(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	admin := open(t, "redis://"+server.Addr)
	user(t, admin, server, "narrow", granted(t))
	s := open(t, "redis://narrow:secret@"+server.Addr+"?prefix=other")
	_, err := s.Acquire(t.Context(), request("a"))
	wantRefused(t, err, "lacks a right")
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, "--requirepass", "secret")
	for url, text := range map[string]string{
		"redis://" + server.Addr:                 "wants a password",
		"redis://" + server.Addr + "/1":          "wants a password",
		"redis://:hunter2@" + server.Addr:        "refuses the user or password",
		"redis://u:hunter2@" + server.Addr:       "refuses the user or password",
		"redis://:secret@" + server.Addr + "/99": "has no database 99",
	} {
		_, err := open(t, url).Acquire(t.Context(), request("a"))
		wantRefused(t, err, text)
		if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: a password in %v", url, err)
		}
		if !strings.Contains(err.Error(), "redis://"+server.Addr) {
			t.Errorf("%s: no server in %v", url, err)
		}
	}
	for _, url := range []string{"redis://:secret@" + server.Addr, "redis://default:secret@" + server.Addr + "/1"} {
		acquire(t, open(t, url), request("a"))
	}
}

// What stands before a Redis may know less than that: no HELLO, no blocking, no going
// through all names. Then its role shows with the first write, a Wait fails, so that
// the caller asks every so often, and only List doesn't work.
func TestServerThatKnowsLess(t *testing.T) {
	t.Parallel()
	var args []string
	for _, name := range []string{"HELLO", "BLPOP", "SCAN"} {
		args = append(args, "--rename-command", name, "")
	}
	server := servers.Redis(t, append(args, "--requirepass", "secret")...)
	s := open(t, "redis://:secret@"+server.Addr+"/1")
	lease := acquire(t, s, request("a"))
	waiter := queue("a")
	wantRefused(t, s.Wait(t.Context(), held(t, s, waiter)), "doesn't know a command")
	renew(t, s, lease)
	release(t, s, lease)
	release(t, s, acquire(t, s, waiter))
	lists := 0
	for _, err := range s.List(t.Context(), "") {
		wantRefused(t, err, "listing takes SCAN")
		lists++
	}
	if lists != 1 {
		t.Errorf("%d answers to List, want its refusal", lists)
	}
	_, err := open(t, "redis://:hunter2@"+server.Addr).Acquire(t.Context(), request("a"))
	wantRefused(t, err, "refuses the user or password")
	_, err = open(t, "redis://"+server.Addr).Acquire(t.Context(), request("a"))
	wantRefused(t, err, "wants a password")
	do(t, s, "REPLICAOF", "127.0.0.1", "1")
	_, err = open(t, "redis://:secret@"+server.Addr).Acquire(t.Context(), request("b"))
	wantRefused(t, err, "is a replica")
}
