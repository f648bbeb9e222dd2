package servers

import (
	"net"
	"testing"
)

// Redis starts a redis-server that keeps nothing over a restart, unless the arguments
// say otherwise: they are redis-server's own, come last and so win. In them, {port}
// and {dir} stand for the server's: "--port", "0", "--tls-port", "{port}".
func Redis(t testing.TB, args ...string) *Process {
	t.Helper()
	return redis(t, Host{}, nil, args...)
}

// RedisNode starts one in cluster mode, whose port for other nodes would otherwise be one that
// the kernel gives to clients.
func RedisNode(t testing.TB, args ...string) *Process {
	t.Helper()
	_, port, _ := net.SplitHostPort(address(t))
	return Redis(t, append([]string{"--cluster-enabled", "yes", "--cluster-port", port}, args...)...)
}

func redis(t testing.TB, on Host, env []string, args ...string) *Process {
	t.Helper()
	argv := []string{
		"redis-server", "--bind", on.ip(), "--port", "{port}", "--dir", "{dir}",
		"--save", "", "--appendonly", "no",
	}
	return on.prepare(t, "Ready to accept connections", env, append(argv, args...)...).serve()
}
