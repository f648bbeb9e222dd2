package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/mem"
)

func TestLeaderOutput(t *testing.T) {
	inZone(t)
	all := statuses()
	shared := holder()
	shared.ID, shared.Mode, shared.Owner.Note = "ab", backends.Shared, ""
	alone := all[3].Line[0]
	alone.Notice, alone.Owner.Note = backends.Notice{}, ""
	resigning := alone
	resigning.Notice = backends.Notice{Kind: backends.Resign, By: all[3].Line[0].Notice.By, Reason: "reboot"}
	unknown := alone
	unknown.Granted = time.Time{}
	waiter := all[3].Line[1]
	store := statusStore{statuses: append(all,
		backends.Status{Key: "alone", AsOf: asOf, Line: []backends.Claim{alone}},
		backends.Status{Key: "resigning", AsOf: asOf, Line: []backends.Claim{resigning, waiter}},
		backends.Status{Key: "shared", AsOf: asOf, Line: []backends.Claim{shared, shared}},
		backends.Status{Key: "unknown", AsOf: asOf, Line: []backends.Claim{unknown}},
	)}
	const leads = "root@web2 (pid 4711, report.sh"
	for _, c := range []struct{ key, text string }{
		{"alone", leads + ") leads alone, term 1796012345678901, since 2026-11-27 01:00:02 +0800 (2d3h ago); renewed 12s ago; no candidate waits"},
		{"held", leads + ", note: release 42) leads held, term 1796012345678901, since 2026-11-27 01:00:02 +0800 (2d3h ago); renewed 12s ago; asked to stop by alice@ops1 (pid 77, flockd): hangs; 2 candidates wait"},
		{"resigning", leads + ") leads resigning, term 1796012345678901, since 2026-11-27 01:00:02 +0800 (2d3h ago); renewed 12s ago; asked to resign by alice@ops1 (pid 77, flockd): reboot; 1 candidate waits"},
		{"unknown", leads + ") leads unknown, term 1796012345678901; renewed 12s ago; no candidate waits"},
		{"never", "never has no leader: nobody holds the key"},
		{"broken", "broken has no leader: nobody holds the key; the last one was root@web2 (pid 4711, report.sh), until 2026-11-29 03:59:02 +0800 (1m ago): broken"},
		{"evil", "evil has no leader: nobody holds the key"},
		{"next", "next has no leader: nobody holds it, next in line is bob@web1 (pid 12, deploy.sh, note: https://ci/run/7) in line for 4m, since 2026-11-29 03:56:02 +0800; 1 waiting"},
		{"cooling", "cooling has no leader: cooling for another 1m, until 2026-11-29 04:01:02 +0800, after " + leads + ", note: release 42) for 2d3h, since 2026-11-27 01:00:02 +0800"},
		{"shared", "shared has no leader: held shared by root@web2 (pid 4711, report.sh) and 1 more for 2d3h, since 2026-11-27 01:00:02 +0800; renewed 12s ago"},
	} {
		code := 0
		if strings.Contains(c.text, "no leader") {
			code = 1
		}
		o := queryStore(t, store, "leader", "--key", c.key)
		if o.code != code || o.stdout != c.text+"\n" || o.stderr != "" {
			t.Errorf("%s: %+v", c.key, o)
		}
		if o := queryStore(t, store, "leader", "-k", c.key, "-q"); o.code != code || o.stdout+o.stderr != "" {
			t.Errorf("%s -q: %+v", c.key, o)
		}
	}
}

// TestLeaderJSON holds each object to all its fields.
func TestLeaderJSON(t *testing.T) {
	inZone(t)
	for key, code := range map[string]int{"held": 0, "next": 1, "evil": 1} {
		o := queryStore(t, statusStore{statuses: statuses()}, "leader", "--json", "--key", key)
		var v map[string]any
		if err := json.Unmarshal([]byte(o.stdout), &v); err != nil || len(v) != 8 || o.code != code || o.stderr != "" {
			t.Errorf("%s: %v, %d fields: %+v", key, err, len(v), o)
		}
		if leader, _ := v["leader"].(map[string]any); (code == 0) != (len(leader) == 7) {
			t.Errorf("%s: %v", key, v["leader"])
		}
		if key == "held" {
			wantGolden(t, "leader.json", o.stdout)
		}
	}
}

