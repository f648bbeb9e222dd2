package servers_test

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"flockd/backends/backendtest/servers"
)

// soon is long enough to see that something doesn't happen: what happens here takes
// microseconds.
const soon = 100 * time.Millisecond

// enough is for what does happen, on a busy machine.
const enough = time.Minute

// echo is a server that returns what it reads, and tells what that was.
type echo struct {
	addr string
	read chan string
}

func newEcho(t *testing.T) echo {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	e := echo{addr: l.Addr().String(), read: make(chan string, 1000)} // never filled
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			go e.serve(conn)
		}
	}()
	return e
}

func (e echo) serve(conn net.Conn) {
	defer conn.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		e.read <- string(buf[:n])
		conn.Write(buf[:n])
	}
}

// link is a client's connection.
type link struct {
	*testing.T
	net.Conn
}

func dial(t *testing.T, addr string) link {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return link{t, conn}
}

func (l link) send(s string) {
	l.Helper()
	if _, err := io.WriteString(l.Conn, s); err != nil {
		l.Error(err)
	}
}

func (l link) wants(want string) {
	l.Helper()
	l.SetReadDeadline(time.Now().Add(enough))
	buf := make([]byte, len(want))
	if _, err := io.ReadFull(l.Conn, buf); err != nil || string(buf) != want {
		l.Fatalf("got %.100q, %v, want %.100q", buf, err, want)
	}
}

func (l link) wantsSilence() {
	l.Helper()
	l.SetReadDeadline(time.Now().Add(soon))
	buf := make([]byte, 100)
	if n, err := l.Conn.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		l.Fatalf("got %q, %v, want silence", buf[:n], err)
	}
}

func (l link) wantsReset() {
	l.Helper()
	l.SetReadDeadline(time.Now().Add(enough))
	buf := make([]byte, 100)
	if n, err := l.Conn.Read(buf); !errors.Is(err, syscall.ECONNRESET) {
		l.Fatalf("got %q, %v, want a reset", buf[:n], err)
	}
}

func (l link) wantsEnd() {
	l.Helper()
	l.SetReadDeadline(time.Now().Add(enough))
	buf := make([]byte, 100)
	if n, err := l.Conn.Read(buf); !errors.Is(err, io.EOF) {
		l.Fatalf("got %q, %v, want the end", buf[:n], err)
	}
}

// wantsNone says that the server has read nothing.
func (e echo) wantsNone(t *testing.T) {
	t.Helper()
	select {
	case got := <-e.read:
		t.Fatalf("the server read %q, want nothing", got)
	case <-time.After(soon):
	}
}

func TestProxyPasses(t *testing.T) {
	t.Parallel()
	e := newEcho(t)
	c := dial(t, servers.Proxy(t, e.addr).Addr)
	big := strings.Repeat("0123456789abcdef", 1<<14)
	go c.send(big)
	c.wants(big)
	c.Conn.(*net.TCPConn).CloseWrite()
	if n, err := c.Conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after the client's end: %d, %v, want EOF", n, err)
	}
}

func TestProxyStallsRequests(t *testing.T) {
	t.Parallel()
	e := newEcho(t)
	x := servers.Proxy(t, e.addr)
	c := dial(t, x.Addr)
	x.Stall(servers.Requests)
	c.send("late")
	e.wantsNone(t)
	x.Pass(servers.Requests)
	c.wants("late")
}

func TestProxyStallsReplies(t *testing.T) {
	t.Parallel()
	e := newEcho(t)
	x := servers.Proxy(t, e.addr)
	c := dial(t, x.Addr)
	x.Stall(servers.Replies)
	c.send("late")
	if got := <-e.read; got != "late" {
		t.Errorf("the server read %q", got)
	}
	c.wantsSilence()
	x.Pass(servers.Replies)
	c.wants("late")
}

// TestProxyDeliversAfterLeaving is the ghost of a cable that was pulled.
func TestProxyDeliversAfterLeaving(t *testing.T) {
	t.Parallel()
	e := newEcho(t)
	x := servers.Proxy(t, e.addr)
	c := dial(t, x.Addr)
	x.Stall(servers.Requests)
	c.send("ghost")
	c.Close()
	e.wantsNone(t)
	x.Pass(servers.Requests)
	if got := <-e.read; got != "ghost" {
		t.Errorf("the server read %q", got)
	}
}

