package mysql

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flockd/backends"
)

func TestURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"mysql://u:p@h/d": "tcp h:3306 u p d flockd",
		"mysql://u@h:3307,[::1]/d?prefix=a_1&tls=false": "tcp h:3307,[::1]:3306 u  d a_1",
		"mysql://u:%40%23%21%2F@h/d?timeout=3s":         "tcp h:3306 u @#!/ d flockd",
		"mysql+unix://u@/run/mysqld/mysqld.sock?db=d":   "unix /run/mysqld/mysqld.sock u  d flockd",
	} {
		u, err := backends.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		s, err := read(u)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		got := strings.Join([]string{s.network, strings.Join(s.addresses, ","), s.user, s.password, s.database, string(s.prefix)}, " ")
		if got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}

func TestBadURL(t *testing.T) {
	t.Parallel()
	for url, text := range map[string]string{
		"mysql://u:hunter2@h":                    "names no database",
		"mysql://u:hunter2@h/":                   "names no database",
		"mysql://u:hunter2@h/d/e":                "more in its path",
		"mysql://u:hunter2@/d":                   "no host",
		"mysql://u:hunter2@h,/d":                 "no host, or an empty one",
		"mysql://u:hunter2@h:0/d":                "a port from 1 to 65535",
		"mysql://h/d":                            "names no user",
		"mysql://u:hunter2@h/d?parseTime=true":   `no option "parseTime"`,
		"mysql://u:hunter2@h/d?prefix=A":         "up to 21 small letters",
		"mysql://u:hunter2@h/d?prefix=a;b":       "options of the mysql: URL can't be read",
		"mysql://u:hunter2@h/d?prefix=1a":        "begins with no digit",
		"mysql://u:hunter2@h/d?tls=yes":          "none of true, skip-verify, preferred and false",
		"mysql://u:hunter2@h/d?tls=false&cert=x": "doesn't go with",
		"mysql://u:hunter2@h/d?timeout=0":        "is not a duration",
		"mysql://u:hunter2@h/d?password-file=x":  "a password and a ?password-file=",
		"mysql+unix://u:hunter2@/run/s":          "names no database: ?db=",
		"mysql+unix://u:hunter2@h/run/s?db=d":    "names a socket by its absolute path",
		"mysql+unix://u:hunter2@/s?db=d&tls=x":   `no option "tls"`,
	} {
		u, err := backends.ParseURL(url)
		if err == nil {
			_, err = read(u)
		}
		var bad *backends.URLError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", url, err, text)
		}
	}
}

func TestPasswordFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("from file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u, err := backends.ParseURL("mysql://u@h/d?password-file=" + file)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := read(u); err != nil || s.password != "from file" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestSchemaNames(t *testing.T) {
	t.Parallel()
	for _, names := range [][2]string{{"A", "u"}, {"a-b", "u"}, {"", "u"}, {"a", "u'"}, {"a", "u@`"}, {"a", `\`}, {"aB", "u"}, {"a;b", "u"}} {
		if text, err := Schema(names[0], names[1]); err == nil {
			t.Errorf("Schema(%q, %q) = %.60q…", names[0], names[1], text)
		}
	}
	text, err := Schema("team", "jobs@10.%")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"CREATE TABLE IF NOT EXISTS team_claims", "team_acquire_1(",
		"ON team_ended TO 'jobs'@'10.%'", "ON PROCEDURE team_sweep_1 TO 'jobs'@'10.%'",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the schema lacks %q", part)
		}
	}
	if strings.Contains(text, "flockd_") {
		t.Error("the schema has names of another prefix")
	}
}

// Statements end where the schema says, and each makes something or sets the session up.
func TestStatements(t *testing.T) {
	t.Parallel()
	n := names("flockd")
	statements := n.statements()
	if made := len(n.tables()) + len(n.procedures()); len(statements) != made+3 {
		t.Errorf("%d statements make %d tables and procedures", len(statements), made)
	}
	for _, s := range statements {
		if strings.Count(s, "\nCREATE ")+strings.Count(s, "\nSET ") > 1 || strings.Contains(s, "//") {
			t.Errorf("more than one statement: %.80q", s)
		}
	}
}
