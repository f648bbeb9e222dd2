package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"flockd/backends"
)

// How long each step may take.
const (
	gathering = 15 * time.Second // a contender stands in line, on a busy host as well
	electing  = 15 * time.Second // one leads, or has written: as long as a place in line lasts
	proving   = 10 * time.Second // the next one has written
	following = 15 * time.Second // the old one stands in line: it asks a silent store every 8 s at least
	ending    = 10 * time.Second // a contender ends: as long as the grace of a run is at most
	asking    = 2 * time.Second  // one request of the drill's own,
	attempts  = 3                // which is sent so often where it has no answer

	steadyWrites = 3 // of a leader before it is disturbed
)

// changing is how long the change of leader may take: a lease lasts for a TTL at most after it was
// last renewed; the rest is for a store that rounds up or elects a leader of its own, and for a
// busy host.
func changing(ttl time.Duration) time.Duration { return 2*ttl + 10*time.Second }

// Longest is how long a drill lasts at most.
func Longest(ttl time.Duration) time.Duration {
	const requests = 5 // the key's release, a wish to resign, a look at a change that doesn't come, and in the end the release and a look at what is left
	return 2*(gathering+electing) + changing(ttl) + proving + following + 3*ending + requests*attempts*asking
}

// Options describe a drill.
type Options struct {
	Backend backends.Backend // the drill's own way to the store
	Store   string           // the store's URL in full, for the contenders
	Lease   backends.Lease   // a hold of the drill's key, until the first contender stands in line. Run gives it back
	Fault   Fault
	By      backends.Owner // of the wish that the leader resign
	Stderr  *os.File       // of the contenders
	Verbose bool           // they say what they see
}

// ContenderError says that a contender could not go on, for a reason that has nothing to do with
// the fault.
type ContenderError struct {
	Name  string
	Class string // as of runner.Result; empty: it has ended
	Text  string
}

// HostError says that this host couldn't do what a drill needs: the store isn't to blame.
type HostError struct{ Err error }

func (e *HostError) Error() string { return e.Err.Error() }
func (e *HostError) Unwrap() error { return e.Err }

func (e *ContenderError) Error() string { return "contender " + e.Name + ": " + e.Text }

// Run carries out a drill and judges it. Errors: ctx's cause, a *ContenderError, a *HostError, and
// the store's; there is no report then. Nothing runs on in any case.
func Run(ctx context.Context, o Options) (r Report, began time.Duration, err error) {
	began = now()
	d := &drill{Options: o, sight: newSight()}
	if d.dir, err = os.MkdirTemp("", "flockd-drill-"); err == nil {
		err = d.rehearse(ctx)
	} else {
		err = &HostError{fmt.Errorf("a folder in TMPDIR: %w", err)}
	}
	d.close(ctx)
	if err != nil {
		return Report{}, began, err
	}
	return Judge(Case{Fault: o.Fault, TTL: o.Lease.TTL, Before: o.Lease.Token}, d.sight.all()), began, nil
}

type drill struct {
	Options
	dir        string
	sight      *sight
	contenders []*contender
}

// rehearse ends early, and without an error, where the judge has seen enough or something
// doesn't come in time that he will miss.
func (d *drill) rehearse(ctx context.Context) error {
	err := d.gather(ctx)
	if err == nil {
		err = d.change(ctx)
	}
	if errors.Is(err, errLate) || errors.Is(err, errMet) {
		return nil
	}
	return err
}

// errMet says that two commands run at once: the rest wouldn't tell more.
var errMet = errors.New("two commands run at once")

// gather has one contender lead and another one stand in line behind it. The first stands in
// line before the key is free, so that nobody else gets in between; the second comes when the first leads, since
// what a store tells those who wait for the next to lead is not what it tells those who wait for a leader's end.
func (d *drill) gather(ctx context.Context) error {
	if err := d.send(ctx, "a"); err != nil {
		return err
	}
	if err := d.release(ctx); err != nil {
		return err
	}
	if err := d.await(ctx, electing, func(events []Event) bool { return leader(events) != nil }); err != nil {
		return err
	}
	return d.send(ctx, "b")
}

// send starts a contender, and returns when it stands in line.
func (d *drill) send(ctx context.Context, name string) error {
	part := Part{Name: name, Store: d.Store, Key: d.Lease.Key, TTL: d.Lease.TTL, Dir: d.dir, Verbose: d.Verbose, Drill: os.Getpid()}
	c, err := startContender(part, d.Stderr, func(e Event) { d.sight.saw(d.dir, e) })
	if c != nil {
		d.contenders = append(d.contenders, c)
		go func() { <-c.exited; d.sight.stir() }()
	}
	if err != nil {
		return &HostError{err}
	}
	err = d.await(ctx, gathering, func(events []Event) bool {
		return slices.ContainsFunc(events, func(e Event) bool {
			return e.Contender == name && (e.Kind == InLine || e.Kind == Started) // it was alone there
		})
	})
	if errors.Is(err, errLate) {
		return fmt.Errorf("contender %s doesn't stand in line after %v", name, gathering)
	}
	return err
}

