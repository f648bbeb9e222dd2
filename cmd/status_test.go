package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/mem"
)

// statuses are keys in all states.
func statuses() []backends.Status {
	alice := backends.Owner{User: "alice", Host: "ops1", PID: 77, Command: "flockd"}
	held := holder()
	held.ID, held.Mode, held.Token = strings.Repeat("0a", 16), backends.Exclusive, 1796012345678901
	held.Owner.Note = "release 42"
	held.Notice = backends.Notice{Kind: backends.Break, By: alice, Reason: "hangs"}
	waiter := backends.Claim{
		ID: strings.Repeat("1b", 16), State: backends.Waiting, Mode: backends.Exclusive, Asked: asOf.Add(-4 * time.Minute),
		Owner: backends.Owner{User: "bob", Host: "web1", PID: 12, Command: "deploy.sh", Note: "https://ci/run/7"},
	}
	second := waiter
	second.ID, second.Mode, second.Slots, second.Asked = strings.Repeat("2c", 16), backends.Slots, 3, time.Time{}
	second.Notice = backends.Notice{Kind: backends.Supersede, By: alice}
	first, other := held, held
	first.Mode, first.Slots, first.Slot, first.Notice = backends.Slots, 2, 0, backends.Notice{}
	other = first
	other.ID, other.Slot, other.Token = strings.Repeat("3d", 16), 1, 1796012345678902
	cooling := held
	cooling.State, cooling.Notice, cooling.Renewed = backends.Cooling, backends.Notice{}, time.Time{}
	run := &backends.Run{
		Owner: held.Owner, Token: 1796012345678000, Start: asOf.Add(-2 * time.Hour), End: asOf.Add(-time.Hour), Class: "finished",
	}
	failed := *run
	failed.Token, failed.Class, failed.Exit, failed.End = 1796012345678500, "max-runtime", 143, asOf.Add(-time.Minute)
	broken := failed
	broken.Class, broken.Exit = backends.Broken, 0
	broken.Notice = backends.Notice{Kind: backends.Break, By: alice, Reason: "web2 burnt down", Force: true}
	killed := broken
	killed.Class, killed.Notice = string(classKilled), backends.Notice{}
	return []backends.Status{
		{Key: "broken", AsOf: asOf, Last: &broken, LastSuccess: run},
		{Key: "cooling", AsOf: asOf, Line: []backends.Claim{cooling}, Last: run, LastSuccess: run},
		{Key: "evil", AsOf: asOf, Last: &backends.Run{Class: "x\x1b[2J\ny", Owner: backends.Owner{User: "u\u202e\r", Command: "c\x00"}}},
		{Key: "held", AsOf: asOf, Line: []backends.Claim{held, waiter, second}, Last: &failed},
		{Key: "killed", AsOf: asOf, Last: &killed, LastSuccess: run},
		{Key: "next", AsOf: asOf, Line: []backends.Claim{waiter}},
		{Key: "slots/of a key whose name is longer than its column", AsOf: asOf, Line: []backends.Claim{first, other}},
	}
}

// wantGolden compares text with a file, which -update writes.
func wantGolden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != text {
		t.Errorf("%s (%v) is not\n%s", path, err, text)
	}
	if strings.ContainsAny(text, "\x1b\r\x00\u202e") {
		t.Errorf("%s has control characters", name)
	}
}

func TestStatusOutput(t *testing.T) {
	inZone(t)
	var text, objects strings.Builder
	for _, status := range statuses() {
		for out, args := range map[*strings.Builder][]string{&text: {"status", status.Key}, &objects: {"status", "--json", status.Key}} {
			o := queryStore(t, statusStore{statuses: statuses()}, args...)
			if o.code != 0 || o.stderr != "" {
				t.Errorf("%+v", o)
			}
			fmt.Fprintf(out, "%s\n", o.stdout)
		}
	}
	wantGolden(t, "status.txt", text.String())
	wantGolden(t, "status.json", objects.String())
}

func TestListOutput(t *testing.T) {
	inZone(t)
	store := statusStore{statuses: statuses()}
	wantGolden(t, "list.txt", queryStore(t, store, "list").stdout)
	wantGolden(t, "list.json", queryStore(t, store, "list", "--json").stdout)
	wantGolden(t, "held.txt", queryStore(t, store, "list", "--held").stdout)
	if o := queryStore(t, store, "list", "he"); strings.Count(o.stdout, "\n") != 2 || !strings.Contains(o.stdout, "\nheld ") {
		t.Errorf("list he: %+v", o)
	}
}

func TestStoreOutput(t *testing.T) {
	store := statusStore{statuses: statuses()}
	wantGolden(t, "store.txt", queryStore(t, store, "status").stdout)
	wantGolden(t, "store.json", queryStore(t, store, "status", "--json").stdout)
}

