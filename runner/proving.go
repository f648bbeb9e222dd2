package runner

import (
	"context"
	"errors"
	"slices"
	"time"
)

// However many ask whether the hold stands, the store isn't asked sooner than this after the last
// time: a check for each write of a loop isn't held up by it, and after a failure others
// have to get their turn.
const (
	proveFloor      = 10 * time.Millisecond
	proveAgainFloor = 250 * time.Millisecond
)

// inquiry asks whether the hold stands.
type inquiry struct {
	ctx    context.Context // ends when nobody waits any more
	answer chan<- proven   // holds one
	after  int             // so many renewals had been sent when it came: those tell it nothing
}

// proven is what a renewal has shown.
type proven struct {
	timing Timing // counted from before the inquiry
	ttl    time.Duration
	err    error // why the hold doesn't stand, or its command has to go; nil: it stands
}

// inquire has the hold proven by a renewal that is sent after the call. Others who ask share
// it. An error that is no *LostError and no *stoppingError says that nothing could be shown
// before the end of ctx.
func (k *keeper) inquire(ctx context.Context) (proven, error) {
	if err := k.whyStopped(); err != nil { // the keeper may have ended
		return proven{}, err
	}
	answer := make(chan proven, 1)
	select {
	case k.asks <- inquiry{ctx: ctx, answer: answer}:
	case <-ctx.Done():
		return proven{}, k.unproven()
	}
	select {
	case p := <-answer:
		return p, p.err
	case <-ctx.Done():
		return proven{}, k.unproven()
	}
}

// unproven is why nothing can be said.
func (k *keeper) unproven() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.why != nil {
		return k.why
	}
	return errSilent
}

// errEnded is why the hold is of no use any more to those who outlive the command.
var errEnded = errors.New("it has ended, and the key is given back")

// stoppingError says that the command is being stopped though its hold may stand.
type stoppingError struct{ why error }

func (e *stoppingError) Error() string { return e.why.Error() }

// stopped says why the command is being stopped.
func (k *keeper) stopped(why error) {
	if _, lost := why.(*LostError); !lost {
		why = &stoppingError{why}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopping == nil {
		k.stopping = why
	}
}

// outlives reports whether the command runs on after s, and its hold may be proven again.
func (k *keeper) outlives(s stop) bool { return k.warns && s.why == ErrExpiring }

// ending is why the hold can't be proven at now, or its command has to go; nil: it may stand.
func (k *keeper) ending(t term, now time.Duration) error {
	switch s := t.decide(now); {
	case s.do == tell && !k.outlives(s.stop):
		return k.lost(s.stop.why)
	case t.gone != nil:
		return k.lost(t.gone)
	}
	return k.whyStopped()
}

// whyStopped is why the command is being stopped, or has ended; nil: it isn't.
func (k *keeper) whyStopped() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stopping
}

// prove answers those who asked before the renewal was sent that has just succeeded.
func (k *keeper) prove(t term, now time.Duration) {
	p := proven{t.timing, t.ttl, k.ending(t, now)}
	k.waiting = slices.DeleteFunc(k.waiting, func(i inquiry) bool {
		if i.after == k.renewals {
			return false
		}
		i.answer <- p
		return true
	})
}

// attend has the lease renewed soon for those who wait for that, or tells them why it is of no
// use any more.
func (k *keeper) attend() {
	k.waiting = slices.DeleteFunc(k.waiting, func(i inquiry) bool { return i.ctx.Err() != nil })
	if len(k.waiting) == 0 {
		return
	}
	t, now := k.read(), k.clock()
	if err := k.ending(t, now); err != nil {
		for _, i := range k.waiting {
			i.answer <- proven{err: err}
		}
		k.waiting = nil
		return
	}
	pause := proveFloor
	if k.failures > 0 {
		pause = proveAgainFloor
	}
	k.write(t.wanted(now, pause))
}
