package cmd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"flockd/runner"
)

// writeConfig writes a configuration with the given mode and returns its path.
func writeConfig(t *testing.T, mode os.FileMode, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfigToOptions(t *testing.T) {
	path := writeConfig(t, 0o644, `
backend = "sqlite:///tmp/c.db"
ttl = 60
wait = 2.5
quiet = true
note = "from the file"
exit.skipped = 0

[key."nightly-*"]
ttl = "2m"
on-lost = "warn"
warn-signal = "USR1"
leftovers = "wait"
exit = ["lost=3", "skipped=4"]

[key."nightly-report"]
ttl = "3m"

[key."*-report"]
ttl = "4m"
wait = "forever"
`)
	run := func(args string) *runOptions {
		t.Helper()
		o := call(t, nil, append([]string{"run", "--config", path}, strings.Fields(args)...)...)
		if o.run == nil {
			t.Fatalf("%s: %s", args, o.stderr)
		}
		return o.run
	}
	o := run("-k x true")
	if o.ttl != time.Minute || o.wait != 2500*time.Millisecond || !o.quiet || o.note != "from the file" ||
		o.backend.String() != "sqlite:///tmp/c.db" || o.inherited != "" || o.exits[runner.Skipped] != 0 || len(o.exits) != 1 {
		t.Errorf("settings outside of sections: %+v", o)
	}
	o = run("-k nightly-report true")
	if o.ttl != 3*time.Minute || o.onLost != runner.Warn || o.leftovers != runner.Await || o.wait != runner.Forever || o.exits[runner.Lost] != 3 || o.exits[runner.Skipped] != 4 {
		t.Errorf("sections: %+v", o)
	}
	o = run("-k nightly-report --ttl 5m -n -v --on-lost kill --leftovers leave -E 9 --note mine true")
	if o.ttl != 5*time.Minute || o.wait != 0 || o.onLost != runner.Kill || o.leftovers != runner.Leave || o.exits[runner.Skipped] != 9 || o.note != "mine" {
		t.Errorf("flags are stronger: %+v", o)
	}
	if o := call(t, []string{"FLOCKD_BACKEND=sqlite:///tmp/v.db"}, "run", "--config", path, "-k", "x", "true"); o.run.backend.Path != "/tmp/v.db" {
		t.Errorf("the variable is stronger than the file: %+v", o.run)
	}
	if o := call(t, []string{"FLOCKD_BACKEND="}, "run", "--config", path, "-k", "x", "true"); o.code != 64 {
		t.Errorf("an empty variable is passed over: %+v", o.run)
	}
}

func TestRefusedConfigs(t *testing.T) {
	for _, c := range []struct {
		mode           os.FileMode
		text, expected string
	}{
		{0o620, "", "mode 0620|hint: chmod go-w"},
		{0o602, "", "mode 0602"},
		{0o604, `backend = "redis://u:hunter2@h"`, ":1 holds a secret"},
		{0o644, "\n[key.\"a*\"]\nbackend = \"redis://h?password=hunter2\"", ":3 holds a secret"},
		{0o600, "ttl = 1\nttll = 2", ":2: there is no setting \"ttll\""},
		{0o600, "key = 3", "key is a section"},
		{0o600, "key.a = 3", "is a section"},
		{0o600, "key.\"a*\".ttll = 2", "no setting \"ttll\""},
		{0o600, "[key]\n\"a*\".ttll = 2", "no setting \"ttll\""},
		{0o600, "[key.\"a*\".exit]\nskiped = 0", "no class \"skiped\""},
		{0o604, "key.a.backend = \"redis://u:hunter2@h\"", "holds a secret"},
		{0o600, "ttl = \"1m\"\nttl = 2", ":2: "},
		{0o600, "ttl = ", ":1: "},
		{0o600, "\nttl = '10x'", ":2: ttl 10x: not a duration"},
		{0o600, "ttl = true", ":1: ttl true: not a duration"},
		{0o600, "ttl = ['1m']", ":1: ttl takes one value"},
		{0o600, "wait = 1979-05-27", ":1: wait takes one value"},
		{0o600, "[key.'other']\n\nttl = -1", ":3: ttl -1: too short"},
		{0o600, "[key.'x']\nnope = -1", ":2: there is no setting"},
		{0o600, "exit.skipped = 600", ":1: exit skipped=600: an exit code is 0 to 255"},
		{0o600, "[exit]\nfoo = 6", "exit foo=6: no class"},
		{0o600, "exit = 6", ":1: exit takes classes"},
		{0o600, "on-lost = 'ignore'", ":1: on-lost ignore: there is kill, warn"},
		{0o600, "leftovers = 'name'", ":1: leftovers name: there is leave, wait, kill"},
		{0o600, "shell = 'true'", "no setting \"shell\""},
		{0o600, "backend = 'redis://:hunter2%zz@h'", ":1: backend: "},
		{0o600, "backend = 'redis://:***@h'", ":1: backend: |***"},
		{0o600, "backend = redis://:hunter2@h", ":1: "},
		{0o600, "backend = \"redis://:hunter2@h", ":1: "},
		{0o600, "backend = \"redis://:\\hunter2@h\"", ":1: "},
		{0o600, "quiet = 'perhaps'", ":1: quiet perhaps: there is true and false"},
		{0o600, "#" + strings.Repeat("x", configAtMost), "is larger than"},
	} {
		path := writeConfig(t, c.mode, c.text)
		o := call(t, nil, "run", "--config", path, "-k", "x", "--ttl", "5m", "true")
		t.Run(c.expected, func(t *testing.T) {
			wantUsage(t, o, append(strings.Split(c.expected, "|"), path)...)
			if strings.Contains(o.stderr, "hunter2") {
				t.Errorf("the secret is shown: %s", o.stderr)
			}
		})
	}
	for _, path := range []string{"/nonexistent/c.toml", t.TempDir()} {
		wantUsage(t, call(t, nil, "run", "--config", path, "-k", "x", "true"), path)
	}
	wantUsage(t, call(t, []string{"FLOCKD_CONFIG="}, "version", "x"), "no argument")
}

func TestSecretIsFineInPrivate(t *testing.T) {
	path := writeConfig(t, 0o640, `backend = "redis://u:hunter2@h"`)
	if o := call(t, nil, "run", "--config", path, "-k", "x", "true"); o.run == nil || o.run.backend.Password != "hunter2" {
		t.Errorf("%+v", o)
	}
}

func TestForeignConfigIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	path := writeConfig(t, 0o600, "")
	if err := os.Chown(path, 12345, -1); err != nil {
		t.Fatal(err)
	}
	for uid, fine := range map[int]bool{0: false, 12345: true, 54321: false} {
		if _, err := readConfig(path, true, uid); (err == nil) != fine {
			t.Errorf("read by user %d: %v", uid, err)
		}
	}
}

