package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// link is a connection that is made when the first request is written to it. So the
// deadline of that request bounds the connecting too, which go-redis would do in the
// background and for as long as it likes, and its pool has no failures to connect to
// count: after some of them it would stop trying.
type link struct {
	to *server

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	heard atomic.Bool // the server has sent something

	mu       sync.Mutex
	raw      net.Conn  // nil until connected
	conn     net.Conn  // raw, or TLS on it
	deadline time.Time // for connecting
}

func newLink(to *server) *link {
	ctx, cancel := context.WithCancel(context.Background())
	return &link{to: to, ctx: ctx, cancel: cancel}
}

// connect makes the connection, if that hasn't been done.
func (l *link) connect() (net.Conn, error) {
	l.mu.Lock()
	conn, deadline := l.conn, l.deadline
	l.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	ctx := l.ctx
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	conn, err := l.dial(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = conn
	return conn, nil
}

func (l *link) dial(ctx context.Context) (net.Conn, error) {
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, l.to.network, l.to.address)
	if err != nil {
		return nil, l.to.unreachable(err)
	}
	if err := l.keep(raw); err != nil {
		raw.Close()
		return nil, err
	}
	if l.to.tls == nil {
		return raw, nil
	}
	conn := tls.Client(raw, l.to.tls)
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, l.to.handshakeFailed(err)
	}
	return conn, nil
}

// keep hands raw over to Close.
func (l *link) keep(raw net.Conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return net.ErrClosed
	}
	l.raw = raw
	return nil
}

func (l *link) current() net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

func (l *link) Write(b []byte) (int, error) {
	conn, err := l.connect()
	if err != nil {
		return 0, err
	}
	n, err := conn.Write(b)
	return n, l.failed(err)
}

func (l *link) Read(b []byte) (int, error) {
	conn := l.current()
	if conn == nil {
		return 0, net.ErrClosed
	}
	n, err := conn.Read(b)
	if n > 0 {
		l.heard.Store(true)
	}
	return n, l.failed(err)
}

// failed puts what happened to the connection in words.
func (l *link) failed(err error) error {
	if err == nil {
		return nil
	}
	return l.to.broken(err, l.heard.Load())
}

func (l *link) Close() error {
	l.cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.raw == nil {
		return nil
	}
	return l.raw.Close() // no farewell in TLS, which could hang
}

func (l *link) SetDeadline(t time.Time) error {
	return errors.Join(l.SetReadDeadline(t), l.SetWriteDeadline(t))
}

func (l *link) SetReadDeadline(t time.Time) error {
	if conn := l.current(); conn != nil {
		return conn.SetReadDeadline(t)
	}
	return nil // nothing is read before something is written
}

func (l *link) SetWriteDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deadline = t; l.conn != nil {
		return l.conn.SetWriteDeadline(t)
	}
	return nil
}

// SyscallConn lets the pool see, before it uses an idle connection again, whether
// the server has closed it.
func (l *link) SyscallConn() (syscall.RawConn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if raw, ok := l.raw.(syscall.Conn); ok {
		return raw.SyscallConn()
	}
	return nil, net.ErrClosed
}

func (l *link) LocalAddr() net.Addr  { return place{l.to} }
func (l *link) RemoteAddr() net.Addr { return place{l.to} }

// place is the server's address.
type place struct{ to *server }

func (p place) Network() string { return p.to.network }
func (p place) String() string  { return p.to.address }

var _ interface {
	net.Conn
	syscall.Conn
} = (*link)(nil)
