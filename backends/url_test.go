package backends_test

import (
	"errors"
	"net/url"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"flockd/backends"
)

func TestParseURL(t *testing.T) {
	for raw, want := range map[string]backends.URL{
		"sqlite:":                      {Scheme: "sqlite"},
		"sqlite:locks.db":              {Scheme: "sqlite", Path: "locks.db"},
		"sqlite:///var/lib/a%20b@c.db": {Scheme: "sqlite", Path: "/var/lib/a b@c.db"},
		"sqlite:/home/me@corp/x.db":    {Scheme: "sqlite", Path: "/home/me@corp/x.db"},
		"redis://h:6379/0":             {Scheme: "redis", Host: "h:6379", Path: "/0"},
		"redis://u:p%40%2F@h/0":        {Scheme: "redis", User: "u", Password: "p@/", Host: "h", Path: "/0"},
		"redis://:p:p@p@h":             {Scheme: "redis", Password: "p:p@p", Host: "h"},
		"etcd://h1:2379,h2:2379/p":     {Scheme: "etcd", Host: "h1:2379,h2:2379", Path: "/p"},
		"redis+sentinel://a,[::1]:2/m": {Scheme: "redis+sentinel", Host: "a,[::1]:2", Path: "/m"},
		"postgres://h/db?user=a@b":     {Scheme: "postgres", Host: "h", Path: "/db"},
	} {
		u, err := backends.ParseURL(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		got := backends.URL{Scheme: u.Scheme, User: u.User, Password: u.Password, Host: u.Host, Path: u.Path}
		if got.Scheme != want.Scheme || got.User != want.User || got.Password != want.Password || got.Host != want.Host || got.Path != want.Path {
			t.Errorf("%s: %+v, want %+v", raw, got, want)
		}
	}
}

// secret stands for a password in these URLs.
const secret = "hunter2"

// No error and no String repeats a password, wherever it stands.
func TestURLHidesSecrets(t *testing.T) {
	for _, raw := range []string{
		"redis://u:hunter2@h/0", "redis://:hunter2@h", "redis://u:hunter2%40x@h?timeout=1s",
		"redis://u:hunter2%zz@h/0", "redis://u%zz:hunter2@h/0", "redis://u:x/hunter2@h/0", "redis://u:x?hunter2@h/0",
		"redis://u:hunter2/x@h/0", "redis://u:hunter2?x@h/0", "redis://u:x@y/hunter2@h/0", "redis://u:1?hunter2@h",
		"redis://u:hunter2#x@h/0", "redis:u:hunter2@h/0", "u:hunter2@h", "//u:hunter2@h", "hunter2@h",
		"postgres://h/db?password=hunter2", "postgres://h/db?sslpassword=hunter2", "mysql://h/db?auth_token=hunter2&x=y",
		"x://h?client-secret=hunter2", "x://h?a=1;password=hunter2", "x://h?password=hunter2%zz", "x://h?PASSWORD=hunter2",
		"x://h?password=a&password=hunter2",
	} {
		u, err := backends.ParseURL(raw)
		if err != nil {
			var bad *backends.URLError
			if !errors.As(err, &bad) || strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %v", raw, err)
			}
			continue
		}
		if !u.Secret() || strings.Contains(u.String(), secret) {
			t.Errorf("%s: %s, secret %v", raw, u, u.Secret())
		}
		for _, err := range []error{u.CheckOptions(), second(u.Timeout())} {
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %v", raw, err)
			}
		}
		if again, err := backends.ParseURL(u.String()); err != nil || !again.HasHidden() {
			t.Errorf("%s as %s: not known to have lost its secret (%v)", raw, u, err)
		}
	}
}

func second(_ time.Duration, err error) error { return err }

func TestURLWithoutSecret(t *testing.T) {
	for _, raw := range []string{
		"sqlite:", "sqlite:///a/b.db?prefix=x", "redis://u@h:6379/0", "etcds://h?cert=a.pem&key=b.pem", "x://h?password-file=/run/p",
	} {
		u, err := backends.ParseURL(raw)
		if err != nil || u.Secret() || u.HasHidden() || u.String() != raw {
			t.Errorf("%s: %s, %v", raw, u, err)
		}
	}
}