func TestConfigPaths(t *testing.T) {
	for _, c := range []struct {
		named string
		env   string
		uid   int
		want  string
	}{
		{"", "HOME=/home/u", 1000, "/home/u/.config/flockd/config.toml /etc/flockd/config.toml"},
		{"", "HOME=/home/u XDG_CONFIG_HOME=/x", 1000, "/x/flockd/config.toml /etc/flockd/config.toml"},
		{"", "HOME=/home/u XDG_CONFIG_HOME=x", 1000, "/home/u/.config/flockd/config.toml /etc/flockd/config.toml"},
		{"", "", 1000, "/etc/flockd/config.toml"},
		{"", "HOME=/home/u XDG_CONFIG_HOME=/x", 0, "/etc/flockd/config.toml"},
		{"", "HOME=/home/u FLOCKD_CONFIG=/f", 1000, "/f"},
		{"g", "HOME=/home/u FLOCKD_CONFIG=/f", 1000, "g"},
	} {
		paths, _, err := configPaths(c.named, Streams{Env: strings.Fields(c.env), UID: c.uid})
		if got := strings.Join(paths, " "); got != c.want || err != nil {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
	if _, _, err := configPaths("", Streams{Env: []string{"FLOCKD_CONFIG="}}); err == nil {
		t.Error("an empty FLOCKD_CONFIG is passed over")
	}
}

func TestUserConfigIsStrongerThanEtc(t *testing.T) {
	user := writeConfig(t, 0o600, `ttl = "1m"`)
	etc := writeConfig(t, 0o600, "ttl = '2m'\nwait = 3\n[key.'*']\nttl = '3m'\ngrace = 1")
	s := newSettings()
	s.key.of = "x"
	for _, path := range []string{user, etc} {
		c, err := readConfig(path, true, os.Geteuid())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.apply(s); err != nil {
			t.Fatal(err)
		}
	}
	if s.ttl.of != time.Minute || s.wait.of != 3*time.Second || s.grace.of != time.Second || s.grace.from != etc+":5" {
		t.Errorf("ttl %v, wait %v, grace %v from %s", s.ttl.of, s.wait.of, s.grace.of, s.grace.from)
	}
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, key string
		want         bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a/b c", true},
		{"a*", "a", true}, {"a*", "a/b", true}, {"*a", "ba", true}, {"*a", "ab", false}, {"a*b*c", "a1b2b3c", true},
		{"a*b*c", "a1b2b3", false}, {"?", "业", true}, {"?", "", false}, {"??", "a", false}, {"a[b]", "a[b]", true},
		{"[ab]", "a", false}, {`\*`, `\x`, true}, {"*?", "", false}, {"**", "x", true}, {"*aab", "aaab", true},
	} {
		if got := matches(c.pattern, c.key); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.key, got)
		}
	}
	sorted := []string{"nightly-report", "nightly-*", "night*", "*-r??", "*x", "?", "*"}
	shuffled := slices.Clone(sorted)
	slices.Reverse(shuffled)
	slices.SortStableFunc(shuffled[:len(shuffled)-2], func(a, b string) int { return weight(b) - weight(a) })
	slices.SortStableFunc(shuffled, func(a, b string) int { return weight(b) - weight(a) })
	for i := range sorted[:5] {
		if shuffled[i] != sorted[i] {
			t.Errorf("order of patterns: %q", shuffled)
			break
		}
	}
}

