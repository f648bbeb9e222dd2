package drill

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// errLate says that what was waited for didn't come in time.
var errLate = errors.New("it didn't come in time")

// sight is what has been seen so far.
type sight struct {
	mu     sync.Mutex
	events []Event
	news   chan struct{} // holds one
	lives  sync.WaitGroup
}

func newSight() *sight { return &sight{news: make(chan struct{}, 1)} }

// saw takes an event, and looks out for the end of a command that begins.
func (s *sight) saw(dir string, e Event) {
	if e.Kind == Started {
		s.lives.Go(func() {
			if awaitEnd(lifeFile(dir, e.PID)) == nil {
				s.add(Event{Kind: Ended, At: now(), Contender: e.Contender, Token: e.Token, ID: e.ID, PID: e.PID})
			}
		})
	}
	s.add(e)
}

func (s *sight) add(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
	s.stir()
}

// stir has whoever waits look again.
func (s *sight) stir() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

func (s *sight) all() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// await waits until there is, which looks at the events, says so or fails. Errors: errLate, ctx's
// cause, and there's own.
func (s *sight) await(ctx context.Context, limit time.Duration, there func([]Event) (bool, error)) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		if ok, err := there(s.all()); ok || err != nil {
			return err
		}
		select {
		case <-s.news:
		case <-timer.C:
			return errLate
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// awaitEnd returns when nobody has the file locked any more.
func awaitEnd(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != unix.EINTR {
			return err
		}
	}
}

// leader is the latest command that lives; nil: none does.
func leader(events []Event) *Term {
	terms := termsOf(events)
	for i := range slices.Backward(terms) {
		if !terms[i].ended {
			return &terms[i]
		}
	}
	return nil
}

// next is the command of the other contender that began after the fault; nil: there is none.
func next(events []Event) *Term {
	r, _ := follow(Case{}, events)
	if r.New < 0 {
		return nil
	}
	return &r.Terms[r.New]
}

// writes is how many writes of a command were admitted.
func writes(events []Event, t *Term) (n int) {
	for _, e := range events {
		if e.Kind == Wrote && e.Contender == t.Contender && e.PID == t.pid {
			n++
		}
	}
	return n
}
