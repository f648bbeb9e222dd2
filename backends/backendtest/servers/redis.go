package servers

import "testing"

// Redis starts a redis-server that keeps nothing over a restart, unless the arguments
// say otherwise: they are redis-server's own, come last and so win. In them, {port}
// and {dir} stand for the server's: "--port", "0", "--tls-port", "{port}".
func Redis(t testing.TB, args ...string) *Process {
	t.Helper()
	return redis(t, nil, args...)
}

func redis(t testing.TB, env []string, args ...string) *Process {
	t.Helper()
	argv := []string{
		"redis-server", "--bind", "127.0.0.1", "--port", "{port}", "--dir", "{dir}",
		"--save", "", "--appendonly", "no",
	}
	return start(t, address(t), "Ready to accept connections", env, append(argv, args...)...)
}
