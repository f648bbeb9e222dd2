package election

import (
	"os"
	"time"

	"flockd/backends"
	"flockd/runner"
)

// options are those of the next term. What the runner tells is put in the queue: it must not
// be held up.
func (c *candidate) options(passed chan os.Signal) runner.Options {
	o := c.o.Term
	o.Request.ID = backends.NewID()
	o.Wait, o.Leftovers = runner.Forever, runner.Purge
	o.Signals, o.Hurry = passed, c.hurry
	o.Beside = c.hooks.elected()
	o.OnSilent = func(why error) {
		call(c.o.Term.OnSilent, why)
		c.events.put(func() { c.waits(nil, why) })
	}
	o.OnWait = func(held *backends.HeldError) {
		call(c.o.Term.OnWait, held)
		if held != nil {
			c.events.put(func() { c.waits(held, nil) })
		}
	}
	o.OnStart = func(lease backends.Lease) {
		call(c.o.Term.OnStart, lease)
		began := time.Now()
		c.events.put(func() { c.leads(lease, began, passed) })
	}
	o.OnRenew = func(left time.Duration) {
		call(c.o.Term.OnRenew, left)
		c.events.put(func() { c.renewed(left) })
	}
	o.OnStop = func(why error, left time.Duration) {
		if f := c.o.Term.OnStop; f != nil {
			f(why, left)
		}
		c.events.put(func() { c.stops(why, left) })
	}
	o.OnGone = func(res runner.Result) {
		call(c.o.Term.OnGone, res)
		c.events.put(func() { c.gone(res) })
	}
	return o
}

func call[T any](f func(T), with T) {
	if f != nil {
		f(with)
	}
}