// TestJSONShape finds a field that is left out.
func TestJSONShape(t *testing.T) {
	fields := map[string]int{}
	for line := range strings.Lines(queryStore(t, statusStore{statuses: statuses()}, "list", "--json").stdout) {
		var key map[string]any
		if err := json.Unmarshal([]byte(line), &key); err != nil {
			t.Fatal(err)
		}
		fields["key"] |= 1 << len(key)
		for _, list := range []string{"holders", "waiters"} {
			for _, claim := range key[list].([]any) {
				fields["claim"] |= 1 << len(claim.(map[string]any))
			}
		}
		for _, run := range []string{"last_run", "last_success"} {
			if run, ok := key[run].(map[string]any); ok {
				fields["run"] |= 1 << len(run)
			}
		}
	}
	for what, want := range map[string]int{"key": 7, "claim": 12, "run": 7} {
		if fields[what] != 1<<want {
			t.Errorf("a %s has not always %d fields: %b", what, want, fields[what])
		}
	}
}

func TestStatusQuiet(t *testing.T) {
	for key, want := range map[string]int{"held": 1, "cooling": 1, "next": 1, "broken": 0, "unknown": 0} {
		wantAnswer(t, queryStore(t, statusStore{statuses: statuses()}, "status", "-q", key), want, "")
	}
}

func TestMaxAge(t *testing.T) {
	inZone(t)
	store := statusStore{statuses: statuses()}
	const (
		last = " last succeeded 1h ago, at 2026-11-29 03:00:02 +0800, run by root@web2 (pid 4711, report.sh)"
		in   = "; store redis://u:***@h/0\n"
	)
	for _, c := range []struct {
		key, most string
		code      int
		text      string
	}{
		{"cooling", "1h", 0, "OK: cooling" + last + in},
		{"broken", "1h", 0, "OK: broken" + last + "; its last run, 1m ago, was broken by alice@ops1 (pid 77, flockd): web2 burnt down" + in},
		{"broken", "3599", 2, "CRITICAL: broken" + last + "; 59m59s at most; its last run, 1m ago, was broken by alice@ops1 (pid 77, flockd): web2 burnt down" + in},
		{"held", "1h", 3, "UNKNOWN: no success of held is known; its last run, 1m ago, didn't succeed (max-runtime, exit 143)" + in},
		{"next", "1h", 3, "UNKNOWN: no success of next is known" + in},
	} {
		o := queryStore(t, store, "status", c.key, "--max-age", c.most)
		if o.code != c.code || o.stdout != c.text || o.stderr != "" {
			t.Errorf("%s: %+v", c.key, o)
		}
		o = queryStore(t, store, "status", c.key, "--max-age", c.most, "-q")
		if o.code != c.code || o.stdout != "" {
			t.Errorf("%s -q: %+v", c.key, o)
		}
	}
}

// TestManyKeys lists as many keys as a store may have.
func TestManyKeys(t *testing.T) {
	store := statusStore{}
	for i := range 10_000 {
		store.statuses = append(store.statuses, backends.Status{Key: fmt.Sprintf("key/%05d", i), AsOf: asOf, Line: []backends.Claim{holder()}})
	}
	for _, args := range [][]string{{"list"}, {"list", "--json"}} {
		o := queryStore(t, store, args...)
		if n := strings.Count(o.stdout, "key/"); n != 10_000 || o.code != 0 {
			t.Errorf("%v: %d keys, exit code %d", args, n, o.code)
		}
	}
	if o := queryStore(t, store, "status"); !strings.Contains(o.stdout, "10000: 10000 held\n") {
		t.Errorf("%+v", o)
	}
}

func TestClosedOutput(t *testing.T) {
	if code := (&app{}).end(fmt.Errorf("write: %w", os.NewSyscallError("write", syscall.EPIPE))); code != 141 {
		t.Errorf("exit code %d", code)
	}
}

func TestOnceListAndForget(t *testing.T) {
	inZone(t)
	store := mem.New()
	for run, keep := range map[string]time.Duration{"2026-11-29": time.Hour, "import/7": 0} {
		lease := take(t, store, func(r *backends.Request) { r.Once = &backends.Once{ID: run, Keep: keep} })
		if err := errors.Join(store.Complete(t.Context(), lease), store.Release(t.Context(), "k", lease.ID, backends.Outcome{})); err != nil {
			t.Fatal(err)
		}
	}
	o := queryStore(t, store, "once", "list", "k")
	if !strings.Contains(o.stdout, "RUN         SUCCEEDED") || !strings.Contains(o.stdout, "for ever") || !strings.Contains(o.stdout, "root@web2 (pid 4711, report.sh)") {
		t.Errorf("%+v", o)
	}
	var v map[string]any
	line, _, _ := strings.Cut(queryStore(t, store, "once", "list", "k", "--json").stdout, "\n")
	if err := json.Unmarshal([]byte(line), &v); err != nil || len(v) != 6 || v["key"] != "k" {
		t.Errorf("%v: %s", err, line)
	}
	wantAnswer(t, queryStore(t, store, "once", "forget", "k", "import/7"), 0, `forgot run "import/7" of k: it may run again`)
	wantAnswer(t, queryStore(t, store, "once", "forget", "k", "import/7"), 1, `no run "import/7" of k is recorded in redis://u:***@h/0; flockd once list shows those that are`)
	wantAnswer(t, queryStore(t, store, "once", "forget", "-q", "k", "2026-11-29"), 0, "")
	wantAnswer(t, queryStore(t, store, "once", "list", "k"), 0, "no run of k is recorded")
}