func TestConfigCommand(t *testing.T) {
	path := writeConfig(t, 0o600, "backend = 'redis://u:hunter2@h/0'\n[exit]\nskipped = 0\n[key.'n*']\nttl = 90\n")
	o := call(t, nil, "config", "--config", path, "--key", "nightly", "--wait", "3", "--json")
	var all map[string]origin
	if err := json.Unmarshal([]byte(o.stdout), &all); err != nil {
		t.Fatal(err, o)
	}
	for name, want := range map[string]origin{
		"backend": {"redis://u:***@h/0", path + ":1"}, "ttl": {"90", path + ":5"}, "exit.skipped": {"0", path + ":3"},
		"wait": {"3", "flag"}, "on-lost": {"kill", "default"},
	} {
		if all[name] != want {
			t.Errorf("%s: %v, want %v", name, all[name], want)
		}
	}
	o = call(t, nil, "config", "--config", path)
	if o.code != 0 || strings.Contains(o.stdout, "hunter2") || !strings.Contains(o.stdout, fmt.Sprintf("backend          redis://u:***@h/0   %s:1\n", path)) {
		t.Errorf("%+v", o)
	}
	o = call(t, []string{"FLOCKD_BACKEND=sqlite:"}, "config", "-n")
	if !strings.Contains(o.stdout, "FLOCKD_BACKEND\n") {
		t.Errorf("%+v", o)
	}
	wantUsage(t, call(t, nil, "config", "x"), "no argument")
	wantUsage(t, call(t, nil, "config", "-k", "a", "-k", "b"), "--key is given twice")
}
