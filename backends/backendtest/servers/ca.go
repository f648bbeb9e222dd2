package servers

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
)

// Authority signs the certificates of one test's servers and clients.
type Authority struct {
	File string // its own certificate, in PEM

	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// CA makes an authority that nobody else knows.
func CA(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: t.TempDir()}
	template := certificate("flockd test authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage |= x509.KeyUsageCertSign
	a.File, _ = a.issue("ca", template)
	return a
}

// Server is the certificate and key, two PEM files, of a server that is reached as
// localhost or 127.0.0.1. It is good for a client too, as etcd's gateway is one of its
// own server.
func (a *Authority) Server() (cert, key string) {
	a.t.Helper()
	template := certificate("localhost")
	template.DNSNames, template.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return a.issue("server", template)
}

// Client is the certificate and key, two PEM files, of a client of that name: etcd
// takes it for the user's.
func (a *Authority) Client(name string) (cert, key string) {
	a.t.Helper()
	template := certificate(name)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue("client", template)
}

// RedisArgs are the arguments of a Redis that speaks TLS on its port, and asks clients
// for no certificate.
func (a *Authority) RedisArgs() []string {
	a.t.Helper()
	cert, key := a.Server()
	return []string{
		"--port", "0", "--tls-port", "{port}", "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", a.File, "--tls-auth-clients", "optional",
	}
}

// EtcdArgs are the arguments of an etcd that speaks TLS to clients, and asks them for a
// certificate of this authority.
func (a *Authority) EtcdArgs() []string {
	a.t.Helper()
	cert, key := a.Server()
	return []string{"--cert-file", cert, "--key-file", key, "--trusted-ca-file", a.File, "--client-cert-auth"}
}

// MariaDBArgs are the arguments of a MariaDB that speaks TLS alone, and asks clients for
// no certificate.
func (a *Authority) MariaDBArgs() []string {
	a.t.Helper()
	cert, key := a.Server()
	return []string{"--ssl-cert=" + cert, "--ssl-key=" + key, "--ssl-ca=" + a.File, "--require-secure-transport=ON"}
}

// PostgresSettings are the settings of a PostgreSQL that speaks TLS alone, and asks clients
// for no certificate.
func (a *Authority) PostgresSettings() []string {
	a.t.Helper()
	who, err := unprivileged()
	a.check(err)
	cert, key := a.Server()
	admits := filepath.Join(a.dir, "pg_hba.conf")
	a.check(os.WriteFile(admits, []byte(strings.ReplaceAll(admission, "host ", "hostssl ")), 0o644))
	a.check(enterable(a.dir))
	a.check(errors.Join(who.own(cert), who.own(key)))
	return []string{"ssl=on", "ssl_cert_file=" + cert, "ssl_key_file=" + key, "hba_file=" + admits}
}

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), // longer than a test
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

// issue signs, with the authority's key or, if that is none yet, with the new one.
func (a *Authority) issue(kind string, template *x509.Certificate) (certFile, keyFile string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.check(err)
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	a.check(err)
	if a.cert == nil {
		a.cert, a.key = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	a.check(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	a.check(err)
	stem := filepath.Join(a.dir, kind+"-"+template.SerialNumber.Text(16))
	a.write(stem+".crt", "CERTIFICATE", der)
	a.write(stem+".key", "PRIVATE KEY", keyDER)
	return stem + ".crt", stem + ".key"
}

func (a *Authority) write(path, kind string, der []byte) {
	a.t.Helper()
	a.check(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func (a *Authority) check(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatalf("certificates: %v", err)
	}
}
