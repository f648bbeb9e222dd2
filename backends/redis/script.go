package redis

import (
	"context"
	"crypto/sha1"
	_ "embed" // the scripts
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed common.lua
	common string
	//go:embed acquire.lua
	acquireLua string
	//go:embed renew.lua
	renewLua string
	//go:embed release.lua
	releaseLua string
	//go:embed ask.lua
	askLua string
	//go:embed inspect.lua
	inspectLua string
)

var (
	acquireScript = &script{own: &acquireLua}
	renewScript   = &script{own: &renewLua}
	releaseScript = &script{own: &releaseLua}
	askScript     = &script{own: &askLua}
	inspectScript = &script{own: &inspectLua}
)

// script is one operation. The server knows it by its sum, once it has seen it. Most
// runs of the program use few of them or none, so the sum is made when first asked for.
type script struct {
	own *string

	once  sync.Once
	known string // the sum, after once
}

func (sc *script) text() string { return common + "\n" + *sc.own }

func (sc *script) sum() string {
	sc.once.Do(func() {
		sum := sha1.Sum([]byte(sc.text()))
		sc.known = hex.EncodeToString(sum[:])
	})
	return sc.known
}

// errNoScript says that the server hasn't seen the script since it was started.
var errNoScript = errors.New("unknown script")

// run runs the script for the claim id of key, on one connection. With copies it
// then waits until so many replicas have what was written by it.
func (s *Store) run(ctx context.Context, sc *script, key, id string, copies int, args ...any) (answer, error) {
	keys := s.to.prefix.keys(key, id)
	args = append([]any{id, version}, args...)
	err := errNoScript
	var a answer
	if copies == 0 { // else the waiting would follow a script that is unknown, too
		a, err = s.request(ctx, 0, func(p redis.Pipeliner) *redis.Cmd { return p.EvalSha(ctx, sc.sum(), keys, args...) })
	}
	if errors.Is(err, errNoScript) {
		a, err = s.request(ctx, copies, func(p redis.Pipeliner) *redis.Cmd { return p.Eval(ctx, sc.text(), keys, args...) })
	}
	return a, err
}

// answer is a script's, and how many replicas have it.
type answer struct {
	values []any
	copies int
}

// request makes one trip to the server. It ends with ctx: at once when that is
// cancelled, and at its deadline with what was found out by then.
func (s *Store) request(ctx context.Context, copies int, eval func(redis.Pipeliner) *redis.Cmd) (answer, error) {
	type outcome struct {
		answer
		error
	}
	done := make(chan outcome, 1)
	go func() {
		a, err := s.trip(ctx, copies, eval)
		done <- outcome{a, err}
	}()
	select {
	case o := <-done:
		return o.answer, o.error
	case <-ctx.Done():
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return answer{}, ctx.Err()
	}
	o := <-done
	return o.answer, o.error
}

func (s *Store) trip(ctx context.Context, copies int, eval func(redis.Pipeliner) *redis.Cmd) (a answer, err error) {
	p := s.client.Pipeline()
	cmd := eval(p)
	var wait *redis.Cmd
	if copies > 0 {
		wait = p.Do(ctx, "WAIT", copies, s.waitFor(ctx).Milliseconds())
	}
	_, failed := p.Exec(ctx) // what fails before the requests are sent is said here alone
	switch err = cmd.Err(); {
	case strings.HasPrefix(said(err), "NOSCRIPT"):
		return a, errNoScript
	case err == nil && failed != nil && cmd.Val() == nil:
		err = failed
	}
	if err != nil {
		return a, err
	}
	if a.values, err = cmd.Slice(); err == nil && wait != nil {
		a.copies, err = wait.Int()
	}
	return a, err
}

// waitFor is how long replicas have to confirm a write, so that the server's word on
// it comes back before the request's time is over.
func (s *Store) waitFor(ctx context.Context) time.Duration {
	left := s.to.timeout
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	return max(left-rounding, left/2, time.Millisecond) // 0 would be for ever
}

// text is the value at i, "" if there is none.
func (a answer) text(i int) string {
	if i < len(a.values) {
		text, _ := a.values[i].(string)
		return text
	}
	return ""
}

// number is the integer at i, 0 if there is none.
func (a answer) number(i int) int {
	if i < len(a.values) {
		n, _ := a.values[i].(int64)
		return int(n)
	}
	return 0
}
