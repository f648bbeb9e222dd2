package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"flockd/backends"
	"flockd/backends/mem"
	"flockd/election"
	"flockd/runner"
)

// manager is a service manager, and what it was told.
type manager struct {
	mu       sync.Mutex
	messages []string
	warnings []string
}

func (m *manager) notifier(every time.Duration) *notifier {
	n := &notifier{clean: clean, every: every}
	n.send = func(message string) error {
		m.takes(message)
		return nil
	}
	n.warn = func(text string) { m.warnings = append(m.warnings, text) }
	n.begin()
	return n
}

// heard wants these messages since the last call.
func (m *manager) heard(t *testing.T, want ...string) {
	t.Helper()
	if got := m.taken(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func (m *manager) takes(message string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.messages = append(m.messages, message)
}

// taken are the messages since the last call.
func (m *manager) taken() []string {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	messages := m.messages
	m.messages = nil
	return messages
}

func TestNotifyReady(t *testing.T) {
	for name, s := range map[string]election.State{
		"an answer":    {Phase: election.Campaigning, Held: &backends.HeldError{}},
		"none":         {Phase: election.Campaigning, Err: errors.New("no route")},
		"elected":      {Phase: election.Leading},
		"a short term": {Phase: election.Resting},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var m manager
				n := m.notifier(0)
				n.changed(election.State{Phase: election.Campaigning})
				n.shows("campaigning")
				m.heard(t, "STATUS=campaigning")
				n.changed(s)
				n.changed(s)
				n.shows("x")
				n.shows("x")
				m.heard(t, "READY=1", "STATUS=x")
				n.shows("over")
				n.end()
				m.heard(t, "STATUS=over", "STOPPING=1")
			})
		})
	}
}

// That it stops is said when it resigns, not when its command is stopped for the lease.
func TestNotifyStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m manager
		n := m.notifier(0)
		n.changed(election.State{Phase: election.Leading})
		n.changed(election.State{Phase: election.Stopping, Err: backends.ErrLost})
		m.heard(t, "READY=1")
		n.changed(election.State{Phase: election.Stopping, Err: &election.ResignedError{Signal: syscall.SIGTERM}})
		m.heard(t, "STOPPING=1")
		n.end()
		m.heard(t)
	})
}

// Who never was ready isn't stopping.
func TestNotifyNeverReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m manager
		m.notifier(0).end()
		m.heard(t)
	})
}

// A status is one line, whatever is in it: a second one would be another message.
func TestNotifyStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m manager
		n := m.notifier(0)
		defer n.end()
		n.shows("a\nREADY=1\x1b[2J\r\x00\u202e")
		m.heard(t, "STATUS=a READY=1[2J")
		n.shows(strings.Repeat("ä", 1000))
		m.heard(t, "STATUS="+strings.Repeat("ä", statusAtMost)+"…")
	})
}

// answers answers so many questions.
func answers(n *notifier, times int, how error) {
	for range times {
		answer := <-n.asks
		answer <- how
	}
}

// The watchdog gets a sign of life only where the election answers, and all is well.
func TestNotifyWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m manager
		n := m.notifier(5 * time.Second)
		defer n.end()
		time.Sleep(time.Hour) // a loop that hangs
		m.heard(t)
		answers(n, 2, nil)
		m.heard(t, "WATCHDOG=1", "WATCHDOG=1")
		answers(n, 2, errors.New("the lease has ended"))
		m.heard(t)
		if want := []string{"no sign of life for the watchdog: the lease has ended"}; !slices.Equal(m.warnings, want) {
			t.Errorf("%q, want %q", m.warnings, want)
		}
		began := time.Now()
		answers(n, 2, nil)
		m.heard(t, "WATCHDOG=1", "WATCHDOG=1")
		if d := time.Since(began); d != 10*time.Second {
			t.Errorf("two signs in %v", d)
		}
		<-n.asks // a question without an answer
		time.Sleep(time.Second)
		n.shows("on") // others are told all the same
		m.heard(t, "STATUS=on")
	})
}

// Without a watchdog nobody asks.
func TestNotifyNoWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m manager
		n := m.notifier(0)
		defer n.end()
		select {
		case <-n.asks:
			t.Error("a question")
		case <-time.After(time.Hour):
		}
	})
}

