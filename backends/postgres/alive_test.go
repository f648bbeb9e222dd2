package postgres

import (
	"net"
	"syscall"
	"testing"
	"time"
)

// pair is a connection's two ends.
func pair(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if ours, err = net.Dial("tcp", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if theirs, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

// A look at a connection waits for nothing: after a slow write the library goes on reading from
// it in the background.
func TestAliveBesideARead(t *testing.T) {
	ours, theirs := pair(t)
	read := make(chan error)
	go func() {
		_, err := ours.Read(make([]byte, 1))
		read <- err
	}()
	looked := make(chan bool, 1)
	go func() {
		for range 100 {
			looked <- alive(ours)
		}
	}()
	for range 100 {
		select {
		case is := <-looked:
			if !is {
				t.Fatal("an idle connection is taken for dead")
			}
		case <-time.After(patience):
			t.Fatal("it waits")
		}
	}
	theirs.Write([]byte("N"))
	if err := <-read; err != nil {
		t.Fatal(err)
	}
}

// What came on an idle connection tells whether it can be used.
func TestAlive(t *testing.T) {
	for _, tt := range []struct {
		sent string
		ends bool
		want bool
	}{
		{sent: "", want: true},
		{sent: "A", want: true}, // a notification
		{sent: "E", want: false},
		{sent: "", ends: true, want: false},
	} {
		ours, theirs := pair(t)
		theirs.Write([]byte(tt.sent))
		if tt.ends {
			theirs.Close()
		}
		if tt.sent != "" {
			awaitByte(t, ours)
		}
		for end := time.Now().Add(patience); alive(ours) != tt.want; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%+v: alive is %v", tt, !tt.want)
			}
		}
		if tt.sent == "A" { // it is still there to be read
			if _, err := ours.Read(make([]byte, 1)); err != nil {
				t.Error(err)
			}
		}
	}
}

// awaitByte returns once there is something to read, and leaves it there.
func awaitByte(t *testing.T, conn net.Conn) {
	t.Helper()
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Read(func(fd uintptr) bool {
		n, _, _ := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return n > 0
	})
	if err != nil {
		t.Fatal(err)
	}
}
