package etcd

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"flockd/backends"
)

func TestURL(t *testing.T) {
	for url, want := range map[string]struct {
		endpoints []string
		prefix    string
	}{
		"etcd://h1":                        {[]string{"h1:2379"}, "flockd"},
		"etcd://h1:2379,h2,h3:4001":        {[]string{"h1:2379", "h2:2379", "h3:4001"}, "flockd"},
		"etcd://h1/":                       {[]string{"h1:2379"}, "flockd"},
		"etcd://h1/team/a/":                {[]string{"h1:2379"}, "team/a"},
		"etcd://h1?prefix=locks&timeout=2": {[]string{"h1:2379"}, "locks"},
		"etcd://h1?prefix=%2Flocks%2F":     {[]string{"h1:2379"}, "locks"},
		"etcd://[::1],[fe80::1]:4001":      {[]string{"[::1]:2379", "[fe80::1]:4001"}, "flockd"},
		"etcd://bob:pw%40@h1,h2":           {[]string{"h1:2379", "h2:2379"}, "flockd"},
		"etcds://h1":                       {[]string{"h1:2379"}, "flockd"},
	} {
		s := open(t, url)
		if !slices.Equal(s.cluster.endpoints, want.endpoints) || s.prefix != want.prefix {
			t.Errorf("%s: %q with prefix %q, want %q with %q", url, s.cluster.endpoints, s.prefix, want.endpoints, want.prefix)
		}
		if tls := s.cluster.tls != nil; tls != strings.HasPrefix(url, "etcds") {
			t.Errorf("%s: TLS %v", url, tls)
		}
	}
}

func TestBadURL(t *testing.T) {
	for url, want := range map[string]string{
		"etcd:":                                "names no host",
		"etcd:///flockd":                       "names no host",
		"etcd://h1,,h2":                        "names no host, or an empty one",
		"etcd://h1/a?prefix=b":                 "a path and a ?prefix=",
		"etcd://h1:2379,etcd://h2:2379":        "the scheme stands once",
		"etcd://http://h1:2379":                "the scheme stands once",
		"etcd://h1//a":                         "an empty part",
		"etcd://h1?prefix=a%2F%2Fb":            "an empty part",
		"etcd://h1?prefix=%2F":                 "an empty part",
		"etcd://h1, h2":                        "white space",
		"etcd://h1?tls=yes":                    `no option "tls"`,
		"etcd://h1?cacert=x":                   `no option "cacert"`,
		"etcds://h1?cert=x":                    "go together",
		"etcds://h1?cacert=/nowhere/ca.pem":    "/nowhere/ca.pem",
		"etcd://bob@h1":                        "without a password",
		"etcd://:pw1234@h1":                    "without a user",
		"etcd://bob:pw1234@h1?password-file=x": "has a password and",
		"etcd://h1?timeout=soon":               "timeout",
	} {
		u, err := backends.ParseURL(url)
		if err == nil {
			_, err = Open(t.Context(), u)
		}
		var bad *backends.URLError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "pw1234") {
			t.Errorf("%s: %v, want a URLError with %q", url, err, want)
		}
	}
}

func TestPasswordFile(t *testing.T) {
	file := t.TempDir() + "/pw"
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := open(t, "etcd://bob@h1?password-file="+file); s.cluster.password != "secret" {
		t.Errorf("password %q", s.cluster.password)
	}
}
