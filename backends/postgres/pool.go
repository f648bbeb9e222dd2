package postgres

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// connections is how many one client may have at once. A run uses one; the rest is for a
// process with many holds, whose steps take a millisecond each. PostgreSQL itself takes some
// hundred from all its clients.
const connections = 16

// link is one connection.
type link struct {
	*pgconn.PgConn
	raw    net.Conn // below TLS
	tried  bool     // a step was done on it
	pooled bool     // so it is known that a pooler may give each step another session
	alone  bool     // the server has given up to wait for its standbys
	hears  string   // the channel that it listens on
	rang   bool     // a notification has come
}

// pool keeps the connections that nobody uses now. The zero pool is empty.
type pool struct {
	dial func(context.Context) (*link, error)

	once   sync.Once
	places chan struct{} // one for each connection that there may be in use

	mu     sync.Mutex
	idle   []*link // the last one used last
	closed bool
}

var errClosed = errors.New("the store is closed")

// take is a connection for the caller alone, until it is given back.
func (p *pool) take(ctx context.Context) (*link, error) {
	p.once.Do(func() { p.places = make(chan struct{}, connections) })
	select {
	case p.places <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l, err := p.pick(ctx)
	if err != nil {
		<-p.places
	}
	return l, err
}

func (p *pool) pick(ctx context.Context) (*link, error) {
	for {
		l, err := p.rested()
		switch {
		case err != nil:
			return nil, err
		case l == nil:
			return p.dial(ctx)
		case alive(l.raw):
			return l, nil
		}
		l.drop()
	}
}

// rested is the connection that was given back last, nil if there is none.
func (p *pool) rested() (*link, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	switch {
	case p.closed:
		return nil, errClosed
	case n == 0:
		return nil, nil
	}
	l := p.idle[n-1]
	p.idle = p.idle[:n-1]
	return l, nil
}

// give takes a connection back.
func (p *pool) give(l *link) {
	<-p.places
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || l.IsClosed() {
		l.drop()
		return
	}
	p.idle = append(p.idle, l)
}

// forget closes the connections that nobody uses now: they are to a server that isn't the
// right one any more.
func (p *pool) forget() {
	p.mu.Lock()
	idle := slices.Clone(p.idle)
	p.idle = nil
	p.mu.Unlock()
	for _, l := range idle {
		l.drop()
	}
}

func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.forget()
}

// drop closes the connection, with a word to the server if that takes no time.
func (l *link) drop() {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	l.PgConn.Close(ctx)
}