// A manager that doesn't read, and is gone then, holds nobody up; what it would have read last
// is the latest.
func TestNotifyHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m manager
		reads := make(chan struct{})
		n := &notifier{clean: clean, warn: func(text string) { m.warnings = append(m.warnings, text) }}
		n.send = func(message string) error {
			<-reads
			m.takes(message)
			return errors.New("gone")
		}
		n.begin()
		n.changed(election.State{Phase: election.Leading})
		synctest.Wait() // READY is on its way
		for i := range 3 * statusesKept {
			n.shows(fmt.Sprint(i))
		}
		began := time.Now()
		n.end()
		if d := time.Since(began); d != flushFor {
			t.Errorf("the end took %v", d)
		}
		close(reads)
		want := []string{"READY=1"}
		for i := 2*statusesKept + 1; i < 3*statusesKept; i++ {
			want = append(want, fmt.Sprint("STATUS=", i))
		}
		m.heard(t, append(want, "STOPPING=1")...)
		if len(m.warnings) != 1 {
			t.Errorf("%q", m.warnings)
		}
	})
}

// So it is with an election, here of one that stands in line: when its loop hangs, there is no sign
// of life any more.
func TestNotifyOfAnElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m manager
		n := m.notifier(5 * time.Second)
		defer n.end()
		store := mem.New()
		held := backends.Request{Key: "svc", ID: backends.NewID(), Mode: backends.Exclusive, TTL: 24 * time.Hour}
		if _, err := store.Acquire(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		ctx, resign := context.WithCancel(t.Context())
		hang, over := make(chan struct{}), make(chan election.Result)
		o := election.Options{
			Term: runner.Options{Backend: store, Request: backends.Request{Key: "svc", Mode: backends.Exclusive, TTL: 15 * time.Second}},
			Asks: n.asks,
			Changed: func(s election.State) {
				n.changed(s)
				if s.Held != nil && s.Held.Waiters > 0 {
					<-hang
				}
			},
		}
		go func() { over <- election.Campaign(ctx, o) }()
		m.heard(t, "READY=1")
		time.Sleep(time.Hour + time.Second)
		if signs := m.taken(); len(signs) != 12*60 {
			t.Errorf("%d signs of life in an hour", len(signs))
		}
		other := backends.Request{Key: "svc", ID: backends.NewID(), Mode: backends.Exclusive, TTL: time.Minute, Place: 24 * time.Hour}
		store.Acquire(t.Context(), other) // a change of which it is told
		time.Sleep(10 * time.Second)      // by its next question
		m.taken()
		time.Sleep(time.Hour)
		m.heard(t)
		close(hang)
		resign()
		<-over
	})
}

// Whoever is third in line, whom no hint wakes, hears within seconds that the second one leads.
func TestThirdHearsOfTheSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		claim := func(id, host string) {
			r := backends.Request{Key: "svc", ID: id, Mode: backends.Exclusive, TTL: time.Hour, Place: time.Hour, Owner: backends.Owner{Host: host}}
			store.Acquire(t.Context(), r)
		}
		claim("1", "web1")
		claim("2", "web2")
		said, shown := make(chan string, 8), make(chan string, 8)
		a := &account{key: "svc", say: func(_ slog.Level, text string, _ ...slog.Attr) { said <- text },
			status: func(text string) { shown <- text }}
		ctx, resign := context.WithCancel(t.Context())
		over := make(chan election.Result)
		go func() {
			over <- election.Campaign(ctx, election.Options{Changed: a.changed, Term: runner.Options{
				Backend: store, Request: backends.Request{Key: "svc", Mode: backends.Exclusive, TTL: 15 * time.Second}}})
		}()
		wantLeader(t, said, "web1")
		wantLeader(t, shown, "web1")
		store.Release(t.Context(), "svc", "1", backends.Outcome{})
		claim("2", "web2")
		changed := time.Now()
		wantLeader(t, said, "web2")
		wantLeader(t, shown, "web2")
		if d := time.Since(changed); d > 6*time.Second { // a question each 5 s
			t.Errorf("it took %v", d)
		}
		resign()
		<-over
	})
}

// wantLeader waits until a text names who leads.
func wantLeader(t *testing.T, texts <-chan string, host string) {
	t.Helper()
	for text := range texts {
		if strings.Contains(text, "led by ") && strings.Contains(text, host) {
			return
		}
	}
}
