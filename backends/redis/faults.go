package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"flockd/backends/certs"
)

// linkError says in plain words what is wrong with a connection. It has no Unwrap:
// go-redis would take the words off.
type linkError struct {
	text  string
	hint  string // set: the configuration is wrong, and trying again is of no use
	cause error
}

func (e *linkError) Error() string { return e.text }

func (e *linkError) Is(target error) bool { return errors.Is(e.cause, target) }

func (s *server) fault(cause error, format string, args ...any) *linkError {
	return &linkError{text: s.name + ": " + fmt.Sprintf(format, args...), cause: cause}
}

func (s *server) misfit(cause error, hint, format string, args ...any) *linkError {
	e := s.fault(cause, format, args...)
	e.hint = hint
	return e
}

// unreachable says why there is no connection.
func (s *server) unreachable(err error) error {
	var dns *net.DNSError
	switch {
	case late(err):
		return s.fault(context.DeadlineExceeded, "no connection in time")
	case errors.As(err, &dns) && dns.IsNotFound:
		return s.fault(err, "no such host")
	}
	return s.fault(err, "%v", bare(err))
}

// handshakeFailed says why there is no TLS on a connection.
func (s *server) handshakeFailed(err error) error {
	var header tls.RecordHeaderError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &header):
		return s.misfit(err, "use redis://", "it doesn't speak TLS")
	case errors.As(err, &certificate):
		return s.misfit(err, certs.Hint(certificate), "%v", certificate.Err)
	case refusedByPeer(err):
		return s.certificateRefused(err)
	case late(err) && s.served.Load():
		return s.fault(context.DeadlineExceeded, "no answer to TLS in time")
	case late(err):
		return s.fault(context.DeadlineExceeded, "no answer to TLS in time: does it speak TLS? if not, use redis://")
	}
	return s.fault(err, "no TLS: %v", bare(err))
}

// broken says what happened to a connection; heard tells whether the server had ever
// said something on it.
func (s *server) broken(err error, heard bool) error {
	switch {
	case late(err):
		return s.fault(context.DeadlineExceeded, "no answer in time")
	case refusedByPeer(err):
		return s.certificateRefused(err)
	case heard || errors.Is(err, net.ErrClosed):
		return s.fault(err, "lost the connection: %v", bare(err))
	case s.served.Load(): // a proxy that has no server at the moment, say
		return s.fault(err, "it closed the connection without an answer")
	case s.tls != nil: // its reason may have been lost with the connection
		return s.fault(err, "it closed the connection without an answer: does it want a certificate? ?cert= and ?key= name one")
	case s.network == "tcp":
		return s.fault(err, "it closed the connection without an answer: does it speak TLS? then use rediss://")
	}
	return s.fault(err, "it closed the connection without an answer")
}

// refusedByPeer tells whether the other side ended TLS with an alert. With TLS 1.3
// that comes after the handshake.
func refusedByPeer(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

func (s *server) certificateRefused(err error) error {
	return s.misfit(err, "?cert= and ?key= name the certificate to show", "it refuses our TLS: %v", bare(err))
}

func late(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

// bare is what happened, without the addresses and system calls that Go names.
func bare(err error) error {
	var errno syscall.Errno
	var op *net.OpError
	switch {
	case errors.As(err, &errno):
		return errno
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("closed by the server")
	case errors.As(err, &op):
		return op.Err
	}
	return err
}
