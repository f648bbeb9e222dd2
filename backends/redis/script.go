package redis

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flockd/backends"
)

var (
	//go:embed common.lua
	common string
	//go:embed line.lua
	line string
	//go:embed ledger.lua
	ledger string
)

// script is one operation: what is its own, which follows what it shares with others.
type script string

var (
	//go:embed acquire.lua
	acquireScript script
	//go:embed renew.lua
	renewScript script
	//go:embed watch.lua
	watchScript script
	//go:embed release.lua
	releaseScript script
	//go:embed ask.lua
	askScript script
	//go:embed inspect.lua
	inspectScript script
	//go:embed complete.lua
	completeScript script
	//go:embed completed.lua
	completedScript script
	//go:embed entries.lua
	entriesScript script
	//go:embed forget.lua
	forgetScript script
	//go:embed admit.lua
	admitScript script
	//go:embed highest.lua
	highestScript script
)

func (sc script) text() string {
	switch sc {
	case acquireScript, completeScript:
		return common + "\n" + line + "\n" + ledger + "\n" + string(sc)
	case releaseScript, askScript:
		return common + "\n" + line + "\n" + string(sc)
	case completedScript, entriesScript, forgetScript:
		return common + "\n" + ledger + "\n" + string(sc)
	case admitScript, highestScript: // of a resource, not of a key
		return string(sc)
	}
	return common + "\n" + string(sc)
}

// bare is the script as it is sent: without comments in lines of their own and
// indentation, all that a request of ours says first fits in what TCP sends before it
// hears anything (some 14 kB). Lines keep their numbers.
func (sc script) bare() string {
	var bare strings.Builder
	for line := range strings.Lines(sc.text()) {
		line = strings.TrimLeft(line, " ")
		if strings.HasPrefix(line, "--") {
			line = "\n"
		}
		bare.WriteString(line)
	}
	return bare.String()
}

// answer is a script's, and how many replicas have it.
type answer struct {
	values []any
	copies int
}

// run runs the script for the claim id of key, see eval.
func (s *Store) run(ctx context.Context, sc script, key, id string, copies int, args ...any) (answer, error) {
	return s.eval(ctx, sc, s.to.prefix.keys(key, id), copies, append([]any{id, backends.RecordVersion}, args...)...)
}

// eval runs the script in one trip to the server. With copies it then waits until so many
// replicas have what was written by it. The text is sent each time: a server that was
// restarted knows none, and a second trip to tell it may cost a renewal its lease. eval
// ends with ctx: at once when that is cancelled, and at its deadline with what was found
// out by then.
func (s *Store) eval(ctx context.Context, sc script, keys []string, copies int, args ...any) (answer, error) {
	type outcome struct {
		answer
		error
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if fault := recover(); fault != nil {
				o.error = fmt.Errorf("internal fault: %v", fault) // of the client's library: the outcome is unknown
			}
			done <- o
		}()
		o.answer, o.error = s.trip(ctx, sc, keys, copies, args)
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

func (s *Store) trip(ctx context.Context, sc script, keys []string, copies int, args []any) (a answer, err error) {
	p := s.client.Pipeline()
	cmd := p.Eval(ctx, sc.bare(), keys, args...)
	var wait *redis.Cmd
	if copies > 0 {
		wait = p.Do(ctx, "WAIT", copies, s.waitFor(ctx).Milliseconds())
	}
	_, failed := p.Exec(ctx) // what fails before the requests are sent is said here alone
	if cmd.Err() == nil && failed != nil && cmd.Val() == nil {
		return a, failed
	}
	if a.values, err = cmd.Slice(); err != nil {
		return a, err
	}
	s.to.served.Store(true)
	if wait != nil {
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
