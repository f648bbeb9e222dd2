package redis

import (
	"cmp"
	"crypto/tls"
	"net"
	"path"
	"strconv"
	"strings"
	"time"

	"flockd/backends"
	"flockd/backends/certs"
)

const defaultPort = "6379"

// settings are what a URL says.
type settings struct {
	network, address string      // for net.Dial
	tls              *tls.Config // nil: plain
	name             string      // of the server in messages, without secrets
	user, password   string
	db               int
	prefix           names
	timeout          time.Duration // of one request
	replicas         int           // that must have a grant or renewal
}

func read(u *backends.URL) (*settings, error) {
	s := &settings{}
	for _, part := range []func(*backends.URL) error{s.where, s.who, s.how} {
		if err := part(u); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// where reads the server's address and database.
func (s *settings) where(u *backends.URL) error {
	if u.Scheme == "redis+unix" {
		return s.socket(u)
	}
	options := []string{"password-file", "min-replicas"}
	if u.Scheme == "rediss" {
		options = append(options, certs.Options...)
	}
	if err := u.CheckOptions(options...); err != nil {
		return err
	}
	host, port, err := splitHost(u)
	if err != nil {
		return err
	}
	s.network, s.address = "tcp", net.JoinHostPort(host, port)
	s.name = u.Scheme + "://" + s.address
	if u.Scheme == "rediss" {
		if s.tls, err = certs.Config(u); err != nil {
			return err
		}
		s.tls.ServerName = host
	}
	s.db, err = database(u, strings.TrimPrefix(u.Path, "/"))
	return err
}

func splitHost(u *backends.URL) (host, port string, err error) {
	switch {
	case strings.Contains(u.Host, ","):
		return "", "", backends.BadURL("the %s: URL names one host, the primary, not several", u.Scheme)
	case u.Host == "":
		return "", "", backends.BadURL("the %s: URL has no host: %s://HOST[:PORT][/DB]", u.Scheme, u.Scheme)
	}
	host, port, err = net.SplitHostPort(u.Host)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(u.Host, "["), "]"), defaultPort
		if strings.Contains(host, ":") && !strings.HasPrefix(u.Host, "[") {
			return "", "", backends.BadURL("the host of the %s: URL can't be read; an IPv6 address stands in brackets", u.Scheme)
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" {
		return "", "", backends.BadURL("the host of the %s: URL is HOST or HOST:PORT with a port from 1 to 65535", u.Scheme)
	}
	return host, port, nil
}

func (s *settings) socket(u *backends.URL) (err error) {
	if err := u.CheckOptions("db", "password-file", "min-replicas"); err != nil {
		return err
	}
	if u.Host != "" || !path.IsAbs(u.Path) {
		return backends.BadURL("the redis+unix: URL names a socket by its absolute path: redis+unix:///run/redis.sock")
	}
	s.network, s.address, s.name = "unix", u.Path, "redis+unix://"+u.Path
	s.db, err = database(u, u.Query.Get("db"))
	return err
}

// database reads the number of a database; none is 0.
func database(u *backends.URL, text string) (int, error) {
	db, err := strconv.ParseUint(cmp.Or(text, "0"), 10, 31)
	if err != nil {
		return 0, backends.BadURL("the database of the %s: URL is a number from 0, not %q", u.Scheme, text)
	}
	return int(db), nil
}

// who reads the credentials.
func (s *settings) who(u *backends.URL) (err error) {
	s.user = u.User
	if s.password, err = u.ReadPassword(); err != nil {
		return err
	}
	if s.user != "" && s.password == "" {
		return backends.BadURL("the %s: URL has a user and no password: in the URL, or by ?password-file=", u.Scheme)
	}
	return nil
}

// how reads the options that every form has.
func (s *settings) how(u *backends.URL) (err error) {
	s.prefix = names(u.Prefix())
	if err := checkPrefix(u.Prefix()); err != nil {
		return err
	}
	if text := u.Query.Get("min-replicas"); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return backends.BadURL("?min-replicas=%s is not a number from 0", text)
		}
		s.replicas = int(n)
	}
	s.timeout, err = u.Timeout()
	return err
}
