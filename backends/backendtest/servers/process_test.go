package servers_test

import (
	"bufio"
	"fmt"
	"net"
	"testing"
	"time"

	"flockd/backends/backendtest/servers"
)

// redisSays is what a Redis answers to one line, an error if it doesn't in time.
func redisSays(addr, line string, within time.Duration) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, within)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(within))
	fmt.Fprintf(conn, "%s\r\n", line)
	return bufio.NewReader(conn).ReadString('\n')
}

func TestRedis(t *testing.T) {
	r := servers.Redis(t)
	if got, err := redisSays(r.Addr, "PING", time.Minute); got != "+PONG\r\n" {
		t.Errorf("PING: %q, %v", got, err)
	}
}

func TestEtcd(t *testing.T) {
	for _, v := range []servers.Version{servers.Current, servers.Debian} {
		t.Run(v.String(), func(t *testing.T) {
			e := servers.Etcd(t, v)
			e.Kill()
			e.Start()
		})
	}
}