// What String shows is the same URL, but for the secrets.
func FuzzURL(f *testing.F) {
	for _, raw := range []string{"sqlite:a", "sqlite:///a?b=c", "redis://u:p@h:1,g:2/0?timeout=1s&password=p", "a:b%20c", "x://a%3Ab@h//c?d"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := backends.ParseURL(raw)
		if err != nil {
			return
		}
		again, err := backends.ParseURL(u.String())
		if err != nil {
			t.Fatalf("%q is shown as %q: %v", raw, u, err)
		}
		if again.String() != u.String() || again.User != u.User || again.Host != u.Host || again.Path != u.Path || again.Secret() != u.Secret() {
			t.Errorf("%q is shown as %q, which is %q", raw, u, again)
		}
		if full, err := backends.ParseURL(u.Full()); err != nil || !reflect.DeepEqual(full, u) {
			t.Errorf("%q is %q in full (%v)", raw, u.Full(), err)
		}
		if p := u.Password; len(p) > 8 && !strings.Contains(u.User+u.Host+u.Path+u.Scheme, p) && strings.Contains(u.String(), p) {
			t.Errorf("%q repeats the password %q", u, p)
		}
	})
}

// Full is the same URL with all its secrets, whatever they are made of.
func TestURLInFull(t *testing.T) {
	const odd = "h/u?n#t@e:r%2A &=+*é"
	for _, raw := range []string{
		"redis://u%3A%2F%40:" + url.PathEscape(odd) + "@h:1,g:2/0", "redis://:" + url.QueryEscape("*") + "@h",
		"x://h?password=" + url.QueryEscape(odd) + "&prefix=" + url.QueryEscape(odd), "x:?token=a&token=b", "sqlite:///a%20b/c@d.db",
	} {
		u, err := backends.ParseURL(raw)
		if err != nil {
			t.Fatal(raw, err)
		}
		if again, err := backends.ParseURL(u.Full()); err != nil || !reflect.DeepEqual(again, u) {
			t.Errorf("%s is %s in full (%v), which is another", raw, u.Full(), err)
		}
	}
}

func TestURLOptions(t *testing.T) {
	parse := func(raw string) *backends.URL {
		u, err := backends.ParseURL(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		return u
	}
	if u := parse("x://h"); u.Prefix() != "flockd" || u.CheckOptions() != nil {
		t.Errorf("prefix %q, options %v", u.Prefix(), u.CheckOptions())
	}
	if u := parse("x://h?prefix=p&timeout=1s&a=b"); u.Prefix() != "p" || u.CheckOptions("a") != nil || u.CheckOptions("b") == nil {
		t.Errorf("prefix %q, options %v, %v", u.Prefix(), u.CheckOptions("a"), u.CheckOptions("b"))
	}
	if u := parse("x://h?a=1&a=2"); u.CheckOptions("a") == nil {
		t.Error("an option that is given twice is no error")
	}
	for text, want := range map[string]time.Duration{"": 5 * time.Second, "250ms": 250 * time.Millisecond, "0s": 0, "-1s": 0, "5": 5 * time.Second, "0.5": 500 * time.Millisecond, "0": 0, "x": 0} {
		if got, err := parse("x://h?timeout=" + text).Timeout(); got != want || (err == nil) != (want > 0) {
			t.Errorf("timeout %q = %v, %v", text, got, err)
		}
	}
}

func TestURLInAnyFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]string{
		"redis://h/1?prefix=x":                   "redis://h/1?prefix=x",
		"redis://u:hunter2@h":                    "redis://u:***@h",
		"redis://h?password-file=password":       "redis://h?password-file=" + folder + "/password",
		"etcds://h?cacert=/ca.pem&key=keys/host": "etcds://h?cacert=/ca.pem&key=" + folder + "/keys/host",
	} {
		u, err := backends.ParseURL(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.ReplaceAll(u.Absolute().String(), "%2F", "/"); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}
