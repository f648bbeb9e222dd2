package postgres

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"flockd/backends"
	"flockd/backends/stored"
)

// settings are what a URL says, and where it is silent, libpq's variables and files.
type settings struct {
	hosts    []*pgconn.Config // one each
	name     string           // of the servers in messages, without secrets
	database string           // its URL, likewise
	password string
	prefix   string // the schema
	timeout  time.Duration
}

// options are those of libpq's that are left to it.
var options = []string{
	"user", "host", "port", "dbname", "passfile", "service", "connect_timeout", "application_name", "options", "target_session_attrs",
	"sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword", "sslcertmode", "sslsni", "sslnegotiation", "channel_binding", "require_auth",
	"krbsrvname",
}

func read(u *backends.URL) (*settings, error) {
	if err := u.CheckOptions(append([]string{"password-file"}, options...)...); err != nil {
		return nil, err
	}
	if u.Host == "" && !strings.HasPrefix(u.Path, "/") && u.Path != "" {
		return nil, backends.BadURL("the %s: URL lacks its //: %s://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE", u.Scheme, u.Scheme)
	}
	if attrs := u.Query.Get("target_session_attrs"); attrs != "" && !slices.Contains([]string{"any", "read-write", "primary"}, attrs) {
		return nil, backends.BadURL("?target_session_attrs=%s: flockd needs a server that takes writes", attrs)
	}
	s := &settings{prefix: u.Prefix()}
	var err error
	if err := checkPrefix(s.prefix); err != nil {
		return nil, err
	}
	if s.timeout, err = u.Timeout(); err != nil {
		return nil, err
	}
	if s.password, err = u.ReadPassword(); err != nil {
		return nil, err
	}
	return s, s.where(u)
}

// checkPrefix refuses what is no plain identifier, and so would need quotes wherever the
// administrator names it, what PostgreSQL keeps for itself, and the schema to which all may add
// functions before release 15.
func checkPrefix(prefix string) error {
	if !stored.Plain(prefix) || strings.HasPrefix(prefix, "pg_") || prefix == "public" {
		return backends.BadURL("?prefix=%s: the name of a schema here has a-z, 0-9 and _, 21 at most, begins with none of 0-9 nor with pg_, and isn't public", prefix)
	}
	return nil
}

// where makes the settings of each host. Each by itself, so that it gets its own password from
// libpq's file, and its own share of the time.
func (s *settings) where(u *backends.URL) error {
	hosts, ports, err := split(u)
	if err != nil {
		return err
	}
	all, err := s.parse(u, strings.Join(hosts, ","), strings.Join(ports, ","))
	if err != nil {
		return err
	}
	var names []string
	for _, at := range append([]*pgconn.FallbackConfig{{Host: all.Host, Port: all.Port}}, all.Fallbacks...) {
		port := strconv.Itoa(int(at.Port))
		name := net.JoinHostPort(at.Host, port)
		if slices.Contains(names, name) {
			continue // without TLS
		}
		one, err := s.parse(u, at.Host, port)
		if err != nil {
			return err
		}
		s.hosts, names = append(s.hosts, one), append(names, name)
	}
	s.name = "postgres://" + strings.Join(names, ",")
	s.database = s.name + "/" + s.hosts[0].Database
	if s.password == "" {
		s.password = s.hosts[0].Password
	}
	return nil
}

// split is the hosts and the ports of a URL, "" for each that it doesn't name; none: it names
// no host.
func split(u *backends.URL) (hosts, ports []string, err error) {
	if u.Host == "" {
		return nil, nil, nil
	}
	for part := range strings.SplitSeq(u.Host, ",") {
		host, port := part, ""
		if i := strings.LastIndexByte(part, ':'); i > strings.LastIndexByte(part, ']') {
			host, port = part[:i], part[i+1:]
		}
		host, err := url.PathUnescape(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || port != "" && (bad != nil || n == 0) {
			return nil, nil, backends.BadURL("a host of the %s: URL is HOST or HOST:PORT with a port from 1 to 65535", u.Scheme)
		}
		hosts, ports = append(hosts, host), append(ports, port)
	}
	return hosts, ports, nil
}

// parse has libpq's ways with what the URL says.
func (s *settings) parse(u *backends.URL, hosts, ports string) (*pgconn.Config, error) {
	words := map[string]string{"host": hosts, "port": ports, "user": u.User, "dbname": strings.TrimPrefix(u.Path, "/")}
	for option, values := range u.Query {
		if slices.Contains(options, option) && words[option] == "" {
			words[option] = values[0]
		}
	}
	var text strings.Builder
	for word, value := range words {
		if value != "" {
			text.WriteString(word + "='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "' ")
		}
	}
	config, err := pgconn.ParseConfig(text.String())
	if err != nil {
		return nil, s.unread(u, err)
	}
	if s.password != "" {
		config.Password = s.password
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "flockd"
	}
	config.LookupFunc = unresolved
	return config, nil
}

// unread says what is wrong with the options. The library repeats what it was given, and we
// don't.
func (s *settings) unread(u *backends.URL, err error) error {
	text := err.Error()
	if i := strings.LastIndex(text, "`: "); i >= 0 {
		text = text[i+len("`: "):]
	}
	return backends.BadURL("the %s: URL, or libpq's variables: %s", u.Scheme, backends.Quote(text, u.Query.Get("sslpassword")))
}
