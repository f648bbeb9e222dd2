package cmd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/mem"
)

// queryStore runs flockd on a store, with a configuration that is empty.
func queryStore(t *testing.T, store backends.Backend, args ...string) outcome {
	t.Helper()
	find := func(context.Context, *backends.URL) (backends.Backend, error) { return store, nil }
	return queryFound(t, find, args...)
}

func queryFound(t *testing.T, find func(context.Context, *backends.URL) (backends.Backend, error), args ...string) outcome {
	t.Helper()
	return queryMade(t, find, find, args...)
}

// queryMade has open open the store for the commands that would make it, and find for the others.
func queryMade(t *testing.T, find, open func(context.Context, *backends.URL) (backends.Backend, error), args ...string) outcome {
	t.Helper()
	return queryWith(t, []string{"FLOCKD_CONFIG=/dev/null", "FLOCKD_BACKEND=redis://u:hunter2@h/0"}, find, open, args...)
}

// queryWith has an environment of its own.
func queryWith(t *testing.T, env []string, find, open func(context.Context, *backends.URL) (backends.Backend, error), args ...string) outcome {
	t.Helper()
	out, err := tempFile(t), tempFile(t)
	a := &app{
		Streams: Streams{Args: args, Env: env, Stdin: tempFile(t), Stdout: out, Stderr: err, UID: os.Geteuid()},
		files:   os.DirFS(".."),
		lines:   newLines(err),
		find:    find,
		open:    open,
	}
	a.print = newPrinter(a.lines, false, false, false)
	root := a.newRoot()
	root.SetArgs(args)
	code := a.end(root.ExecuteContext(t.Context()))
	a.lines.flush()
	o := outcome{code: code, stdout: content(t, out), stderr: content(t, err)}
	if strings.Contains(o.stdout+o.stderr, "hunter2") {
		t.Errorf("flockd %v shows a secret: %+v", args, o)
	}
	return o
}

// statusStore is a store with the statuses that a test gives it.
type statusStore struct {
	backends.Backend
	statuses []backends.Status
}

func (s statusStore) Inspect(_ context.Context, key string) (backends.Status, error) {
	for _, status := range s.statuses {
		if status.Key == key {
			return status, nil
		}
	}
	return backends.Status{Key: key, AsOf: asOf}, nil
}

func (s statusStore) List(_ context.Context, prefix string) iter.Seq2[backends.Status, error] {
	return func(yield func(backends.Status, error) bool) {
		for _, status := range s.statuses {
			if strings.HasPrefix(status.Key, prefix) && !yield(status, nil) {
				return
			}
		}
	}
}

