package etcd

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"flockd/backends/backendtest/servers"
)

// authority signs certificates, into files of dir.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// file is one of the files that sign wrote.
func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// sign makes name.pem and name.key.
func (a *authority) sign(name string, cert *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	cert.SerialNumber, cert.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	cert.NotBefore, cert.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, parentKey := a.cert, a.key
	if parent == nil {
		parent, parentKey = cert, key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, parentKey)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".pem", "CERTIFICATE", der)
	a.write(name+".key", "EC PRIVATE KEY", secret)
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return signed, key
}

func (a *authority) write(name, kind string, der []byte) {
	a.t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(a.file(name), text, 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// secure is a server with a certificate for 127.0.0.1, and {ca} in args for its authority's.
func secure(t testing.TB, args ...string) (addr string, a *authority) {
	a = newAuthority(t)
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	a.sign("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: both})
	a.sign("alice", &x509.Certificate{ExtKeyUsage: both[1:]})
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "{ca}", a.file("ca.pem"))
	}
	args = append([]string{"--cert-file", a.file("server.pem"), "--key-file", a.file("server.key")}, args...)
	return servers.Etcd(t, servers.Current, args...).Addr, a
}

func TestTLS(t *testing.T) {
	t.Parallel()
	addr, a := secure(t)
	usesAll(t, open(t, "etcds://"+addr+"?cacert="+a.file("ca.pem")))
	_, err := open(t, "etcds://"+addr).Acquire(t.Context(), request(t))
	isRefused(t, err, addr+": its certificate is not trusted", "?cacert=")
	_, port, _ := net.SplitHostPort(addr)
	_, err = open(t, "etcds://localhost:"+port+"?cacert="+a.file("ca.pem")).Acquire(t.Context(), request(t))
	isRefused(t, err, "localhost", "?cacert=")
	_, err = open(t, "etcd://"+addr).Acquire(t.Context(), request(t))
	isRefused(t, err, addr+" speaks TLS", "etcds://")
}

func TestTLSAgainstPlain(t *testing.T) {
	t.Parallel()
	p, _ := server(t)
	_, err := open(t, "etcds://"+p.Addr).Acquire(t.Context(), request(t))
	isRefused(t, err, p.Addr+" speaks no TLS", "etcd://")
}

// The certificate may be all that names the user.
func TestClientCertificate(t *testing.T) {
	t.Parallel()
	addr, a := secure(t, "--client-cert-auth", "--trusted-ca-file", "{ca}", "--bcrypt-cost", "4")
	url := "etcds://" + addr + "?cacert=" + a.file("ca.pem")
	_, err := open(t, url).Acquire(t.Context(), request(t))
	isRefused(t, err, addr+" asks for a certificate", "?cert= and ?key=")
	url += "&cert=" + a.file("alice.pem") + "&key=" + a.file("alice.key")
	usesAll(t, open(t, url))
	users := admin{t, open(t, url)}
	users.add("root", "rootpw")
	users.add("alice", "alicepw")
	users.do(func(ctx context.Context, c pb.AuthClient) error {
		_, err := c.AuthEnable(ctx, &pb.AuthEnableRequest{})
		return err
	})
	_, err = open(t, url).Acquire(t.Context(), request(t))
	isRefused(t, err, "the user of the client certificate lacks the right", "grant-permission")
	root := strings.Replace(url, "etcds://", "etcds://root:rootpw@", 1)
	admin{t, open(t, root)}.allow("alice", "flockd/")
	usesAll(t, open(t, url))
}
