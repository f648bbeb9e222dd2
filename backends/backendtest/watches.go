package backendtest

import (
	"context"
	"time"

	"flockd/backends"
)

var watchProperties = []property{
	{name: "WatchReturnsOnANotice", needs: Watches, test: watchNotice},
	{name: "WatchReturnsOnRemoval", needs: Watches, test: watchRemoval},
	{name: "WatchMissesNothing", needs: Watches, test: watchMisses},
	{name: "WatchIgnoresWhatARenewalTold", needs: Watches, test: watchTold},
	{name: "WatchSleepsThroughRenewals", needs: Watches, test: watchRenewals},
	{name: "WatchIgnoresOtherHolders", needs: Watches | SharedHolds, test: watchOthers},
	{name: "WatchEndsWithItsContext", needs: Watches, test: watchContext},
}

// watch starts to watch over a hold; the end of the test ends it.
func (c client) watch(lease backends.Lease) waiting {
	watcher, _ := backends.As[backends.Watcher](c.Backend)
	return c.begin(func(ctx context.Context) error { return watcher.Watch(ctx, lease) })
}

func watchNotice(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.request())
	watch := a.watch(lease)
	watch.sleepsOn("nothing has happened")
	b.ask(lease.ID, b.notice(backends.Resign))
	watch.returns()
}

func watchRemoval(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.request())
	watch := a.watch(lease)
	b.removes(lease)
	watch.returns()
}

// What was done between the grant and Watch, or between a renewal and Watch, counts.
func watchMisses(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.request())
	b.ask(lease.ID, b.notice(backends.Resign))
	a.watch(lease).returns()
	a.renew(lease)
	b.ask(lease.ID, b.notice(backends.Break))
	a.watch(lease).returns()
}

func watchTold(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.request())
	b.ask(lease.ID, b.notice(backends.Resign))
	a.renew(lease)
	a.watch(lease).sleepsOn("the renewal has told of the notice")
}

func watchRenewals(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.request())
	watch := a.watch(lease)
	a.renew(lease)
	b.held(b.queue())
	watch.sleepsOn("nothing was done to the hold but a renewal")
}

func watchOthers(e *env) {
	a, b, _ := e.trio()
	first, second := a.grant(a.shared()), b.grant(b.shared())
	watch := a.watch(first)
	a.ask(second.ID, a.notice(backends.Resign))
	a.removes(second)
	watch.sleepsOn("it was done to another hold")
}

func watchContext(e *env) {
	a := e.client()
	lease := a.grant(a.request())
	watcher, _ := backends.As[backends.Watcher](a.Backend)
	ctx, cancel := context.WithTimeout(e.Context(), e.h.TTL/4)
	defer cancel()
	start := time.Now()
	e.is(watcher.Watch(ctx, lease), context.DeadlineExceeded, "Watch")
	if late := time.Since(start) - e.h.TTL/4; late > e.patient {
		e.Errorf("Watch ended %v after its context", late)
	}
}
