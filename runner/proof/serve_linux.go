package proof

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	speakWithin = time.Second // an asker has its question ready
	breath      = 10 * time.Millisecond

	// So many may ask at a time, fewer where descriptors are short; others are turned away, and come
	// again. Who is of another user can't keep ours from asking.
	oursAtMost   = 64
	othersAtMost = 16
)

// Server answers whoever asks about a hold.
type Server struct {
	listener *net.UnixListener
	answer   func(context.Context, Question) Answer
	ctx      context.Context
	cancel   context.CancelFunc
	ours     chan struct{} // holds one for each that asks
	others   chan struct{}
	all      sync.WaitGroup
}

// Serve answers whoever asks about the hold of that ID, until Close. answer is called by several
// at a time. Its context ends when nobody waits for the answer any more.
func Serve(id string, answer func(context.Context, Question) Answer) (*Server, error) {
	listener, err := net.ListenUnix("unix", address(id))
	if err != nil {
		return nil, err
	}
	s := &Server{listener: listener, answer: answer, ours: make(chan struct{}, seats(oursAtMost)), others: make(chan struct{}, seats(othersAtMost))}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.all.Go(s.accept)
	return s, nil
}

// seats is how many of most there are: most descriptors are left to whoever keeps the hold, who may
// need them to reach its store anew.
func seats(most int) int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 1
	}
	return max(1, int(min(uint64(most), limit.Cur/8)))
}

// Close ends the service. Who has no answer by then gets none.
func (s *Server) Close() {
	if s == nil {
		return
	}
	s.cancel()
	s.listener.Close()
	s.all.Wait()
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // no descriptor is left, perhaps
			time.Sleep(breath)
		default:
			s.admit(conn)
		}
	}
}

// admit serves a connection, unless there are too many.
func (s *Server) admit(conn *net.UnixConn) {
	room := s.others
	if who, err := peer(conn); err == nil && trusts(who.Uid) {
		room = s.ours
	}
	select {
	case room <- struct{}{}:
		s.all.Go(func() {
			s.serve(conn)
			<-room
		})
	default:
		conn.Close()
	}
}

// serve answers one question. One that can't be understood is none.
func (s *Server) serve(conn *net.UnixConn) {
	defer conn.Close()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, func() { conn.Close() })()
	conn.SetDeadline(time.Now().Add(speakWithin))
	var q Question
	if read(conn, &q) != nil {
		return
	}
	conn.SetDeadline(time.Time{})
	s.all.Go(func() { // it has no more to say: it has gone
		io.CopyN(io.Discard, conn, largest)
		cancel()
	})
	a := s.answer(ctx, q)
	if ctx.Err() == nil {
		conn.SetWriteDeadline(time.Now().Add(speakWithin))
		write(conn, a)
	}
}
