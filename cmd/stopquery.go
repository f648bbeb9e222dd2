package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"flockd/backends"
)

// stopQuery is a query that asks claims to stop.
type stopQuery struct {
	*query
	reason *value[string]
	wait   *value[time.Duration]
}

func (a *app) newStopQuery() *stopQuery {
	return &stopQuery{a.newQuery(), newValue("TEXT", "", parseReason), newValue("DUR", "0", atLeast(0))}
}

func (q *stopQuery) registerReason(set *pflag.FlagSet, usage string) {
	addFlag(set, groupLock, "reason", "", q.reason, usage)
}

func (q *stopQuery) registerWait(set *pflag.FlagSet, usage string) {
	addFlag(set, groupWaiting, "wait", "w", q.wait, usage)
	q.register(set, "say only what has gone wrong")
}

// maxReason bounds what whoever is asked has to read, in bytes.
const maxReason = maxNote

func parseReason(text string) (string, error) {
	switch {
	case len(text) > maxReason:
		return "", fmt.Errorf("a reason has %d bytes at most, this one %d", maxReason, len(text))
	case !utf8.ValidString(text):
		return "", errors.New("not valid UTF-8")
	case strings.ContainsFunc(text, unicode.IsControl):
		return "", errors.New("a reason has no control characters")
	}
	return text, nil
}

func (q *stopQuery) checkReason() error {
	if q.reason.given() && strings.TrimSpace(q.reason.of) == "" {
		return usage("", "--reason is empty: a variable that is missing here?")
	}
	return nil
}

// leave leaves a notice for a claim. Errors: backends.ErrNotFound, or errUnused: it has gone; with
// again perhaps since it was asked.
func (q *stopQuery) leave(ctx context.Context, key string, c backends.Claim, kind backends.NoticeKind, force bool) (again bool, err error) {
	notice := backends.Notice{Kind: kind, By: owner(q.Streams, "flockd", ""), Reason: q.reason.of, Force: force}
	return change(ctx, q.query, func(ctx context.Context, b backends.Backend) (struct{}, error) {
		return struct{}{}, b.Ask(ctx, key, c.ID, notice)
	})
}

// report says what came of a notice for a claim.
func (q *stopQuery) report(level slog.Level, text, key string, c backends.Claim) {
	q.print.say(level, text, slog.String("key", key), slog.String("backend", q.address()), slog.String("id", c.ID))
}

// goneText says that a claim was gone before it could be asked, or after an attempt to.
func goneText(c backends.Claim, again bool) string {
	if again {
		return namedOwner(c.Owner) + " has gone, by itself or since it was asked"
	}
	return namedOwner(c.Owner) + " has gone by itself"
}

// A claim hears of a notice with its next question. A waiter asks every toldWaiting, a holder when a
// third of its lease has passed, and after toldRenewing at most.
const (
	toldWaiting  = 5 * time.Second
	toldRenewing = 30 * time.Second
)

// told says when a claim hears of a notice.
func (q *stopQuery) told(c backends.Claim) string { return inSeconds(q.toldIn(c)) }

// toldIn is when a claim whose flockd is up hears of a notice at the latest.
func (q *stopQuery) toldIn(c backends.Claim) time.Duration {
	if c.State == backends.Waiting {
		return toldWaiting
	}
	_, watches := backends.As[backends.Watcher](q.store)
	return toldHolding(c.TTL, watches)
}

// inSeconds is "within 5 s", rounded up.
func inSeconds(d time.Duration) string {
	return fmt.Sprintf("within %d s", (d+time.Second-1)/time.Second)
}

// toldHolding is when a holder with a lease of ttl (zero: how long that is isn't known) hears of a
// notice at the latest, in whole seconds. Where the store can tell it sooner than its next renewal
// does, it does so at once, or looks.
func toldHolding(ttl time.Duration, watches bool) time.Duration {
	if ttl == 0 {
		ttl = longest
	}
	within := min(ttl/3, toldRenewing)
	if watches {
		within = backends.LookEvery(ttl)
	}
	const up = time.Second - 1
	return (within + up).Truncate(time.Second)
}

// await waits until the claims are gone, for --wait at most. Left are those that aren't, as of status.
func (q *stopQuery) await(ctx context.Context, key string, claims []backends.Claim) (status backends.Status, left []backends.Claim, err error) {
	_, err = poll(ctx, q.wait.of, func() (bool, error) {
		status, err = q.inspect(ctx, key)
		left = still(status, claims)
		return len(left) == 0, err
	})
	return status, left, err
}

// still are those of the claims that hold or wait.
func still(status backends.Status, claims []backends.Claim) (left []backends.Claim) {
	for _, now := range status.Line {
		for _, c := range claims {
			if now.ID == c.ID && now.State != backends.Cooling {
				left = append(left, now)
			}
		}
	}
	return left
}