func TestProxyDelaysInOrder(t *testing.T) {
	t.Parallel()
	x := servers.Proxy(t, newEcho(t).addr)
	c := dial(t, x.Addr)
	const delay = 50 * time.Millisecond
	x.Delay(servers.Requests, delay)
	x.Delay(servers.Replies, delay)
	start := time.Now()
	c.send("first ")
	c.send("second")
	c.wants("first second")
	if took := time.Since(start); took < 2*delay {
		t.Errorf("took %v, want %v at least", took, 2*delay)
	}
}

func TestProxySilencesOpenOnes(t *testing.T) {
	t.Parallel()
	x := servers.Proxy(t, newEcho(t).addr)
	dead := dial(t, x.Addr)
	dead.send("a")
	dead.wants("a")
	x.Silence()
	dead.send("b")
	dead.wantsSilence()
	x.Pass(servers.Requests) // changes nothing for it
	dead.wantsSilence()
	alive := dial(t, x.Addr)
	alive.send("c")
	alive.wants("c")
	if n := x.Accepted(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
	if to, from := x.Passed(servers.Requests), x.Passed(servers.Replies); to < from || from < 2 { // a and c came back
		t.Errorf("%d bytes to the server, %d from it", to, from)
	}
}

func TestProxyCutsAndRefuses(t *testing.T) {
	t.Parallel()
	x := servers.Proxy(t, newEcho(t).addr)
	c := dial(t, x.Addr)
	c.send("a")
	c.wants("a")
	x.Refuse(true)
	if conn, err := net.Dial("tcp", x.Addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial: %v, %v, want it refused", conn, err)
	}
	c.send("b")
	c.wants("b")
	x.Cut()
	c.wantsReset()
	x.Refuse(false)
	again := dial(t, x.Addr)
	again.send("c")
	again.wants("c")
}

// A process that starts at the time makes no difference.
func TestProxyRefusesAtOnce(t *testing.T) {
	t.Parallel()
	x := servers.Proxy(t, newEcho(t).addr)
	over, done := make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				return
			default:
				exec.Command("true").Run()
			}
		}
	}()
	for range 500 {
		x.Refuse(true)
		if conn, err := net.Dial("tcp", x.Addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial: %v, %v, want it refused", conn, err)
		}
		x.Refuse(false)
	}
	close(over)
	<-done
}

func TestProxyLosesOneReply(t *testing.T) {
	t.Parallel()
	e := newEcho(t)
	x := servers.Proxy(t, e.addr)
	c := dial(t, x.Addr)
	c.send("match, before it was asked for")
	c.wants("match, before it was asked for")
	lost := x.LoseReply([]byte("match"))
	c.send("other")
	c.wants("other")
	c.send("a ma")
	c.wants("a ma")
	c.send("tch in two")
	c.wantsReset()
	wantsClosed(t, lost)
	var read string
	for range 4 {
		read = <-e.read
	}
	if read != "tch in two" {
		t.Errorf("the server read %q last, want the request whose reply was lost", read)
	}
	again := dial(t, x.Addr)
	again.send("a match")
	again.wants("a match")
}

func wantsClosed(t *testing.T, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(enough):
		t.Fatal("it didn't happen")
	}
}

// TestProxyWithoutServer is a server that refuses.
func TestProxyWithoutServer(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t)
	r.Kill()
	conn, err := net.Dial("tcp", servers.Proxy(t, r.Addr).Addr)
	if errors.Is(err, syscall.ECONNRESET) { // already
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	link{t, conn}.wantsReset()
}

func TestProxyCountsTrips(t *testing.T) {
	t.Parallel()
	x := servers.Proxy(t, newEcho(t).addr)
	c := dial(t, x.Addr)
	for range 3 {
		c.send("one")
		c.wants("one")
	}
	if n := x.Trips(); n != 3 {
		t.Errorf("%d trips, want 3", n)
	}
	x.Stall(servers.Requests) // or the server would answer the first part
	for part := range int64(2) {
		c.send("two")
		for end := time.Now().Add(enough); x.Passed(servers.Requests) < 9+3*(part+1); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("part %d hasn't come within %v", part, enough)
			}
		}
	}
	if n := x.Trips(); n != 4 {
		t.Errorf("%d trips, want 4: that of a request in two parts is one", n)
	}
}
