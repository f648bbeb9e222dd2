package etcd

import (
	"strings"
	"testing"

	"flockd/backends/backendtest/servers"
)

func TestCaveatOfVersions(t *testing.T) {
	for version, want := range map[string]string{
		"3.4.23": "3.4.38", "3.4.37": "3.4.38", "3.4.38": "", "3.4.100": "",
		"3.5.0": "3.5.23", "3.5.22": "3.5.23", "3.5.23": "", "3.6.4": "3.6.5", "3.6.5": "",
		"3.3.27": "3.4.38", "3.7.0": "", "3.7.0-rc.1": "", "3.10.0": "", "4.0.0": "", "": "", "unknown": "",
	} {
		got := caveatOf(version, "h1:2379")
		if want == "" && got != "" || want != "" && !strings.HasSuffix(got, "upgrade to "+want+" or newer") {
			t.Errorf("%s: %q, want %q", version, got, want)
		}
	}
}

// It is known when the first Acquire has returned.
func TestCaveat(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s := open(t, url)
	if acquire(t, s, request(t)); s.Caveat() != "" {
		t.Errorf("caveat %q", s.Caveat())
	}
	old := servers.Etcd(t, servers.Debian)
	s = open(t, "etcd://"+old.Addr)
	acquire(t, s, request(t))
	if got := s.Caveat(); !strings.Contains(got, " at "+old.Addr+" may say that it renewed a lease which it revokes, and then let two run: upgrade to 3.4.38 or newer") {
		t.Errorf("caveat %q", got)
	}
}
