package redis

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flockd/backends/backendtest/servers"
)

// secrets are passwords of which a server's words may show some.
var secrets = map[string]string{
	"short":         "s3kr",
	"long":          strings.Repeat("Kx7#qP0vZ!", 20),
	"of two lines":  "0first=part0\n1second=part1",
	"with a tab":    "Wq\tZw9;Wq\x01Zw8",
	"in two quotes": `'Gh"7Jk'`,
}

// withSecret is the URL of a server with the password in a file.
func withSecret(t testing.TB, user, addr, password string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return "redis://" + user + addr + "?password-file=" + file
}

// leaks is a part of the secret of four characters that text shows, or "".
func leaks(text, secret string) string {
	for i := range len(secret) - 3 {
		if part := secret[i : i+4]; strings.Contains(text, part) {
			return part
		}
	}
	return ""
}

// A server that doesn't know HELLO or AUTH says so with what it was sent, the password.
func TestServerThatRepeatsThePassword(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, "--rename-command", "HELLO", "", "--rename-command", "AUTH", "", "--requirepass", "other")
	for what, secret := range secrets {
		for _, user := range []string{"", "someone@"} {
			_, err := open(t, withSecret(t, user, server.Addr, secret)).Acquire(t.Context(), request("a"))
			wantRefused(t, err, "redis://"+server.Addr+" knows no AUTH")
			if part := leaks(err.Error(), secret); part != "" {
				t.Errorf("%q of a password %s in %v", part, what, err)
			}
		}
	}
}

// What sends back what it is sent is no Redis, and is shown with none of it.
func TestEcho(t *testing.T) {
	t.Parallel()
	addr := stranger(t, func(conn net.Conn) { io.Copy(conn, conn) })
	for what, secret := range secrets {
		_, err := open(t, withSecret(t, "", addr, secret)).Acquire(t.Context(), request("a"))
		wantTrouble(t, err, "isn't Redis's protocol")
		if part := leaks(err.Error(), secret); part != "" {
			t.Errorf("%q of a password %s in %v", part, what, err)
		}
	}
}

// Whatever a server says in answer to a HELLO or an AUTH, it is told in words of ours.
func TestShutOut(t *testing.T) {
	t.Parallel()
	s := &server{settings: &settings{name: "redis://h:6379", password: "hunter2"}}
	for text, want := range map[string]string{
		"WRONGPASS hunter2 is wrong":                 "refuses the user or password",
		"NOAUTH hunter2":                             "wants a password",
		"DENIED hunter2":                             "protected mode",
		"LOADING hunter2":                            "is loading its data",
		"ERR max number of clients reached, hunter2": "all the clients",
		"ERR AUTH <password> called without any password configured for hunter2": "has no password",
		"ERR unknown command 'auth', with args beginning with: 'hunter2'":        "knows no AUTH",
		"ERR unknown command `auth hunter2`":                                     "knows no AUTH",
		"NOPERM hunter2":                                                         "refuses HELLO and AUTH",
		"ERR hunter2: unknown command":                                           "refuses HELLO and AUTH",
		"ERR wrong number of arguments: hunter2 ":                                "refuses HELLO and AUTH",
		"hunter2": "refuses HELLO and AUTH",
	} {
		err := s.shutOut(answerError(text))
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
