package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"flockd/backends"
	"flockd/backends/certs"
)

// wire is a connection to a member, below gRPC, which would hide why it failed.
type wire struct {
	net.Conn // TLS where it is spoken
	endpoint string
	tls      *tls.Config // nil: plain

	mu   sync.Mutex
	got  []byte    // the first byte that came; empty: none
	last time.Time // when something came last
	fail error     // why nothing more comes
}

// dialWire connects to the endpoint, and shakes hands where it speaks TLS.
func dialWire(ctx context.Context, endpoint string, config *tls.Config) (*wire, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", endpoint)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: conn, endpoint: endpoint, tls: config}
	if config == nil {
		return w, nil
	}
	config = config.Clone()
	config.NextProtos = []string{"h2"}
	if config.ServerName, _, err = net.SplitHostPort(endpoint); err != nil {
		return nil, err
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	w.Conn = secure
	return w, nil
}

// Read is net.Conn's. It remembers how the member's words begin and end.
func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.mu.Lock()
	defer w.mu.Unlock()
	if n > 0 {
		w.last = time.Now()
	}
	if len(w.got) == 0 {
		w.got = append(w.got, b[:min(n, 1)]...) // the kind of a TLS record is its first byte
	}
	if err != nil && w.fail == nil {
		w.fail = err
	}
	return n, err
}

// abort closes the connection so that what hasn't left this host never will: a
// request that was given up must not reach the member later.
func (w *wire) abort() {
	conn := w.Conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}

// why is why the member's first words were none that gRPC knows.
func (w *wire) why(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.tls == nil && (startsTLS(w.got) || len(w.got) == 0 && speaksTLS(ctx, w.endpoint)):
		return backends.Refuse("use an etcds:// URL", "%s speaks TLS", w.endpoint)
	case len(w.got) > 0:
		return errors.New("what answers there is no etcd")
	case w.fail != nil && !wasClosed(w.fail):
		return w.fail
	}
	if alert := farewell(ctx, w.endpoint, w.tls); alert != nil {
		return alert
	}
	return errors.New("the connection was closed without an answer")
}

// wasClosed reports whether err says no more than that the connection is closed.
func wasClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed)
}

// startsTLS reports whether it is a TLS record, as it comes at first.
func startsTLS(b []byte) bool {
	const alert, handshake = 0x15, 0x16
	return len(b) > 0 && (b[0] == alert || b[0] == handshake)
}

// farewell is the alert with which a member ends a TLS connection after the handshake, nil
// if it doesn't. It gets lost where we say something before we have heard it.
func farewell(ctx context.Context, endpoint string, config *tls.Config) error {
	if config == nil {
		return nil
	}
	w, err := dialWire(ctx, endpoint, config)
	if err != nil {
		return nil
	}
	defer w.Close()
	defer context.AfterFunc(ctx, func() { w.Close() })()
	if _, err := w.Read(make([]byte, 1)); isAlert(err) {
		return err
	}
	return nil
}

// speaksTLS tries a handshake; whose certificate it is doesn't matter here.
func speaksTLS(ctx context.Context, endpoint string) bool {
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	conn, err := d.DialContext(ctx, "tcp", endpoint)
	if err == nil {
		conn.Close()
	}
	return err == nil || isAlert(err)
}

// isAlert reports whether the other side has ended a TLS connection in TLS's own words.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// errPlain says that a member speaks no TLS.
var errPlain = errors.New("no TLS")

// plainly is why connecting to the endpoint failed, without what the user knows already.
func plainly(endpoint string, err error) error {
	var op *net.OpError
	var header tls.RecordHeaderError
	var unverified *tls.CertificateVerificationError
	var dns *net.DNSError
	switch {
	case errors.Is(err, backends.ErrRefused): // it names the endpoint
		return err
	case errors.As(err, &header), errors.Is(err, errPlain):
		return backends.Refuse("use an etcd:// URL", "%s speaks no TLS", endpoint)
	case errors.As(err, &unverified):
		return backends.Refuse(certs.Hint(unverified),
			"%s: its certificate is not trusted: %s", endpoint, backends.Quote(unverified.Err.Error(), ""))
	case isAlert(err) && strings.Contains(err.Error(), "certificate"):
		return backends.Refuse("?cert= and ?key= name the files of one", "%s asks for a certificate that it trusts", endpoint)
	case errors.As(err, &dns):
		err = errors.New(dns.Err)
	case errors.As(err, &op):
		err = op.Err
	}
	return fmt.Errorf("%s: %w", endpoint, err)
}
