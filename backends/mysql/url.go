package mysql

import (
	"cmp"
	"crypto/tls"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"flockd/backends"
	"flockd/backends/certs"
)

const defaultPort = "3306"

// settings are what a URL says.
type settings struct {
	network        string // for net.Dial
	addresses      []string
	tls            *tls.Config // nil: plain. Each connection gets a copy with its host's name
	fallback       bool        // plain where the server has no TLS
	name           string      // of the server in messages, without secrets
	user, password string
	database       string
	prefix         names
	timeout        time.Duration // of one request
}

func read(u *backends.URL) (*settings, error) {
	s := &settings{}
	for _, part := range []func(*backends.URL) error{s.where, s.encryption, s.how} {
		if err := part(u); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// where reads the addresses and the database.
func (s *settings) where(u *backends.URL) error {
	if u.Scheme == "mysql+unix" {
		return s.socket(u)
	}
	if err := u.CheckOptions(append([]string{"password-file", "tls"}, certs.Options...)...); err != nil {
		return err
	}
	for host := range strings.SplitSeq(u.Host, ",") {
		host, port, err := splitHost(u, host)
		if err != nil {
			return err
		}
		s.addresses = append(s.addresses, net.JoinHostPort(host, port))
	}
	s.network, s.name = "tcp", "mysql://"+strings.Join(s.addresses, ",")
	return s.in(u, strings.TrimPrefix(u.Path, "/"))
}

func splitHost(u *backends.URL, text string) (host, port string, err error) {
	if text == "" {
		return "", "", backends.BadURL("the mysql: URL has no host, or an empty one: mysql://HOST[:PORT][,HOST…]/DATABASE")
	}
	host, port, err = net.SplitHostPort(text)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"), defaultPort
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" {
		return "", "", backends.BadURL("a host of the mysql: URL is HOST or HOST:PORT with a port from 1 to 65535")
	}
	return host, port, nil
}

func (s *settings) socket(u *backends.URL) error {
	if err := u.CheckOptions("db", "password-file"); err != nil {
		return err
	}
	if u.Host != "" || !path.IsAbs(u.Path) {
		return backends.BadURL("the mysql+unix: URL names a socket by its absolute path: mysql+unix://USER@/run/mysqld/mysqld.sock?db=DATABASE")
	}
	s.network, s.addresses, s.name = "unix", []string{u.Path}, "mysql+unix://"+u.Path
	return s.in(u, u.Query.Get("db"))
}

// in reads the name of the database.
func (s *settings) in(u *backends.URL, database string) error {
	switch {
	case database == "" && u.Scheme == "mysql":
		return backends.BadURL("the mysql: URL names no database: mysql://HOST/DATABASE")
	case database == "":
		return backends.BadURL("the mysql+unix: URL names no database: ?db=")
	case strings.Contains(database, "/"):
		return backends.BadURL("the mysql: URL has more in its path than the name of a database")
	}
	s.database = database
	return nil
}

// address is the URL of the database, without secrets.
func (s *settings) address() string {
	if s.network == "unix" {
		return s.name + "?db=" + s.database
	}
	return s.name + "/" + s.database
}

// encryption reads ?tls=: true, or one of the certificates, is TLS with a server that proves
// its name; skip-verify with any server; preferred with any, or without where it has none.
func (s *settings) encryption(u *backends.URL) (err error) {
	named := slices.ContainsFunc(certs.Options, u.Query.Has)
	mode := u.Query.Get("tls")
	switch {
	case mode == "" && !named:
		return nil
	case mode == "false" && named, mode == "preferred" && named:
		return backends.BadURL("?tls=%s of the mysql: URL doesn't go with ?cacert=, ?cert= and ?key=", mode)
	case mode == "false":
		return nil
	case !slices.Contains([]string{"", "true", "skip-verify", "preferred"}, mode):
		return backends.BadURL("?tls=%s of the mysql: URL is none of true, skip-verify, preferred and false", mode)
	}
	s.tls, err = certs.Config(u)
	if err == nil {
		s.tls.InsecureSkipVerify = mode == "skip-verify" || mode == "preferred"
		s.fallback = mode == "preferred"
	}
	return err
}

// how reads who asks, and the options that every form has.
func (s *settings) how(u *backends.URL) (err error) {
	s.user = u.User
	if s.password, err = u.ReadPassword(); err != nil {
		return err
	}
	if s.user == "" {
		return backends.BadURL("the %s: URL names no user: %s://USER:PASSWORD@…", u.Scheme, u.Scheme)
	}
	if s.prefix, err = checkPrefix(cmp.Or(u.Query.Get("prefix"), backends.DefaultPrefix)); err != nil {
		return err
	}
	s.timeout, err = u.Timeout()
	return err
}