func TestLeaderOfHostileText(t *testing.T) {
	c := holder()
	c.ID, c.Mode, c.Token = "0a", backends.Exclusive, 7
	c.Owner = backends.Owner{User: "u\u202e\r", Host: "h\x1b[2J", Command: "c\x00\ng", Note: "n\x1b]0;t\a\u2028m"}
	c.Notice = backends.Notice{Kind: backends.Resign, By: c.Owner, Reason: "r\x1b[1m\n"}
	key := strings.Repeat("ключ/", 56)
	store := statusStore{statuses: []backends.Status{{Key: key, AsOf: asOf, Line: []backends.Claim{c}}}}
	for _, more := range []string{"--log-format=text", "--json"} {
		o := queryStore(t, store, "leader", "--key", key, more)
		if o.code != 0 || strings.ContainsAny(o.stdout, "\x1b\r\x00\a\u202e\u2028") || !strings.Contains(o.stdout, key) {
			t.Errorf("%+v", o)
		}
		if more != "--json" && strings.Count(o.stdout, "\n") != 1 {
			t.Errorf("%q", o.stdout)
		}
	}
}

// steps is a store whose key changes with each look.
type steps struct {
	backends.Backend
	looks []any // *backends.Claim, nil or an error; the last one stays
	n     int
}

func (s *steps) Inspect(_ context.Context, key string) (backends.Status, error) {
	look := s.looks[min(s.n, len(s.looks)-1)]
	s.n++
	status := backends.Status{Key: key, AsOf: asOf.Add(time.Duration(s.n) * time.Second)}
	switch v := look.(type) {
	case error:
		return status, v
	case *backends.Claim:
		v.Renewed = status.AsOf
		status.Line = []backends.Claim{*v}
	}
	return status, nil
}

func ledAlone(id string) *backends.Claim {
	c := holder()
	c.ID, c.Mode, c.Owner.User = id, backends.Exclusive, id
	return &c
}

func TestLeaderWaits(t *testing.T) {
	away := errors.New("no route")
	s := &steps{looks: []any{nil, away, nil, ledAlone("a")}}
	o := queryStore(t, s, "leader", "--key", "k", "--wait", "forever")
	if o.code != 0 || !strings.HasPrefix(o.stdout, "a@web2 ") || s.n != 4 {
		t.Errorf("%d looks: %+v", s.n, o)
	}
	s = &steps{looks: []any{nil}}
	if o := queryStore(t, s, "leader", "--key", "k", "--wait", "60ms"); o.code != 1 || o.stdout != "k has no leader: nobody holds the key\n" || s.n < 2 {
		t.Errorf("%d looks: %+v", s.n, o)
	}
	s = &steps{looks: []any{nil, backends.Refuse("log in", "wrong password")}}
	if o := queryStore(t, s, "leader", "--key", "k", "--wait", "forever"); o.code != 69 || o.stdout != "" {
		t.Errorf("%+v", o)
	}
	bad := func(context.Context, *backends.URL) (backends.Backend, error) {
		return nil, backends.BadURL("no such option")
	}
	wantUsage(t, queryFound(t, bad, "leader", "--key", "k", "--wait", "forever"), "no such option")
}

// TestLeaderWaitsForAStore asks a store that is away longer than one that isn't waited for.
func TestLeaderWaitsForAStore(t *testing.T) {
	t.Parallel() // it takes as long as the patience
	s := &steps{looks: []any{errors.New("no route")}}
	began := time.Now()
	o := queryStore(t, s, "leader", "--key", "k", "--wait", "5500ms")
	if o.code != 69 || time.Since(began) < 5500*time.Millisecond || strings.Count(o.stderr, "asking again") != 1 {
		t.Errorf("%v: %+v", time.Since(began), o)
	}
}

