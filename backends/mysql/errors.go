package mysql

import (
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"

	"flockd/backends"
	"flockd/backends/certs"
	"flockd/backends/stored"
)

// Numbers of the server's errors: the same in MySQL and MariaDB, but for those of which
// only one of them says so.
const (
	readOnly = 1290 // for some other options too
)

// numberOf is the number of an error that the server sent, 0 of any other.
func numberOf(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// isRolledBack reports whether err says that a step was certainly not applied, and may be
// by another try.
func isRolledBack(err error) bool {
	switch numberOf(err) {
	case 1213, // deadlock, or at the commit a conflict with another node of Galera
		1205, // waited for a lock for too long; the procedure has rolled back
		1020: // MariaDB: changed since the snapshot
		return true
	}
	return false
}

// isMissing reports whether err says that a procedure or a table isn't there.
func isMissing(err error) bool {
	switch numberOf(err) {
	case 1305, 1146:
		return true
	}
	return false
}

func (s *server) fault(cause error, format string, args ...any) error {
	return stored.Trouble(cause, "%s: %s", s.name, fmt.Sprintf(format, args...))
}

// classify turns the errors of the library into ours. What may pass is an ordinary error.
func (s *server) classify(err error) error {
	var said *mysql.MySQLError
	var ours *connectError
	var refused *backends.RefusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ours):
		return ours.error
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &said):
		return s.classifyAnswer(said)
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return s.fault(context.DeadlineExceeded, "no answer in time")
	case errors.Is(err, sql.ErrConnDone) || err.Error() == "sql: database is closed":
		return errors.New("the store is closed")
	}
	return s.classifyLink(err)
}

// classifyLink judges what went wrong on the way.
func (s *server) classifyLink(err error) error {
	var dns *net.DNSError
	var header tls.RecordHeaderError
	var certificate *tls.CertificateVerificationError
	var op *net.OpError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return s.fault(err, "no such host")
	case errors.Is(err, mysql.ErrNoTLS):
		return backends.Refuse("leave ?tls= and the certificates out of the URL", "%s has no TLS", s.name)
	case errors.As(err, &header):
		return s.fault(err, "what it says isn't TLS")
	case errors.As(err, &certificate):
		return backends.Refuse(certs.Hint(certificate), "%s: %v", s.name, certificate.Err)
	case errors.As(err, &op) && op.Op == "remote error":
		return backends.Refuse("?cert= and ?key= name the certificate to show", "%s refuses our TLS: %v", s.name, op.Err)
	case errors.Is(err, mysql.ErrCleartextPassword), errors.Is(err, mysql.ErrOldPassword),
		errors.Is(err, mysql.ErrUnknownPlugin), errors.Is(err, mysql.ErrNativePassword):
		return backends.Refuse("give flockd a user with a password of MySQL's own", "%s wants a kind of login that flockd doesn't know", s.name)
	case errors.Is(err, mysql.ErrMalformPkt), errors.Is(err, mysql.ErrPktSync), errors.Is(err, mysql.ErrPktSyncMul),
		errors.Is(err, mysql.ErrOldProtocol):
		return s.fault(err, "what it says isn't MySQL's protocol")
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, mysql.ErrInvalidConn), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return s.fault(err, "lost the connection")
	}
	return s.fault(err, "%v", stored.Bare(err))
}

// rightsHint names the prefix, for without it the administrator would make other tables.
func (s *server) rightsHint() string {
	prefix := ""
	if s.prefix != backends.DefaultPrefix {
		prefix = " --prefix " + string(s.prefix)
	}
	return "as its administrator: flockd schema mysql" + prefix + " --grant-to USER | mysql DATABASE"
}

// classifyAnswer judges an error that the server sent.
func (s *server) classifyAnswer(e *mysql.MySQLError) error {
	said := backends.Quote(e.Message, s.password)
	switch e.Number {
	case 1045, 1698:
		return backends.Refuse(s.plainHint(), "%s refuses the user or password: %s", s.name, said)
	case 1820, 1862:
		return backends.Refuse("", "%s: the password has expired", s.name)
	case 1129, 1130:
		return backends.Refuse("", "%s doesn't let this host in: %s", s.name, said)
	case 3159:
		return backends.Refuse("?tls=true", "%s wants TLS", s.name)
	case 1049:
		return backends.Refuse("flockd makes its tables itself, but no database", "%s has no database %q", s.name, s.database)
	case 1044, 1142, 1143, 1227, 1370:
		return backends.Refuse(s.rightsHint(), "%s: the user lacks a right: %s", s.name, said)
	case 1305, 1318, 1054, 1136, 1146, 1347:
		return backends.Refuse("?prefix= chooses other names", "%s: what flockd keeps its records in is something else there: %s", s.name, said)
	case 1406:
		return backends.Refuse("", "%s: %s", s.name, said)
	case readOnly, 1792, 1836:
		return s.closed(e)
	}
	s.afresh() // MySQL calls no handler of a step that was killed, which would have ended the transaction
	if trouble := passing(e.Number); trouble != "" {
		return fmt.Errorf("%s %s", s.name, trouble)
	}
	return fmt.Errorf("%s: %s (%d)", s.name, said, e.Number)
}

// plainHint is for who is refused without TLS: MariaDB says no more to who should have come
// with it.
func (s *server) plainHint() string {
	if s.tls == nil && s.network == "tcp" {
		return "if the server wants TLS: ?tls=true"
	}
	return ""
}

// afresh closes what is idle, so that the next request connects anew.
func (s *server) afresh() {
	if s.db != nil {
		s.db.SetMaxIdleConns(0)
		s.db.SetMaxIdleConns(connections)
	}
}

// closed is final for a server that has never taken a write of ours. Of those that we know
// there may be another by now, so the next request looks.
func (s *server) closed(e *mysql.MySQLError) error {
	s.afresh()
	text := strings.ToLower(e.Message)
	switch {
	case !strings.Contains(text, "read_only") && !strings.Contains(text, "read-only") && !strings.Contains(text, "read only"):
		return fmt.Errorf("%s: %s", s.name, backends.Quote(e.Message, s.password))
	case s.served.Load():
		return fmt.Errorf("%s takes no writes now (read_only)", s.name)
	}
	return backends.Refuse("name its primary", "%s takes no writes (read_only)", s.name)
}

// passing is the state that a server with such an error is in, if it may pass; else "".
func passing(number uint16) string {
	switch number {
	case 1040, 1203, 1226:
		return "has all the connections that it takes"
	case 1021, 1114, 1026:
		return "has no room on its disk"
	case 1053, 1927, 1317:
		return "has ended the request"
	case 1969, 3024:
		return "has ended the request, for it took too long"
	case 1205, 1213, 1020:
		return "has others in the way for too long"
	case 1047:
		return "isn't part of its cluster now"
	}
	return ""
}
