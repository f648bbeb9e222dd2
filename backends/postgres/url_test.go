package postgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flockd/backends"
)

// clear takes away what the environment says to libpq.
func clear(t *testing.T) {
	for _, line := range os.Environ() {
		if name, _, _ := strings.Cut(line, "="); strings.HasPrefix(name, "PG") {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
	t.Setenv("HOME", t.TempDir())
}

func TestURL(t *testing.T) {
	clear(t)
	for url, want := range map[string]string{
		"postgres://u:p@h/d":                               "h:5432 u p d flockd flockd",
		"postgresql://u@h:7,[::1],h3:8/d?prefix=a_1":       "h:7 [::1]:5432 h3:8 u  d a_1 flockd",
		"postgres://u:%40%23%21%2F%3F%5C'@h/d?timeout=3s":  `h:5432 u @#!/?\' d flockd flockd`,
		"postgres:///d?host=/run/pg&port=7&user=o'b":       "/run/pg:7 o'b  d flockd flockd",
		"postgres://u@%2Frun%2Fpg/d?application_name=jobs": "/run/pg:5432 u  d flockd jobs",
		"postgres://u@h/d%20e%2Ff":                         "h:5432 u  d e/f flockd flockd",
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
		host := s.hosts[0]
		got := strings.ReplaceAll(strings.TrimPrefix(s.name, "postgres://"), ",", " ") + fmt.Sprintf(" %s %s %s %s %s",
			host.User, s.password, host.Database, s.prefix, host.RuntimeParams["application_name"])
		if got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}

// Where a URL is silent, libpq's variables and its file of passwords speak, that one for each
// host.
func TestVariables(t *testing.T) {
	clear(t)
	file := filepath.Join(t.TempDir(), "pgpass")
	if err := os.WriteFile(file, []byte("h1:7:*:u:one\nh2:8:*:u:t\\:wo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"PGHOST": "h1,h2", "PGPORT": "7,8", "PGUSER": "u", "PGDATABASE": "d", "PGPASSFILE": file, "PGAPPNAME": "jobs", "PGSSLMODE": "disable",
	} {
		t.Setenv(name, value)
	}
	u, err := backends.ParseURL("postgres://")
	if err != nil {
		t.Fatal(err)
	}
	s, err := read(u)
	if err != nil {
		t.Fatal(err)
	}
	if s.database != "postgres://h1:7,h2:8/d" || len(s.hosts) != 2 {
		t.Fatalf("%s: %d hosts", s.database, len(s.hosts))
	}
	for i, want := range []string{"one", "t:wo"} {
		if h := s.hosts[i]; h.Password != want || h.User != "u" || h.TLSConfig != nil || h.RuntimeParams["application_name"] != "jobs" {
			t.Errorf("host %d: %q for %q", i, h.Password, h.User)
		}
	}
}

func TestBadURL(t *testing.T) {
	clear(t)
	for url, text := range map[string]string{
		"postgres:d":                                                        "lacks its //",
		"postgres://u:hunter2@h:0/d":                                        "a port from 1 to 65535",
		"postgres://u:hunter2@h:70000/d":                                    "a port from 1 to 65535",
		"postgres://u:hun/ter2@h/d":                                         "in a password, / is written %2F",
		"postgres://u:hunter2@h/d?sslmod=require":                           `no option "sslmod"`,
		"postgres://u:hunter2@h/d?sslmode=maybe":                            "sslmode is invalid",
		"postgres://u:hunter2@h/d?sslmode=verify-full&sslrootcert=/nowhere": "/nowhere: no such file",
		"postgres://u:hunter2@h/d?target_session_attrs=standby":             "needs a server that takes writes",
		"postgres://u:hunter2@h/d?prefix=A":                                 "?prefix=A: the name of a schema",
		"postgres://u:hunter2@h/d?prefix=pg_locks":                          "the name of a schema",
		"postgres://u:hunter2@h/d?prefix=public":                            "the name of a schema",
		"postgres://u:hunter2@h/d?timeout=0":                                "is not a duration",
		"postgres://u:hunter2@h/d?password-file=x":                          "a password and a ?password-file=",
		"postgres://u:hunter2@h/d?connect_timeout=hunter2x":                 "connect_timeout",
		"postgres://u:hunter2@h/d?service=hunter2s":                         "service",
	} {
		u, err := backends.ParseURL(url)
		if err == nil {
			_, err = read(u)
		}
		var bad *backends.URLError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "u:hunter2") || strings.Contains(err.Error(), "hunter2@") {
			t.Errorf("%s: %v, want %q", url, err, text)
		}
	}
}

func TestPasswordFile(t *testing.T) {
	clear(t)
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("from file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u, err := backends.ParseURL("postgres://u@h/d?password-file=" + file)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := read(u); err != nil || s.password != "from file" || s.hosts[0].Password != "from file" {
		t.Errorf("%+v, %v", s, err)
	}
}