// take takes k, as change has it.
func take(t *testing.T, store backends.Backend, change func(*backends.Request)) backends.Lease {
	t.Helper()
	req := backends.Request{Key: "k", ID: backends.NewID(), Owner: holder().Owner, Mode: backends.Exclusive, TTL: time.Hour}
	if change != nil {
		change(&req)
	}
	lease, err := store.Acquire(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// waitFor takes a place in line for k, and returns its ID.
func waitFor(t *testing.T, store backends.Backend) string {
	t.Helper()
	id := backends.NewID()
	_, err := store.Acquire(t.Context(), backends.Request{
		Key: "k", ID: id, Owner: backends.Owner{User: "bob", Host: "web1", PID: 12, Command: "deploy.sh"}, Mode: backends.Exclusive, TTL: time.Hour, Place: time.Hour,
	})
	if !errors.Is(err, backends.ErrHeld) {
		t.Fatal(err)
	}
	return id
}

// wantAnswer holds an outcome to an exit code and to one line on stderr, or none, that says text.
func wantAnswer(t *testing.T, o outcome, code int, text string) {
	t.Helper()
	if o.code != code || !strings.Contains(o.stderr, text) || (text == "") != (o.stderr == "") || strings.Count(o.stderr, "\n") > 1 {
		t.Errorf("exit code %d, want %d, and a line with %q:\n%s", o.code, code, text, o.stderr)
	}
}

func TestQueriesRefuse(t *testing.T) {
	store := mem.New()
	for _, c := range []struct {
		args string
		want string
	}{
		{"status a b", "one argument too many: b"},
		{"status --max-age 1h", "--max-age is about one key"},
		{"status -q", "--quiet is about one key"},
		{"status k -q --json", "--quiet and --json contradict"},
		{"status k -q --watch", "--quiet and --watch contradict"},
		{"status k --max-age 1h --json", "--max-age and --json contradict"},
		{"status k --max-age 1h --watch", "--max-age and --watch contradict"},
		{"status k --max-age 0", "too short"},
		{"status k --max-age 1h --max-age 2h", "--max-age is given twice"},
		{"status k --backend nope:", "nope"},
		{"status k --nope", "no flag --nope"},
		{"status " + strings.Repeat("k", 513), "513 bytes"},
		{"list a b", "one argument too many"},
		{"break", "no KEY is given"},
		{"break k", "no reason is given"},
		{"break k --reason=", "--reason is empty"},
		{"break k --reason a\x1bb", "control characters"},
		{"break k --reason " + strings.Repeat("r", 513), "512 bytes"},
		{"break k --reason r --id a --all", "--id and --all contradict"},
		{"break k --reason r --id=", "--id is empty"},
		{"break k --reason r --wait -1s", "negative"},
		{"break k --reason r --force --wait 2m", "--force and --wait 2m contradict each other: by force the key is free at once"},
		{"once", "no command is given"},
		{"once lits", "did you mean flockd once list?"},
		{"once list", "no KEY is given"},
		{"once forget k", "no RUN is given"},
	} {
		find := func(_ context.Context, u *backends.URL) (backends.Backend, error) {
			if u.Scheme == "nope" {
				return nil, backends.BadURL("no backend is called %q", u.Scheme)
			}
			return store, nil
		}
		wantUsage(t, queryFound(t, find, strings.Fields(c.args)...), c.want)
	}
	wantUsage(t, queryStore(t, store, "status", ""), "the key is empty")
}

// unused is a store that tells only when it is asked that nobody has used it.
type unused struct {
	*mem.Store
	err error
}

func (u unused) Inspect(context.Context, string) (backends.Status, error) {
	return backends.Status{}, u.err
}

func (u unused) List(context.Context, string) iter.Seq2[backends.Status, error] {
	return func(yield func(backends.Status, error) bool) { yield(backends.Status{}, u.err) }
}

func (u unused) Entries(context.Context, string) iter.Seq2[backends.Entry, error] {
	return func(yield func(backends.Entry, error) bool) { yield(backends.Entry{}, u.err) }
}

func (u unused) Forget(context.Context, string, string) error { return u.err }

func TestUnusedStore(t *testing.T) {
	err := &backends.UnusedError{Address: "sqlite:///a.db", Why: "no such file"}
	for _, find := range []func(context.Context, *backends.URL) (backends.Backend, error){
		func(context.Context, *backends.URL) (backends.Backend, error) { return nil, err },
		func(context.Context, *backends.URL) (backends.Backend, error) {
			return unused{mem.New(), fmt.Errorf("inspect: %w", err)}, nil
		},
	} {
		wantUnused(t, find)
	}
}

func wantUnused(t *testing.T, find func(context.Context, *backends.URL) (backends.Backend, error)) {
	t.Helper()
	for _, c := range []struct {
		args, stdout, stderr string
		code                 int
	}{
		{"status", "store          sqlite:///a.db (no such file)\nnamed by       FLOCKD_BACKEND\nkeys           none: no key has been used here\n", "", 0},
		{"status --json", `"backend": "sqlite:///a.db"`, "", 0},
		{"status k", "state          free\nstore          sqlite:///a.db (FLOCKD_BACKEND; no such file)\n", "", 0},
		{"status -q k", "", "", 0},
		{"status k --max-age 1h", "UNKNOWN: no success of k is known; store sqlite:///a.db (no such file)\n", "", 3},
		{"list", "", "no key has been used in sqlite:///a.db (no such file)\n", 0},
		{"list -q", "", "", 0},
		{"list a --held", "", "no key that begins with a is held in sqlite:///a.db (no such file)\n", 0},
		{"break k --reason r", "", "k is free", 1},
		{"leader -k k", "k has no leader: nobody has used the store sqlite:///a.db (no such file) yet\n", "", 1},
		{"leader -k k --json", `"leader": null`, "", 1},
		{"resign -k k", "", "k has no leader: nobody has used the store sqlite:///a.db (no such file) yet\n", 1},
		{"once list k", "", "no run of k is recorded in sqlite:///a.db (no such file)\n", 0},
		{"once forget k r", "", `no run "r" of k is recorded in sqlite:///a.db (no such file); flockd once list shows those that are`, 1},
	} {
		o := queryFound(t, find, strings.Fields(c.args)...)
		wantAnswer(t, o, c.code, c.stderr)
		if !strings.Contains(o.stdout, c.stdout) || (c.stdout == "") != (o.stdout == "") {
			t.Errorf("flockd %s: stdout %q", c.args, o.stdout)
		}
	}
}

// failing is a store that fails some times.
type failing struct {
	backends.Backend
	times int
	err   error
}

func (f *failing) fails() error {
	if f.times--; f.times >= 0 {
		return f.err
	}
	return nil
}

func (f *failing) Inspect(ctx context.Context, key string) (backends.Status, error) {
	if err := f.fails(); err != nil {
		return backends.Status{}, err
	}
	return f.Backend.Inspect(ctx, key)
}

func (f *failing) List(ctx context.Context, prefix string) iter.Seq2[backends.Status, error] {
	if err := f.fails(); err != nil {
		return func(yield func(backends.Status, error) bool) { yield(backends.Status{}, err) }
	}
	return f.Backend.List(ctx, prefix)
}

func TestUnavailableStoreIsAskedAgain(t *testing.T) {
	for _, command := range []string{"status k", "status", "list"} {
		o := queryStore(t, &failing{mem.New(), 2, errors.New("no route")}, strings.Fields(command)...)
		if o.code != 0 {
			t.Errorf("flockd %s: %+v", command, o)
		}
		o = queryStore(t, &failing{mem.New(), 1, backends.Refuse("log in", "wrong password")}, strings.Fields(command)...)
		if o.code != 69 || o.stderr != "flockd: the store redis://u:***@h/0 is unavailable: wrong password\nflockd: hint: log in\n" {
			t.Errorf("flockd %s: %+v", command, o)
		}
	}
}

func TestStoreThatStaysAway(t *testing.T) {
	t.Parallel() // it takes as long as the patience
	o := queryStore(t, &failing{mem.New(), 1 << 30, errors.New("dial u:hunter2@h: no route")}, "status", "-q", "k")
	wantAnswer(t, o, 69, "the store redis://u:***@h/0 is unavailable: dial u:***@h: no route")
}

// TestMaxAgeOfAStoreThatRefuses answers in the words and codes of a monitoring.
func TestMaxAgeOfAStoreThatRefuses(t *testing.T) {
	store := func() backends.Backend {
		return &failing{mem.New(), 1, backends.Refuse("log in", "wrong password hunter2\n")}
	}
	const why = "the store redis://u:***@h/0 is unavailable: wrong password ***"
	o := queryStore(t, store(), "status", "k", "--max-age", "1h")
	if o.code != 3 || o.stdout != "UNKNOWN: "+why+"\n" || o.stderr != "" {
		t.Errorf("%+v", o)
	}
	o = queryStore(t, store(), "status", "k", "--max-age", "1h", "-q")
	if o.code != 3 || o.stdout != "" || o.stderr != "flockd: "+why+"\nflockd: hint: log in\n" {
		t.Errorf("-q: %+v", o)
	}
	bad := func(context.Context, *backends.URL) (backends.Backend, error) {
		return nil, backends.BadURL("no such option")
	}
	wantUsage(t, queryFound(t, bad, "status", "k", "--max-age", "1h"), "no such option")
}

func TestStoreWithoutLedger(t *testing.T) {
	for _, args := range [][]string{{"once", "list", "k"}, {"once", "forget", "k", "r"}} {
		wantAnswer(t, queryStore(t, statusStore{}, args...), 69, "the store redis://u:***@h/0 keeps no record of runs")
	}
}
