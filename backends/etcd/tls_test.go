package etcd

import (
	"context"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"flockd/backends/backendtest/servers"
)

// shows is the certificate that it is given and its key, as options of a URL.
func shows(cert, key string) string { return "&cert=" + cert + "&key=" + key }

// secure is the address of a server with that certificate, which asks clients for none.
func secure(t testing.TB, issue func() (cert, key string)) (addr string) {
	t.Helper()
	cert, key := issue()
	return servers.Etcd(t, servers.Current, "--cert-file", cert, "--key-file", key).Addr
}

func TestTLS(t *testing.T) {
	t.Parallel()
	a, stranger := servers.CA(t), servers.CA(t)
	addr := secure(t, a.Server)
	nameless := secure(t, func() (cert, key string) { return a.Client("alice") }) // there is no address in it
	usesAll(t, open(t, "etcds://"+addr+"?cacert="+a.File))
	for _, c := range []struct{ scheme, addr, options, text, hint string }{
		{"etcds://", addr, "", ": its certificate is not trusted", "?cacert="},
		{"etcds://", addr, "?cacert=" + stranger.File, ": its certificate is not trusted", "?cacert="},
		{"etcds://", nameless, "?cacert=" + a.File, ": its certificate is not trusted: x509: cannot validate certificate for 127.0.0.1", "one of the names"},
		{"etcd://", addr, "", " speaks TLS", "etcds://"},
	} {
		_, err := open(t, c.scheme+c.addr+c.options).Acquire(t.Context(), request(t))
		isRefused(t, err, c.addr+c.text, c.hint)
		namesOnce(t, err, c.addr)
	}
}

// namesOnce checks that err names the member, and not again and again.
func namesOnce(t testing.TB, err error, addr string) {
	t.Helper()
	if n := strings.Count(err.Error(), addr); n != 1 {
		t.Errorf("%q names %s %d times", err, addr, n)
	}
}

func TestTLSAgainstPlain(t *testing.T) {
	t.Parallel()
	p, _ := server(t)
	_, err := open(t, "etcds://"+p.Addr).Acquire(t.Context(), request(t))
	isRefused(t, err, p.Addr+" speaks no TLS", "etcd://")
	namesOnce(t, err, p.Addr)
}

// The certificate may be all that names the user.
func TestClientCertificate(t *testing.T) {
	t.Parallel()
	a := servers.CA(t)
	addr := servers.Etcd(t, servers.Current, append(a.EtcdArgs(), "--bcrypt-cost", "4")...).Addr
	url := "etcds://" + addr + "?cacert=" + a.File
	for _, none := range []string{url, url + shows(servers.CA(t).Client("alice"))} {
		_, err := open(t, none).Acquire(t.Context(), request(t))
		isRefused(t, err, addr+" asks for a certificate", "?cert= and ?key=")
		namesOnce(t, err, addr)
	}
	url += shows(a.Client("alice"))
	usesAll(t, open(t, url))
	users := admin{t, open(t, url)}
	users.add("root", "rootpw")
	users.add("alice", "alicepw")
	users.do(func(ctx context.Context, c pb.AuthClient) error {
		_, err := c.AuthEnable(ctx, &pb.AuthEnableRequest{})
		return err
	})
	_, err := open(t, url).Acquire(t.Context(), request(t))
	isRefused(t, err, "the user of the client certificate lacks the right", "grant-permission")
	root := strings.Replace(url, "etcds://", "etcds://root:rootpw@", 1)
	admin{t, open(t, root)}.allow("alice", "flockd/")
	usesAll(t, open(t, url))
}
