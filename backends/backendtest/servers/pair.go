package servers

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// pair is a client's connection and the one to the server that belongs to it.
type pair struct {
	x        *TCPProxy
	client   *net.TCPConn
	silenced bool // guarded by x.mu
	asks     bool // likewise: the last to send something was the client
	replies  replies
	gone     chan struct{} // closed when it was cut

	mu     sync.Mutex
	server *net.TCPConn // nil until it is connected
	isCut  bool
}

func newPair(x *TCPProxy, client *net.TCPConn) *pair {
	return &pair{x: x, client: client, gone: make(chan struct{})}
}

// run ends when both directions have.
func (p *pair) run() {
	if !p.connect() {
		p.cut()
		return
	}
	requests := &pipe{pair: p, dir: Requests, src: p.client, dst: p.server, more: make(chan struct{}, 1)}
	replies := &pipe{pair: p, dir: Replies, src: p.server, dst: p.client, more: make(chan struct{}, 1)}
	var work sync.WaitGroup
	for _, each := range []*pipe{requests, replies} {
		work.Go(each.read)
		work.Go(each.write)
	}
	work.Wait()
	p.client.Close()
	p.server.Close()
}

func (p *pair) connect() bool {
	conn, err := net.DialTimeout("tcp", p.x.target, limit)
	if err != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = conn.(*net.TCPConn)
	if p.isCut {
		reset(p.server)
	}
	return !p.isCut
}

// cut resets both connections.
func (p *pair) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isCut {
		return
	}
	p.isCut = true
	reset(p.client)
	if p.server != nil {
		reset(p.server)
	}
	close(p.gone)
}

func reset(conn *net.TCPConn) {
	conn.SetLinger(0)
	conn.Close()
}

// pipe is one direction of a pair. It reads whatever comes, and delivers it in order,
// when the rule lets it.
type pipe struct {
	*pair
	dir      Direction
	src, dst *net.TCPConn
	more     chan struct{} // a value for the writer when there may be more

	mu    sync.Mutex
	queue []piece
}

// piece is what one read returned: bytes, or the end of the connection.
type piece struct {
	bytes []byte
	end   error // io.EOF, or what broke it
	came  time.Time
}

func (p *pipe) read() {
	buf := make([]byte, 64<<10) // more than a request or a reply of the tests
	for {
		n, err := p.src.Read(buf)
		if n > 0 {
			p.x.count(p.pair, p.dir, n)
			p.push(piece{bytes: append([]byte(nil), buf[:n]...), came: time.Now()})
		}
		if err != nil {
			p.push(piece{end: err, came: time.Now()})
			return
		}
	}
}

func (p *pipe) push(next piece) {
	p.mu.Lock()
	p.queue = append(p.queue, next)
	p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default:
	}
}

// next is the first piece that wasn't delivered; false if the pair was cut.
func (p *pipe) next() (piece, bool) {
	for {
		p.mu.Lock()
		if len(p.queue) > 0 {
			first := p.queue[0]
			p.queue = p.queue[1:]
			p.mu.Unlock()
			return first, true
		}
		p.mu.Unlock()
		select {
		case <-p.more:
		case <-p.gone:
			return piece{}, false
		}
	}
}

func (p *pipe) write() {
	for {
		next, ok := p.next()
		if !ok || !p.hold(next) {
			return
		}
		switch {
		case errors.Is(next.end, io.EOF):
			p.dst.CloseWrite()
			return
		case next.end != nil:
			reset(p.dst)
			return
		}
		if !p.deliver(next.bytes) {
			return
		}
	}
}

// hold waits until a piece may go on, as the rule of the moment has it; false if the
// pair was cut before.
func (p *pipe) hold(next piece) bool {
	for {
		rule, changed := p.x.rule(p.pair, p.dir)
		wait := time.Until(next.came.Add(rule.delay))
		var due <-chan time.Time
		switch {
		case rule.stalled:
		case wait <= 0:
			return true
		default:
			due = time.After(wait)
		}
		select {
		case <-due:
		case <-changed:
		case <-p.gone:
			return false
		}
	}
}

// deliver tells whether more may follow. It ignores errors: who is gone is seen to be
// so by the other direction's read.
func (p *pipe) deliver(b []byte) bool {
	if p.dir == Requests {
		p.replies.asked(p.x, b)
		p.dst.Write(b)
		return true
	}
	lost, swallowed := p.replies.answered(b)
	if !swallowed {
		p.dst.Write(b)
	}
	if lost == nil {
		return true
	}
	if lost.orderly {
		p.dst.CloseWrite()
	} else {
		p.cut()
	}
	close(lost.happened)
	return false
}
