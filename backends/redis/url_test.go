package redis

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flockd/backends"
)

func TestURL(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	base := settings{network: "tcp", address: "h:6379", name: "redis://h:6379", prefix: "flockd", timeout: 5 * time.Second}
	with := func(change func(s *settings)) settings { s := base; change(&s); return s }
	for raw, want := range map[string]settings{
		"redis://h":                 base,
		"redis://h/":                base,
		"redis://h:6379/0":          base,
		"redis://h/12":              with(func(s *settings) { s.db = 12 }),
		"redis://u:p%40%2F@h":       with(func(s *settings) { s.user, s.password = "u", "p@/" }),
		"redis://:p@h":              with(func(s *settings) { s.password = "p" }),
		"redis://h?timeout=1s":      with(func(s *settings) { s.timeout = time.Second }),
		"redis://h?prefix=a:b":      with(func(s *settings) { s.prefix = "a:b" }),
		"redis://h?min-replicas=2":  with(func(s *settings) { s.replicas = 2 }),
		"redis://10.0.0.1:7000":     with(func(s *settings) { s.address, s.name = "10.0.0.1:7000", "redis://10.0.0.1:7000" }),
		"redis://[::1]:7000":        with(func(s *settings) { s.address, s.name = "[::1]:7000", "redis://[::1]:7000" }),
		"redis://[::1]/1":           with(func(s *settings) { s.address, s.name, s.db = "[::1]:6379", "redis://[::1]:6379", 1 }),
		"redis+unix:///run/r.sock":  with(func(s *settings) { s.network, s.address, s.name = "unix", "/run/r.sock", "redis+unix:///run/r.sock" }),
		"redis+unix:///r.sock?db=3": with(func(s *settings) { s.network, s.address, s.name, s.db = "unix", "/r.sock", "redis+unix:///r.sock", 3 }),
		"redis+unix://u:p@/r.sock": with(func(s *settings) {
			s.network, s.address, s.name, s.user, s.password = "unix", "/r.sock", "redis+unix:///r.sock", "u", "p"
		}),
		"redis://u@h?password-file=" + file: with(func(s *settings) { s.user, s.password = "u", "from a file" }),
	} {
		u, err := backends.ParseURL(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		got, err := read(u)
		if err != nil || *got != want {
			t.Errorf("%s: %+v, %v; want %+v", raw, got, err, want)
		}
	}
}

func TestBadURL(t *testing.T) {
	t.Parallel()
	for raw, text := range map[string]string{
		"redis:":                       "no host",
		"redis:h":                      "no host",
		"redis:///0":                   "no host",
		"redis://h1,h2":                "several",
		"redis://h1:1,h2:2/0":          "several",
		"redis://h:":                   "HOST:PORT",
		"redis://:6379":                "HOST:PORT",
		"redis://h:0":                  "HOST:PORT",
		"redis://h:70000":              "HOST:PORT",
		"redis://h/x":                  `"x"`,
		"redis://h/-1":                 `"-1"`,
		"redis://h/1/2":                `"1/2"`,
		"redis://h/99999999999":        "99999999999",
		"redis://h?db=1":               `no option "db"`,
		"redis://h?cacert=x":           `no option "cacert"`,
		"redis://h?x=1":                `no option "x"`,
		"redis://h?password=hunter2":   `no option "password"`,
		"redis://h?min-replicas=-1":    "min-replicas=-1",
		"redis://h?min-replicas=":      "is empty",
		"redis://h?prefix=a{b":         "no braces",
		"redis://h?prefix=a}b":         "no braces",
		"redis://h?timeout=x":          "timeout=x",
		"redis://u@h":                  "user and no password",
		"redis://h?password-file=/no":  "/no",
		"rediss://h?cacert=/no":        "/no",
		"rediss://h?cert=/no":          "go together",
		"redis+unix:run.sock":          "absolute path",
		"redis+unix://h/run.sock":      "absolute path",
		"redis+unix:///r.sock?db=x":    `"x"`,
		"redis+unix:///r.sock?db=":     "is empty",
		"redis://:hunter2@h/hunter":    `"hunter"`,
		"redis://:hunter2@h1,h2":       "several",
		"redis://:hunter2@h?timeout=x": "timeout=x",
	} {
		_, err := openURL(t, raw)
		var bad *backends.URLError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want a bad URL that says %q", raw, err, text)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	n := names("team:a*")
	for _, key := range []string{"a", "{a}", "{a}b", "a}", "}{", "%7B", "a:b", "a}:key", "业务:订单-42", " ", "*", `a\`, "[x]", "{}", "%"} {
		name := n.part(key, "claims")
		if got, ok := n.lock(name); !ok || got != key {
			t.Errorf("%q is of %q, %v; want %q", name, got, ok, key)
		}
		if strings.Count(name, "{") != 1 || strings.Count(name, "}") != 1 {
			t.Errorf("%q has another tag than the key's", name)
		}
	}
	for _, name := range []string{"", "x", "flockd:{a}:claims", n.part("a", "line"), n.part("a", "ended:key"), n.part("a", "claims") + "x"} {
		if key, ok := n.lock(name); ok {
			t.Errorf("%q is of %q", name, key)
		}
	}
	if got, want := n.pattern("x[1]?"), `team:a\*:{x\[1\]\?*}:[kc]*`; got != want {
		t.Errorf("pattern %s, want %s", got, want)
	}
}