// TestLeaderWatch prints a line for each change of leader, be it to none.
func TestLeaderWatch(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel() // a look is a second from the next
			asked := ledAlone("a")
			asked.Notice = backends.Notice{Kind: backends.Resign}
			s := &steps{looks: []any{ledAlone("a"), asked, nil, ledAlone("b"), ledAlone("c")}}
			q := leaderOn(t, s, tempFile(t))
			q.json.of = format == "json"
			ctx, cancel := context.WithCancelCause(t.Context())
			enough := errors.New("enough")
			err := q.show(ctx, true, func(ctx context.Context) (picture, error) {
				status, err := q.inspect(ctx, "k")
				if s.n > len(s.looks) {
					cancel(enough)
				}
				return q.picture(status), err
			})
			if !errors.Is(err, enough) {
				t.Fatal(err)
			}
			var got []string
			for line := range strings.Lines(content(t, q.Stdout)) {
				got = append(got, leaderIn(t, line))
			}
			if want := []string{"a", "", "b", "c"}; !slices.Equal(got, want) {
				t.Errorf("%q of\n%s", got, content(t, q.Stdout))
			}
		})
	}
}

// leaderOn is a query of a store, without its command.
func leaderOn(t *testing.T, store backends.Backend, out *os.File) *leaderQuery {
	t.Helper()
	a := &app{Streams: Streams{Stdout: out, Env: []string{"FLOCKD_CONFIG=/dev/null"}}, lines: newLines(tempFile(t))}
	a.find = func(context.Context, *backends.URL) (backends.Backend, error) { return store, nil }
	q := &leaderQuery{a.newQuery(), newValue("", "forever", parseWait), newSwitch()}
	if err := q.resolve("k"); err != nil {
		t.Fatal(err)
	}
	q.begin()
	return q
}

// leaderIn is who leads by a line of a watch.
func leaderIn(t *testing.T, line string) string {
	t.Helper()
	var v struct {
		Leader *struct{ Owner struct{ User string } }
	}
	switch {
	case strings.HasPrefix(line, "k has no leader: "):
		return ""
	case !strings.HasPrefix(line, "{"):
		user, _, _ := strings.Cut(line, "@")
		return user
	}
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		t.Fatal(err)
	}
	if v.Leader == nil {
		return ""
	}
	return v.Leader.Owner.User
}

func TestLeaderAndResignRefuse(t *testing.T) {
	for args, want := range map[string]string{
		"leader":                                "no key is given: --key KEY\nflockd: hint: flockd leader --key KEY",
		"leader svc":                            "flockd leader takes no argument, and here is svc\nflockd: hint: --key svc",
		"leader --key k x":                      "flockd leader takes no argument, and here is x\nflockd: hint: see flockd leader --help",
		"leader --key=":                         "--key: the key is empty",
		"leader --key k -k l":                   "--key is given twice",
		"leader --key --json":                   "--key needs a value, and --json looks like a flag",
		"leader -k k --wait nope":               "nor forever",
		"leader -k k -q --json":                 "--quiet and --json contradict",
		"leader -k k -q --watch":                "--quiet and --watch contradict",
		"leader -k k --wait 1 --watch":          "--watch and --wait contradict",
		"resign":                                "no key is given: --key KEY\nflockd: hint: flockd resign --key KEY",
		"resign svc":                            "flockd resign takes no argument, and here is svc\nflockd: hint: --key svc",
		"resign -k k --reason=":                 "--reason is empty",
		"resign -k k --reason a\x1bb":           "control characters",
		"resign -k k --wait nope":               "nor forever",
		"resign -k k --force":                   "there is no flag --force",
		"resign -k " + strings.Repeat("k", 513): "513 bytes",
	} {
		wantUsage(t, queryStore(t, mem.New(), strings.Fields(args)...), strings.Split(want, "\nflockd: ")...)
	}
}

func TestLeaderInAClosedPipe(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	read.Close()
	if err := leaderOn(t, mem.New(), write).answer(t.Context(), "k"); !isClosedPipe(err) {
		t.Error(err)
	}
}
