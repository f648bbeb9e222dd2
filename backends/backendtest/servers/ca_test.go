package servers_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends/backendtest/servers"
)

func TestTLSOfRedis(t *testing.T) {
	t.Parallel()
	ca := servers.CA(t)
	r := servers.Redis(t, ca.RedisArgs()...)
	conn, err := tls.Dial("tcp", r.Addr, trusting(t, ca))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "PING\r\n")
	link{t, conn}.wants("+PONG\r\n")
	if conn, err := tls.Dial("tcp", r.Addr, trusting(t, servers.CA(t))); err == nil {
		conn.Close()
		t.Error("another authority's client trusts the server")
	}
}

func TestTLSOfEtcd(t *testing.T) {
	t.Parallel()
	for _, v := range []servers.Version{servers.Current, servers.Debian} {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			ca := servers.CA(t)
			e := servers.Etcd(t, v, ca.EtcdArgs()...)
			config := trusting(t, ca)
			pair, err := tls.LoadX509KeyPair(ca.Client("alice"))
			if err != nil {
				t.Fatal(err)
			}
			config.Certificates = []tls.Certificate{pair}
			c, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Addr}, TLS: config})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Put(t.Context(), "key", "value"); err != nil {
				t.Error(err)
			}
		})
	}
}

func trusting(t *testing.T, ca *servers.Authority) *tls.Config {
	t.Helper()
	file, err := os.ReadFile(ca.File)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(file)
	return &tls.Config{RootCAs: roots, ServerName: "localhost"}
}
