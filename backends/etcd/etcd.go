package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"

	"flockd/backends"
	"flockd/backends/certs"
)

// Store is one client of a cluster.
type Store struct {
	cluster *cluster
	prefix  string
	timeout time.Duration // of one call
	memory  memory
}

var _ interface {
	backends.Backend
	backends.Waiter
	backends.Watcher
	backends.Ledger
	backends.Register
	backends.Cautioner
} = (*Store)(nil)

// Open reads etcd://[USER:PASSWORD@]HOST[:PORT],…[/PREFIX], etcds: for TLS. It begins
// to connect, and leaves it to the first request to say whether that succeeds.
func Open(_ context.Context, u *backends.URL) (backends.Backend, error) {
	s, err := newStore(u)
	if err != nil {
		return nil, err
	}
	go warm()
	s.cluster.hasten(s.timeout)
	return s, nil
}

func newStore(u *backends.URL) (*Store, error) {
	options := []string{"password-file"}
	var config *tls.Config
	var err error
	if u.Scheme == "etcds" {
		options = append(options, certs.Options...)
	}
	if err := u.CheckOptions(options...); err != nil {
		return nil, err
	}
	if u.Scheme == "etcds" {
		if config, err = certs.Config(u); err != nil {
			return nil, err
		}
	}
	endpoints, err := endpointsOf(u)
	if err != nil {
		return nil, err
	}
	prefix, err := prefixOf(u)
	if err != nil {
		return nil, err
	}
	password, err := u.ReadPassword()
	if err != nil {
		return nil, err
	}
	if (u.User == "") != (password == "") {
		return nil, backends.BadURL("the %s: URL names a user without a password, or a password without a user", u.Scheme)
	}
	timeout, err := u.Timeout()
	if err != nil {
		return nil, err
	}
	return &Store{
		cluster: newCluster(endpoints, config, u.User, password),
		prefix:  prefix, timeout: timeout, memory: memory{of: map[string]known{}},
	}, nil
}

// endpointsOf lists the members, each with its port.
func endpointsOf(u *backends.URL) (endpoints []string, err error) {
	for host := range strings.SplitSeq(u.Host, ",") {
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			name, port = strings.Trim(host, "[]"), ""
		}
		switch {
		case name == "":
			return nil, backends.BadURL("the %s: URL names no host, or an empty one: %s://h1:2379,h2:2379", u.Scheme, u.Scheme)
		case err == nil && port == "":
			return nil, backends.BadURL("the hosts of the %s: URL are names alone, and the scheme stands once: %s://h1:2379,h2:2379", u.Scheme, u.Scheme)
		}
		endpoints = append(endpoints, net.JoinHostPort(name, cmp.Or(port, "2379")))
	}
	return endpoints, nil
}

// prefixOf is what all keys begin with, less the '/' that follows: the path, or ?prefix=.
func prefixOf(u *backends.URL) (string, error) {
	path, option := strings.Trim(u.Path, "/"), strings.Trim(u.Prefix(), "/")
	switch {
	case path != "" && u.Query.Has("prefix"):
		return "", backends.BadURL("the %s: URL has a path and a ?prefix=, which mean the same", u.Scheme)
	case strings.HasPrefix(u.Path, "//"), strings.Contains(path, "//"), strings.Contains(option, "//"), option == "":
		return "", backends.BadURL("the prefix of the %s: URL has an empty part", u.Scheme)
	}
	return cmp.Or(path, option), nil
}

// Traits: a claim is named after its ID and its lease is the server's, so any client
// can work on it, and it stays when the client goes. A lease is never shorter than
// granted, so nothing needs to be taken off; how short the server grants one isn't
// known before it does.
func (s *Store) Traits() backends.Traits {
	return backends.Traits{Clock: backends.Boottime, Portable: true, Outlives: true}
}

// Close implements backends.Backend.
func (s *Store) Close() error {
	s.cluster.close()
	return nil
}

// call runs op, perhaps more than once, for as long as ctx and ?timeout= allow.
func (s *Store) call(ctx context.Context, op func(context.Context, *link) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.cluster.call(ctx, op)
}
