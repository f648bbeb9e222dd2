package redis

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

// authority signs certificates, and keeps them in a folder.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.sign(t, "ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// sign makes NAME.pem and NAME.key.
func (a *authority) sign(t testing.TB, name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, name+".pem", &pem.Block{Type: "CERTIFICATE", Bytes: der})
	a.write(t, name+".key", &pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func (a *authority) write(t testing.TB, name string, block *pem.Block) {
	t.Helper()
	if err := os.WriteFile(a.file(name), pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// tlsRedis is a server that speaks TLS alone and wants certificates of a's.
func tlsRedis(t testing.TB, a *authority) *servers.Process {
	t.Helper()
	a.sign(t, "server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	a.sign(t, "client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return servers.Redis(t, "--port", "0", "--tls-port", "{port}",
		"--tls-cert-file", a.file("server.pem"), "--tls-key-file", a.file("server.key"), "--tls-ca-cert-file", a.file("ca.pem"))
}

func TestTLS(t *testing.T) {
	t.Parallel()
	a, stranger := newAuthority(t), newAuthority(t)
	server := tlsRedis(t, a)
	tlsRedis(t, stranger) // for its files
	ours := "&cert=" + a.file("client.pem") + "&key=" + a.file("client.key")
	base := "rediss://" + server.Addr + "?cacert="
	s := open(t, base+a.file("ca.pem")+ours)
	lease := acquire(t, s, request("a"))
	renew(t, s, lease)
	waiter := queue("a")
	answer := held(t, s, waiter)
	release(t, s, lease)
	if err := s.Wait(soon(t, 10*time.Second), answer); err != nil {
		t.Errorf("Wait = %v", err)
	}
	_, port, _ := net.SplitHostPort(server.Addr)
	for url, want := range map[string][2]string{
		base + stranger.file("ca.pem") + ours:                               {"unknown authority", "?cacert="},
		"rediss://localhost:" + port + "?cacert=" + a.file("ca.pem") + ours: {"localhost", "?cacert="},
	} {
		_, err := open(t, url).Acquire(t.Context(), request("b"))
		wantRefused(t, err, want[0])
		var refused *backends.RefusedError
		if errors.As(err, &refused) && !strings.Contains(refused.Hint, want[1]) {
			t.Errorf("%s: hint %q, want %q", url, refused.Hint, want[1])
		}
	}
	for _, url := range []string{
		base + a.file("ca.pem"), // shows none
		base + a.file("ca.pem") + strings.ReplaceAll(ours, a.dir, stranger.dir), // shows another's
	} {
		_, err := open(t, url).Acquire(t.Context(), request("b"))
		var refused *backends.RefusedError
		if !errors.As(err, &refused) { // the server's reason was lost with its connection
			wantTrouble(t, err, "?cert=")
		} else if !strings.Contains(err.Error(), "it refuses our TLS") || !strings.Contains(refused.Hint, "?cert=") {
			t.Errorf("%s: %v (%s)", url, err, refused.Hint)
		}
	}
}

// Redis closes a connection on which it hears no TLS, as it does in other cases.
func TestPlainToATLSServer(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	server := tlsRedis(t, a)
	_, err := open(t, "redis://"+server.Addr).Acquire(t.Context(), request("a"))
	wantTrouble(t, err, "does it speak TLS? then use rediss://")
}

// A server that doesn't speak TLS answers what looks to it like a line, or waits for
// the rest of it.
func TestTLSToAPlainServer(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	for range 2 { // the greeting has random bytes
		_, err := open(t, "rediss://"+server.Addr+"?timeout=200ms").Acquire(t.Context(), request("a"))
		if err == nil || !strings.Contains(err.Error(), "speak TLS") {
			t.Errorf("err = %v", err)
		}
	}
}

// An idle connection that the server closed costs no attempt, and one that hangs costs one.
func TestTLSConnectionsThatBreak(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	server := tlsRedis(t, a)
	x := servers.Proxy(t, server.Addr)
	s := open(t, "rediss://"+x.Addr+"?cacert="+a.file("ca.pem")+"&cert="+a.file("client.pem")+"&key="+a.file("client.key"))
	lease := acquire(t, s, request("a"))
	before := x.Accepted()
	renew(t, s, lease)
	if n := x.Accepted() - before; n != 0 {
		t.Errorf("%d new connections, want the old one used again", n)
	}
	x.Silence()
	_, err := s.Renew(soon(t, 300*time.Millisecond), lease)
	wantTrouble(t, err, "no answer in time")
	renew(t, s, lease)
	x.Stall(servers.Replies)
	_, err = open(t, "rediss://"+x.Addr+"?timeout=300ms&cacert="+a.file("ca.pem")).Acquire(t.Context(), request("b"))
	wantTrouble(t, err, "no answer to TLS in time")
}
