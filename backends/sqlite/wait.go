//go:build cgo && linux

package sqlite

import (
	"context"

	"flockd/backends"
)

// seen is HeldError.Seen: the place in line, and its bell before the answer.
type seen struct {
	seq  int64
	word uint32
}

// place is what Wait starts from. It must be taken inside the step: whoever leaves
// the line later rings later.
func (s *Store) place(seq int64) any {
	bell, err := s.bell()
	if err != nil {
		return nil
	}
	word, err := bell.look(seq)
	if err != nil {
		return nil
	}
	return seen{seq, word}
}

// Wait implements backends.Waiter.
func (s *Store) Wait(ctx context.Context, held *backends.HeldError) error {
	place, ok := held.Seen.(seen)
	bell, err := s.bell()
	if !ok || err != nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return bell.wait(ctx, place.seq, place.word)
}

// Watch implements backends.Watcher. However many holds a process has, one thread of it
// sleeps for all of them.
func (s *Store) Watch(ctx context.Context, lease backends.Lease) error {
	bell, err := s.bell()
	if err != nil {
		return err
	}
	for from := (seen{}); ; {
		if from.seq != 0 {
			if from.word, err = bell.look(from.seq); err != nil {
				return err
			}
		}
		mine, news, err := s.news(ctx, lease)
		if news || err != nil {
			return err
		}
		if from.seq != mine.seq { // its word has to be looked at before the row
			from.seq = mine.seq
			continue
		}
		if err := bell.watch(ctx, from.seq, from.word); err != nil {
			return err
		}
	}
}

// news is the hold of lease, and whether something was done to it that no renewal has
// told of.
func (s *Store) news(ctx context.Context, lease backends.Lease) (mine *claim, news bool, err error) {
	err = s.look(ctx, func(t *tx) (err error) {
		mine, err = scan(t.row("mine", s.prefix, lease.Key, lease.ID))
		news = !mine.holds(s.clock.boot, t.now) || mine.notice != "" && !mine.toldOfIt
		return err
	})
	return mine, news, s.failed("watch", lease.Key, err)
}

// ring wakes those who wait at places. Without a bell they come by themselves when they
// next keep them.
func (s *Store) ring(seqs ...int64) {
	if len(seqs) == 0 {
		return
	}
	if bell, err := s.bell(); err == nil {
		for _, seq := range seqs {
			bell.ring(seq)
		}
	}
}

// tell wakes whom something was done to: who waits, or watches over the hold.
func (s *Store) tell(c *claim) {
	s.ring(c.seq)
	if bell, err := s.bell(); err == nil && c.state != backends.Waiting {
		bell.ringWatches()
	}
}
