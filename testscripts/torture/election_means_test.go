//go:build linux

package torture

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"flockd/backends/backendtest/servers"
	"flockd/testscripts/oracle"
)

// means is what ends a term.
type means struct {
	name string
	told string // what on-deposed is to hear; empty: nobody lives to be told

	// apply returns what has to be put right once the next term has begun; nil: nothing.
	apply func(ctx context.Context, t term, c *candidate) (right func(), _ error)
}

// means are all that fit the store.
func (e *election) means() []means {
	all := []means{
		{"TERM", "resigned", e.sends(syscall.SIGTERM)},
		{"flockd resign", "asked", e.asks("resign", "--key", service, "--reason", "torture")},
		{"flockd break", "asked", e.asks("break", service, "--reason", "torture", "--yes")},
		{"kill flockd", "", func(_ context.Context, _ term, c *candidate) (func(), error) {
			e.bereave(c.job)
			return nil, nil
		}},
		{"kill guard, then flockd", "", func(ctx context.Context, _ term, c *candidate) (func(), error) {
			e.replaced(ctx, c.job)
			e.bereave(c.job)
			return nil, nil
		}},
		{"kill host", "", func(_ context.Context, _ term, c *candidate) (func(), error) {
			e.killOff(c.job)
			return nil, nil
		}},
		{"freeze flockd", "lost", func(_ context.Context, _ term, c *candidate) (func(), error) {
			c.stop()
			return c.wake, nil
		}},
		{"command ends", "ended", e.sends(syscall.SIGUSR1)}, // which is passed on
		{"kill command", "ended", func(_ context.Context, t term, c *candidate) (func(), error) {
			if slices.Contains(c.members(), t.command) {
				syscall.Kill(t.command, syscall.SIGKILL)
			}
			return nil, nil
		}},
	}
	if e.ground.links != nil {
		all = append(all, means{"cut", "lost", cut})
	}
	for _, h := range e.ground.halts {
		all = append(all, means{h.name, "lost", e.halted(h)})
	}
	return all
}

func (e *election) sends(sig syscall.Signal) func(context.Context, term, *candidate) (func(), error) {
	return func(_ context.Context, _ term, c *candidate) (func(), error) {
		e.send(c, sig)
		return nil, nil
	}
}

// asks runs another flockd.
func (e *election) asks(args ...string) func(context.Context, term, *candidate) (func(), error) {
	return func(context.Context, term, *candidate) (func(), error) {
		out, err := e.command(e.store.direct, args...).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, out)
		}
		return nil, nil
	}
}

// cut cuts a leader off from the store until another one is elected.
func cut(_ context.Context, _ term, c *candidate) (func(), error) {
	for _, dir := range []servers.Direction{servers.Requests, servers.Replies} {
		c.link.Stall(dir)
	}
	return func() {
		c.link.Pass(servers.Requests)
		c.link.Pass(servers.Replies)
	}, nil
}

// halted halts the store until the leader's command is dead, as the kernel says.
func (e *election) halted(h halt) func(context.Context, term, *candidate) (func(), error) {
	return func(ctx context.Context, t term, _ *candidate) (func(), error) {
		right, err := h.apply(ctx)
		if err != nil {
			return nil, err
		}
		if err := e.vacant(ctx, electionTTL+20*time.Second); err != nil {
			e.t.Errorf("%s of term %d: %v", h.name, t.token, err)
		}
		return nil, right()
	}
}

// vacant waits until no process of a command lives.
func (e *election) vacant(ctx context.Context, within time.Duration) error {
	for end := time.Now().Add(within); ; lasts(ctx, 20*time.Millisecond) {
		free, err := oracle.Free(filepath.Join(e.folder, "oracle."+service))
		switch {
		case err != nil || free:
			return err
		case time.Now().After(end):
			return fmt.Errorf("the command lives on %v after its store", within)
		}
	}
}

// depose ends terms by all means, each as often as the others and in random order, until
// they have changed so often.
func (e *election) depose(ctx context.Context, changes int) error {
	for {
		all := e.means()
		for _, n := range e.random.Perm(len(all)) {
			if len(e.changes) >= changes {
				return nil
			}
			if err := e.deposeBy(ctx, all[n]); err != nil {
				return err
			}
		}
	}
}

// deposeBy ends a term, and wants the next one to begin.
func (e *election) deposeBy(ctx context.Context, m means) error {
	if _, err := e.current(ctx); err != nil {
		return err
	}
	lasts(ctx, between(e.random, 50*time.Millisecond, 1500*time.Millisecond))
	old, err := e.current(ctx)
	if err != nil {
		return err
	}
	right, failed := m.apply(ctx, old, e.candidate(old))
	next, late, err := e.follower(ctx, old, right)
	if err != nil {
		return fmt.Errorf("%s of term %d: %w", m.name, old.token, errors.Join(failed, err))
	}
	if failed != nil { // the term had just ended by itself
		return nil
	}
	e.changes = append(e.changes, change{m.name, m.told, late, old, next})
	return nil
}

// follower is the term that follows another one, after which it puts things right, or late: before.
func (e *election) follower(ctx context.Context, old term, right func()) (next term, late bool, _ error) {
	next, ok := e.await(ctx, old, electedWithin)
	late = !ok
	if right != nil {
		right()
	}
	if late {
		next, ok = e.await(ctx, old, afterwards)
	}
	if err := checkOracle(e.folder); err != nil || ok {
		return next, late, err
	}
	return next, late, fmt.Errorf("nobody is elected after %v", electedWithin+afterwards)
}
