//go:build cgo && linux

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"flockd/backends"
)

// Tokens come from one counter for the whole file, so that they grow for each
// key and go on growing when a key is dropped. A token is the larger of the
// last one plus one and the wall clock in microseconds, which keeps them
// growing when the file itself was lost.
//
// A commit in the log isn't on the disk yet: a power cut may take the last
// grants back, and then a clock that fell behind (no battery, no network yet)
// would hand their tokens out again. So every token lies below a ceiling that
// was raised by a commit which did wait for the disk, an hour of microseconds at
// a time, and the first grant of another boot starts above the ceiling that it
// finds. That costs one wait for the disk an hour instead of one a grant.
const reserve = 3600 * 1_000_000

// maxWall is the wall clock that is believed at most: 2^52 µs is the year 2112.
// Beyond it the counter alone goes on, and has 2^52 tokens left below 2^53.
const maxWall = 1 << 52

// errCeiling says that the next token needs a higher ceiling first.
var errCeiling = errors.New("the token ceiling is reached")

// floor is the smallest token that wall asks for.
func floor(wall int64) int64 {
	if wall > maxWall {
		return 0
	}
	return wall
}

// token hands out the next token, or errCeiling.
func (t *tx) token() (token backends.Token, err error) {
	err = t.row("nextToken", floor(t.store.wall()), t.store.clock.boot).Scan(&token)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, errCeiling
	}
	return token, err
}

// raise moves the ceiling, and waits until the disk has it. As that is done once
// an hour or boot, it drops what is of no use any more.
func (s *Store) raise(ctx context.Context) error {
	return s.step(ctx, durable, func(t *tx) error {
		var boot string
		var last, ceiling int64
		if err := t.row("tokens").Scan(&boot, &last, &ceiling); err != nil {
			return err
		}
		if boot != s.clock.boot {
			last = ceiling
		}
		if err := t.tidy(); err != nil {
			return err
		}
		return t.exec("setTokens", s.clock.boot, last, max(last+1, floor(s.wall()))+reserve)
	})
}

// forgetRuns is how long the last run of a key that nobody uses is kept: a year
// and a month, for the job that runs once a year.
const forgetRuns = 396 * 24 * time.Hour

func (t *tx) tidy() error {
	if err := t.exec("forgetClaims", t.store.clock.boot); err != nil {
		return err
	}
	if err := t.exec("forgetEnded", t.store.clock.boot, t.now); err != nil {
		return err
	}
	return t.exec("forgetRuns", t.store.wall()-forgetRuns.Microseconds())
}
