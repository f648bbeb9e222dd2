package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"flockd/backends"
	"flockd/backends/certs"
	"flockd/backends/stored"
)

// Errors that our functions and scripts raise: see head.sql and answer_1.
const (
	ownAnswer   = "FLKD1"
	notOurs     = "FLKD2"
	newerTables = "FLKD3"
	alreadyMade = "FLKD4"
)

// An end is what an error means for a step.
type end string

const (
	other     end = ""
	again     end = "again"     // certainly not applied, and may be by another try
	missing   end = "missing"   // the schema or its functions aren't there
	displaced end = "displaced" // the server isn't the primary any more, or is going
)

func fate(err error) end {
	var said *pgconn.PgError
	if !errors.As(err, &said) {
		return other
	}
	switch said.Code {
	case "40001", "40P01", "55P03": // serialization, deadlock, lock timeout
		return again
	case "42883", "3F000", "42P01", "42704": // no such function, schema, table, type
		return missing
	case "25006", "0A000", "57P01", "57P02", "57P03": // read-only, in recovery (asked to write), going, crashed, not there yet
		return displaced
	}
	return other
}

// errAccess says that no other host is worth a try.
var errAccess = errors.New("no access")

// accessError is a refusal that all hosts of a cluster share.
type accessError struct{ error }

func (e accessError) Unwrap() []error { return []error{e.error, errAccess} }

// classify turns the errors of the library into ours. What may pass is an ordinary error.
func (s *server) classify(err error) error {
	var said *pgconn.PgError
	var refused *backends.RefusedError
	switch {
	case err == nil, errors.As(err, &refused), errors.Is(err, errClosed), stored.IsTrouble(err):
		return err
	case errors.As(err, &said):
		return s.classifyAnswer(said)
	case late(err):
		return s.fault(context.DeadlineExceeded, "no answer in time")
	case errors.Is(err, context.Canceled):
		return err
	}
	return s.fault(err, "lost the connection: %v", stored.Bare(err))
}

func (s *server) fault(cause error, format string, args ...any) error {
	return stored.Trouble(cause, "%s: %s", s.name, fmt.Sprintf(format, args...))
}

const prefixHint = "?prefix= names another schema"

// schemaHint names the prefix, for without it the administrator would make another schema.
func (s *server) schemaHint() string {
	prefix := ""
	if s.prefix != backends.DefaultPrefix {
		prefix = " --prefix " + s.prefix
	}
	return `"flockd schema postgres` + prefix + ` | psql DATABASE", by an administrator, makes what it needs; --grant-to names flockd's user`
}

// classifyAnswer judges an error that the server sent.
func (s *server) classifyAnswer(said *pgconn.PgError) error {
	text := backends.Quote(said.Message, s.password)
	switch codeOf(said) {
	case "28P01":
		return backends.Refuse("", "%s refuses the user or password: %s", s.name, text)
	case "28000":
		return backends.Refuse("pg_hba.conf there says who may connect, and how", "%s refuses us: %s", s.name, text)
	case "3D000":
		return backends.Refuse("the URL's path names the database", "%s: %s", s.name, text)
	case "42501":
		return backends.Refuse(s.schemaHint(), "%s: the user lacks a right: %s", s.name, text)
	case "42883", "3F000", "42P01", "42704":
		return backends.Refuse(s.schemaHint(), "%s: the schema %s is incomplete: %s", s.name, s.prefix, text)
	case "25006", "0A000":
		return s.standby()
	case notOurs, "42P07", "42703":
		return backends.Refuse(prefixHint, "%s: the schema %s is another program's", s.name, s.prefix)
	case newerTables:
		return backends.Refuse("use the newer flockd here as well",
			"%s: the schema %s was made by a newer flockd (version %s, this one knows 1)", s.name, s.prefix, said.Detail)
	}
	return s.classifyTrouble(said, text)
}

// codeOf tells the refusals of pgbouncer by their words, for 1.18 has one code for all of them,
// for what the server has told it as well.
func codeOf(said *pgconn.PgError) string {
	begins := func(text string) bool { return strings.HasPrefix(said.Message, text) }
	switch {
	case said.Code != "08P01":
	case begins("no such database"), begins("database ") && strings.HasSuffix(said.Message, " does not exist"):
		return "3D000"
	case begins("no such user"), begins("password authentication failed"), begins("SASL authentication failed"):
		return "28P01"
	}
	return said.Code
}

