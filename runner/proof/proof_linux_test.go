package proof

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// still is a clock that stands still.
func still(bool) time.Duration { return 0 }

var held = Answer{State: Held, Lasts: time.Minute, TTL: time.Minute}

// serve serves the hold that the test is named for.
func serve(t *testing.T, answer func(context.Context, Question) Answer) Question {
	t.Helper()
	q := Question{Key: "a b/ключ", ID: t.Name(), Token: 1<<53 - 1, Least: time.Second}
	s, err := Serve(q.ID, answer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return q
}

func stands(context.Context, Question) Answer { return held }

func TestAnAnswerIsCountedFromBeforeTheQuestion(t *testing.T) {
	t.Parallel()
	for _, monotonic := range []bool{true, false} {
		var got Question
		now := map[bool]time.Duration{}
		s, err := Serve(t.Name(), func(_ context.Context, q Question) Answer {
			got = q
			now[monotonic] += 2 * time.Second
			now[!monotonic] += time.Hour
			a := held
			a.Monotonic = monotonic
			return a
		})
		if err != nil {
			t.Fatal(err)
		}
		q := Question{Key: strings.Repeat("\u2028", 170), ID: t.Name(), Token: 1<<53 - 1, Least: time.Second}
		a, err := Ask(t.Context(), q, func(monotonic bool) time.Duration { return now[monotonic] })
		if err != nil || got != q || a.State != Held || a.Lasts != 58*time.Second || a.TTL != time.Minute {
			t.Errorf("%+v: %+v, %v", got, a, err)
		}
		s.Close()
		if _, err := Ask(t.Context(), q, still); !errors.Is(err, ErrNobody) {
			t.Errorf("nobody is there any more: %v", err)
		}
	}
}

func dial(t *testing.T, id string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", address(id).Name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// More than may ask at a time talk nonsense, or say nothing: others, whom there is no room for at
// first, get their turn. They are few, so that a busy machine answers all of them in time.
func TestBadAskersHoldUpNobody(t *testing.T) {
	t.Parallel()
	const askers = 16
	q := serve(t, stands)
	for range 2 * oursAtMost {
		conn := dial(t, q.ID)
		conn.Write([]byte(strings.Repeat("{\"key\":", 10_000)))
		io.Copy(io.Discard, conn) // until it is hung up on
	}
	for range 2 * oursAtMost {
		dial(t, q.ID)
	}
	var all sync.WaitGroup
	for range askers {
		all.Go(func() {
			if a, err := Ask(t.Context(), q, still); err != nil || a != held {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
	all.Wait()
}

// However many ask, who keeps the hold has descriptors left to reach its store anew.
func TestAskersLeaveDescriptors(t *testing.T) {
	const idVar, limit, askers = "FLOCKD_TEST_SERVE", 64, 100
	if id, ok := os.LookupEnv(idVar); ok {
		serveFew(t, id, limit)
		return
	}
	t.Parallel()
	q := Question{ID: t.Name()}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), idVar+"="+q.ID)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	away := make(chan bool, askers)
	for range askers {
		conn := dial(t, q.ID)
		write(conn, q)
		go func() {
			_, err := conn.Read(make([]byte, 1))
			away <- err != nil
		}()
	}
	for n := range askers - limit/4 {
		select {
		case <-away:
		case <-time.After(10 * time.Second):
			t.Fatalf("%d of %d were turned away, under a limit of %d", n, askers, limit)
		}
	}
}

// serveFew serves with so many descriptors, answers nobody, and says when it is there.
func serveFew(t *testing.T, id string, limit uint64) {
	if err := syscall.Setrlimit(unix.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
	s, err := Serve(id, func(ctx context.Context, _ Question) Answer {
		<-ctx.Done()
		return held
	})
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString("\n")
	io.Copy(io.Discard, os.Stdin)
	s.Close()
}

func TestWhoHasGoneIsGivenUp(t *testing.T) {
	t.Parallel()
	gone, asked := make(chan struct{}), make(chan struct{})
	q := serve(t, func(ctx context.Context, _ Question) Answer {
		close(asked)
		<-ctx.Done()
		close(gone)
		return held
	})
	conn := dial(t, q.ID)
	if err := write(conn, q); err != nil {
		t.Fatal(err)
	}
	<-asked
	conn.Close()
	<-gone
}

// A hold that ends under the question isn't told of: whoever asks finds nobody.
func TestAServiceThatEndsAnswersNobody(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	s, err := Serve(t.Name(), func(ctx context.Context, _ Question) Answer {
		asked <- struct{}{}
		<-ctx.Done()
		return held
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-asked
		s.Close()
	}()
	if a, err := Ask(t.Context(), Question{ID: t.Name()}, still); !errors.Is(err, ErrNobody) {
		t.Errorf("%+v, %v", a, err)
	}
}

// One that doesn't answer, as a flockd that is stopped, is there all the same.
func TestASilentServiceIsNamed(t *testing.T) {
	t.Parallel()
	listener, err := net.ListenUnix("unix", address(t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, err = Ask(t.Context(), Question{ID: t.Name()}, still)
	var silent *SilentError
	if !errors.As(err, &silent) || silent.PID != os.Getpid() {
		t.Errorf("%v", err)
	}
}

// Another user's service isn't believed.
func TestAnotherUserIsNobody(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Fatal("this test becomes another user: run it as root, in a container for example")
	}
	as(nobody, func() {
		s, err := Serve(t.Name(), stands)
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(s.Close)
	})
	if a, err := Ask(t.Context(), Question{ID: t.Name()}, still); !errors.Is(err, ErrNobody) {
		t.Errorf("%+v, %v", a, err)
	}
}

// In a user namespace that doesn't know us all users are the same one, whom nobody believes.
func TestWhoCantBeToldFromOthersIsNobody(t *testing.T) {
	const idVar = "FLOCKD_TEST_ASK"
	if id, ok := os.LookupEnv(idVar); ok {
		if a, err := Ask(t.Context(), Question{ID: id}, still); !errors.Is(err, ErrNobody) {
			t.Errorf("as %d: %+v, %v", os.Geteuid(), a, err)
		}
		return
	}
	t.Parallel()
	q := serve(t, stands)
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), idVar+"="+q.ID)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// as calls f as another user, on a thread that ends with it.
func as(uid uintptr, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid)
		f()
	}()
	<-done
}