// change disturbs the leader, and waits for the other and for what comes of it.
func (d *drill) change(ctx context.Context) error {
	old, err := d.strike(ctx)
	if err != nil {
		return err
	}
	err = d.await(ctx, changing(d.Lease.TTL), func(events []Event) bool { return next(events) != nil })
	if errors.Is(err, errLate) {
		err = cmp.Or(d.silent(ctx), err)
	}
	if err != nil {
		return err
	}
	if err := d.await(ctx, proving, func(events []Event) bool { return writes(events, next(events)) > 0 }); err != nil {
		return err
	}
	if err := d.writeLate(old); err != nil {
		return err
	}
	return d.follow(ctx, old)
}

// silent is why the store can't be asked, which is then why nobody was elected. nil: it can.
func (d *drill) silent(ctx context.Context) error {
	return again(ctx, func(ctx context.Context) error {
		_, err := d.Backend.Inspect(ctx, d.Lease.Key)
		return err
	})
}

func (d *drill) release(ctx context.Context) error {
	err := again(context.WithoutCancel(ctx), func(ctx context.Context) error {
		return d.Backend.Release(ctx, d.Lease.Key, d.Lease.ID, backends.Outcome{})
	})
	if errors.Is(err, backends.ErrLost) {
		return nil // it has expired: the first in line leads already
	}
	return err
}

// again asks the store, and once more where it gives no answer.
func again(ctx context.Context, ask func(context.Context) error) (err error) {
	for range attempts {
		limited, cancel := context.WithTimeout(ctx, asking)
		err = ask(limited)
		cancel()
		final := errors.Is(err, backends.ErrLost) || errors.Is(err, backends.ErrNotFound) || errors.Is(err, backends.ErrRefused)
		if err == nil || final || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// strike waits for a leader that is steady, and disturbs it. One that has lost its lease before
// is another one's.
func (d *drill) strike(ctx context.Context) (old Term, err error) {
	for {
		err := d.await(ctx, electing, func(events []Event) bool {
			l := leader(events)
			if l != nil {
				old = *l
			}
			return l != nil && writes(events, l) >= steadyWrites
		})
		if err != nil {
			return old, err
		}
		e := Event{Kind: Struck, At: now(), Contender: old.Contender, Token: old.Token}
		if err = d.disturb(ctx, old); err == nil {
			d.sight.add(e)
		}
		if !errors.Is(err, backends.ErrNotFound) {
			return old, err
		}
	}
}

// disturb does the fault to a leader. ErrNotFound: it leads no more.
func (d *drill) disturb(ctx context.Context, t Term) error {
	if d.Fault != Resign {
		return d.contender(t).strike(d.Fault)
	}
	wish := backends.Notice{Kind: backends.Resign, By: d.By, Reason: "flockd drill"}
	return again(ctx, func(ctx context.Context) error { return d.Backend.Ask(ctx, d.Lease.Key, t.id, wish) })
}

// writeLate tries writes with the tokens of terms that are over.
func (d *drill) writeLate(old Term) error {
	for _, token := range []backends.Token{old.Token, d.Lease.Token} {
		e, err := write(d.dir, token)
		if err != nil {
			return &HostError{err}
		}
		d.sight.add(e)
	}
	return nil
}

// follow lets the old leader go on, and waits until it stands in line.
func (d *drill) follow(ctx context.Context, old Term) error {
	switch d.Fault {
	case Kill:
		return nil
	case Freeze, Cut:
		e := Event{Kind: Mended, At: now(), Contender: old.Contender}
		if err := d.contender(old).mend(); err != nil {
			return err
		}
		d.sight.add(e)
	}
	c := Case{Fault: d.Fault, Before: d.Lease.Token}
	return d.await(ctx, following, func(events []Event) bool {
		r, _ := follow(c, events)
		return r.Follows != nil
	})
}

func (d *drill) contender(t Term) *contender {
	return d.contenders[slices.IndexFunc(d.contenders, func(c *contender) bool { return c.name == t.Contender })]
}

// await waits for something that the events show, as long as the contenders go on.
func (d *drill) await(ctx context.Context, limit time.Duration, there func([]Event) bool) error {
	return d.sight.await(ctx, limit, func(events []Event) (bool, error) {
		err := d.trouble(events)
		if err == nil && len(meetings(termsOf(events))) > 0 {
			err = errMet
		}
		return there(events), err
	})
}

// trouble is why a contender can't go on; nil: all go on.
func (d *drill) trouble(events []Event) error {
	for _, e := range events {
		if e.Kind == Failed {
			return &ContenderError{e.Contender, e.Class, e.Text}
		}
	}
	for _, c := range d.contenders {
		if how := c.gone(); how != "" {
			return &ContenderError{c.name, "", "it has ended by itself: " + how}
		}
	}
	return nil
}
