package drill

import (
	"context"
	"os"
	"slices"
	"syscall"
	"time"

	"flockd/backends"
)

// close ends the contenders, whoever leads last: else the other would be elected. Then nobody
// is left who could tell anything, and what they had claimed is given back.
func (d *drill) close(ctx context.Context) {
	d.sight.add(Event{Kind: Closing, At: now()})
	last := ""
	if l := leader(d.sight.all()); l != nil {
		last = l.Contender
	}
	for _, lead := range []bool{false, true} {
		for _, c := range d.contenders {
			if (c.name == last) == lead {
				c.end(ending)
			}
		}
	}
	d.clear()
	os.RemoveAll(d.dir) // first: no contender is left that would do it, and the store may take its time
	d.giveBack(ctx)
}

// clear waits for the end of all commands. A guard kills those whose contender was killed;
// who is left after that is killed here.
func (d *drill) clear() {
	over := make(chan struct{})
	go func() {
		for _, c := range d.contenders {
			<-c.drained
		}
		d.sight.lives.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(ending):
		for _, t := range termsOf(d.sight.all()) {
			if !t.ended { // its lock isn't free, so that the number is its own
				syscall.Kill(t.pid, syscall.SIGKILL)
			}
		}
		<-over
	}
}

// giveBack frees the key of what the drill and its contenders may have left: a contender that was
// killed has no guard that gives back a place in line.
func (d *drill) giveBack(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	d.release(ctx)
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	status, err := d.Backend.Inspect(ctx, d.Lease.Key)
	if err != nil {
		return
	}
	for _, claim := range status.Line {
		if d.ours(claim) {
			d.Backend.Ask(ctx, d.Lease.Key, claim.ID, backends.Notice{Kind: backends.Break, By: d.By, Reason: "flockd drill is over", Force: true})
		}
	}
}

func (d *drill) ours(claim backends.Claim) bool {
	return claim.State != backends.Cooling && claim.Owner.Host == d.By.Host && slices.ContainsFunc(d.contenders, func(c *contender) bool {
		return c.process.Process.Pid == claim.Owner.PID
	})
}
