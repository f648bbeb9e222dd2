package drill

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"flockd/backends"
)

// slow is a store whose renewals and hints take a second, and which counts them.
type slow struct {
	backends.Backend
	asked, answered int
}

func (s *slow) Renew(ctx context.Context, _ backends.Lease) (backends.Renewal, error) {
	s.asked++
	select {
	case <-time.After(time.Second):
		s.answered++
		return backends.Renewal{TTL: time.Minute}, nil
	case <-ctx.Done():
		return backends.Renewal{}, ctx.Err()
	}
}

func (s *slow) Watch(ctx context.Context, lease backends.Lease) error {
	_, err := s.Renew(ctx, lease)
	return err
}

// renewed is a renewal through a link, for at most a minute, and how long it took.
func renewed(t *testing.T, l *link) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	began := time.Now()
	_, err := l.Renew(ctx, backends.Lease{})
	return time.Since(began), err
}

func TestLink(t *testing.T) {
	for _, c := range []struct {
		name            string
		cut, mended     time.Duration // after the call; 0: before it, or never
		takes           time.Duration
		err             error
		asked           int
		isCut, isMended bool
	}{
		{name: "whole", takes: time.Second, asked: 1},
		{name: "cut before", isCut: true, takes: time.Minute, err: context.DeadlineExceeded},
		{name: "cut meanwhile", isCut: true, cut: time.Second / 2, takes: time.Minute, err: context.DeadlineExceeded, asked: 1},
		{name: "cut when it has been answered", isCut: true, cut: 2 * time.Second, takes: time.Second, asked: 1},
		{name: "cut before and mended", isCut: true, isMended: true, mended: 10 * time.Second, takes: 10 * time.Second, err: errCut},
		{name: "cut meanwhile and mended", isCut: true, isMended: true, cut: time.Second / 2, mended: 10 * time.Second, takes: 10 * time.Second, err: errCut, asked: 1},
		{name: "mended before", isCut: true, isMended: true, takes: time.Second, asked: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := &slow{}
			l := newLink(store)
			at := func(d time.Duration, is bool, do func()) {
				switch {
				case is && d == 0:
					do()
				case is:
					time.AfterFunc(d, do)
				}
			}
			at(c.cut, c.isCut, l.cut)
			at(c.mended, c.isMended, l.mend)
			takes, err := renewed(t, l)
			if takes != c.takes || !errors.Is(err, c.err) || store.asked != c.asked {
				t.Errorf("%s: %v after %v, the store was asked %d times", c.name, err, takes, store.asked)
			}
			synctest.Wait()
			time.Sleep(3 * time.Second)
			l.mend()
			if _, err := renewed(t, l); err != nil {
				t.Errorf("%s: a call after it: %v", c.name, err)
			}
		})
	}
}

// TestLinkGivesHints as the store can, and none where it is cut or the store can't.
func TestLinkGivesHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink(&slow{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := l.Watch(ctx, backends.Lease{}); err != nil {
			t.Errorf("a watch: %v", err)
		}
		if err := l.Wait(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wait that the store can't: %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		l.cut()
		if err := l.Watch(ctx, backends.Lease{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a watch that is cut: %v", err)
		}
	})
}