// classifyTrouble puts in words what may pass.
func (s *server) classifyTrouble(said *pgconn.PgError, text string) error {
	switch said.Code {
	case "57014":
		return s.fault(context.DeadlineExceeded, "no answer in time: %s", text)
	case "55P03":
		return s.fault(context.DeadlineExceeded, "another session has locked flockd's tables")
	case "53300":
		return s.fault(said, "it has all the clients that it takes")
	case "53100":
		return s.fault(said, "its disk is full")
	case "57P03":
		return s.fault(said, "it takes no clients at the moment: %s", text)
	case "57P01", "57P02":
		return s.fault(said, "it has ended the session: %s", text)
	}
	return s.fault(said, "%s", text)
}

// standby is final for a server that has never been a primary to us.
func (s *server) standby() error {
	if s.served.Load() {
		return s.fault(errStandby, "it is a standby now")
	}
	return backends.Refuse("name its primary", "%s: %w", s.name, errStandby)
}

// unmade says why a part of the schema couldn't be made.
func (s *server) unmade(what string, err error) error {
	var said *pgconn.PgError
	if errors.As(err, &said) && said.Code == "42501" {
		return backends.Refuse(s.schemaHint(), "%s has no %s, and the user may not make it: %s",
			s.name, what, backends.Quote(said.Message, s.password))
	}
	return s.classify(err)
}

// unreachable says why there is no connection to a host.
func (s *server) unreachable(host *pgconn.Config, err error) error {
	var said *pgconn.PgError
	var refused *backends.RefusedError
	var certificate *tls.CertificateVerificationError
	var dns *net.DNSError
	at := func(cause error, format string, args ...any) error {
		return stored.Trouble(cause, "%s: %s", addressOf(host), fmt.Sprintf(format, args...))
	}
	switch {
	case errors.As(err, &refused):
		return accessError{refused}
	case errors.As(err, &said) && said.Code == "42501":
		return accessError{backends.Refuse("GRANT CONNECT ON DATABASE lets it in", "%s: the user lacks a right: %s", s.name, backends.Quote(said.Message, s.password))}
	case errors.As(err, &said):
		err = s.classifyAnswer(said)
		if errors.Is(err, backends.ErrRefused) && !errors.Is(err, errStandby) {
			return accessError{err}
		}
		return err
	case errors.Is(err, errStandby):
		return at(errStandby, "it is a standby")
	case errors.As(err, &certificate):
		return accessError{backends.Refuse(strings.Replace(certs.Hint(certificate), "?cacert=", "?sslrootcert=", 1), "%s: %v", addressOf(host), certificate.Err)}
	case errors.As(err, &dns) && dns.IsNotFound:
		return at(err, "no such host")
	case errors.Is(err, context.Canceled):
		return err
	case late(err):
		return at(context.DeadlineExceeded, "no connection in time")
	}
	return s.unmet(host, err, at)
}

// unmet tells by its words what the library has no type for.
func (s *server) unmet(host *pgconn.Config, err error, at func(error, string, ...any) error) error {
	var op *net.OpError
	text := err.Error()
	switch {
	case strings.Contains(text, "server refused TLS connection") && len(host.Fallbacks) == 0: // or it was tried without, and the rest is why not
		return accessError{backends.Refuse("?sslmode=prefer takes what the server has", "%s: it speaks no TLS", addressOf(host))}
	case errors.As(err, &op) && op.Op == "remote error":
		return accessError{backends.Refuse("?sslcert= and ?sslkey= name the certificate to show", "%s: it refuses our TLS: %v", addressOf(host), op.Err)}
	case strings.Contains(text, "SASL auth"), strings.Contains(text, "channel binding"), strings.Contains(text, "require_auth"), strings.Contains(text, "sslcertmode"):
		last := text[strings.LastIndex(text, ": ")+2:]
		return accessError{backends.Refuse("", "%s: it can't be trusted with the password: %s", addressOf(host), backends.Quote(last, s.password))}
	}
	return at(err, "%v", stored.Bare(err))
}

// nowhere says why none of the hosts will do. Where all of them are standbys, waiting is of no
// use, unless one has just been the primary.
func (s *server) nowhere(failures []error) error {
	standbys := 0
	var texts []string
	for _, err := range failures {
		if errors.Is(err, errStandby) {
			standbys++
		}
		texts = append(texts, err.Error())
	}
	switch {
	case standbys == len(failures):
		return s.standby()
	case len(failures) == 1:
		return failures[0]
	}
	return stored.Trouble(errors.Join(failures...), "%s", strings.Join(texts, "; "))
}

func addressOf(host *pgconn.Config) string {
	network, address := pgconn.NetworkAddress(host.Host, host.Port)
	if network == "unix" {
		return address
	}
	return "postgres://" + address
}

func late(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err)
}
