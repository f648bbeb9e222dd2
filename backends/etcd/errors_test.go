package etcd

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"flockd/backends"
)

// What a server says when the client's time is up, and it is the first to notice.
func TestEndedByTheServer(t *testing.T) {
	for _, said := range []error{
		status.Error(codes.DeadlineExceeded, "context deadline exceeded"),
		status.Error(codes.Canceled, "context canceled"),                                        // of a stream's handler
		status.Error(codes.Unknown, `Post "http://h1:2380/leases": context deadline exceeded`),  // the leader's, passed on
		status.Error(codes.Canceled, "stream terminated by RST_STREAM with error code: CANCEL"), // before its own word
	} {
		for left, want := range map[time.Duration]bool{50 * time.Millisecond: true, time.Hour: false} {
			ctx, cancel := context.WithTimeout(t.Context(), left)
			if got := errors.Is(clean(ctx, said), context.DeadlineExceeded); got != want {
				t.Errorf("%v, with %v left: %v, want a deadline: %v", said, left, clean(ctx, said), want)
			}
			cancel()
		}
		if err := clean(t.Context(), said); !errors.Is(err, said) {
			t.Errorf("%v without a deadline: %v", said, err)
		}
	}
	other := status.Error(codes.Unavailable, "error reading from server: EOF")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := clean(ctx, other); errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v: %v", other, err)
	}
}

// talkative is the address of a server that speaks gRPC and isn't etcd: it refuses
// everything, in these words.
func talkative(t testing.TB, words string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		return status.Error(codes.Unknown, words)
	}))
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

// What a server says is shown in one line, not all of it if it is long, and never the password.
func TestWordsOfAServer(t *testing.T) {
	t.Parallel()
	const password = "se/cr\"et 9"
	for _, form := range []string{password, `se/cr\"et 9`, "se%2Fcr%22et+9", "se%2Fcr%22et%209"} {
		words := strings.Repeat("a", 150) + " " + form + " " + form + "\n\x1b[2J" + strings.Repeat("b", 5000)
		s := open(t, "etcd://"+talkative(t, words))
		s.cluster.user, s.cluster.password = "bob", password
		_, err := s.Acquire(t.Context(), request(t))
		if err == nil || !strings.Contains(err.Error(), backends.Hidden+" "+backends.Hidden+"  [2Jb") {
			t.Fatalf("Acquire = %v", err)
		}
		if text := err.Error(); strings.Contains(text, "et 9") || strings.Contains(text, "cr%22et") || len(text) > 350 || !strings.HasSuffix(text, "b…") {
			t.Errorf("Acquire = %v", err)
		}
	}
}
