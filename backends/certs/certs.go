// Package certs makes the TLS settings of a store from its URL.
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"

	"flockd/backends"
)

// Options are the URL options that Config reads; see [backends.URL.CheckOptions].
var Options = []string{"cacert", "cert", "key"}

// Config trusts the authorities in the PEM file ?cacert=, or the system's without
// it, and shows the certificate in the PEM files ?cert= and ?key=, if both are
// there. The name that the server must prove is set by whoever connects.
func Config(u *backends.URL) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := u.Query.Get("cacert"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, unreadable("cacert", file, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, backends.BadURL("?cacert=%s holds no certificate in PEM form", file)
		}
	}
	cert, key := u.Query.Get("cert"), u.Query.Get("key")
	switch {
	case cert == "" && key == "":
		return config, nil
	case cert == "" || key == "":
		return nil, backends.BadURL("?cert= and ?key= go together")
	}
	for option, file := range map[string]string{"cert": cert, "key": key} {
		if _, err := os.Stat(file); err != nil {
			return nil, unreadable(option, file, err)
		}
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, backends.BadURL("?cert=%s with ?key=%s: %v", cert, key, err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// Hint is what the user can do about a server's certificate that wasn't accepted.
func Hint(err *tls.CertificateVerificationError) string {
	if errors.As(err.Err, new(x509.HostnameError)) {
		return "the URL must have one of the names that the certificate is for"
	}
	return "?cacert= names the file of the authority that signed its certificate"
}

func unreadable(option, file string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err // the path is named already
	}
	return backends.BadURL("?%s=%s: %v", option, file, err)
}
