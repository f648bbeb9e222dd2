package backendtest

import (
	"time"

	"flockd/backends"
)

var renewProperties = []property{
	{name: "RenewExtends", test: renewExtends},
	{name: "RenewAfterTheEndIsLost", test: renewAfterEnd},
	{name: "RenewAfterAnotherTookItIsLost", test: renewAfterTaken},
	{name: "RenewNeverInserts", test: renewInserts},
	{name: "RenewOfAPlaceIsLost", test: renewPlace},
	{name: "AnotherClientsRenewalExtends", needs: portable, test: renewAnother},
}

func renewExtends(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.brief())
	lease.TTL *= 2
	start := time.Now()
	renewal := a.renew(lease)
	_, at := b.untilGranted(b.request())
	e.notBefore(start, a.Traits().Trusted(renewal.TTL), at, "granted to another")
}

// A lease that ended stays ended, taken or not.
func renewAfterEnd(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.brief())
	b.untilGone(lease.ID)
	a.renewIsLost(lease)
	if line := b.status().Line; len(line) > 0 {
		e.Errorf("the renewal revived %+v", line)
	}
}

func renewAfterTaken(e *env) {
	a, b, _ := e.trio()
	old := a.grant(a.brief())
	lease, _ := b.untilGranted(b.request())
	a.renewIsLost(old)
	b.renew(lease)
}

func renewInserts(e *env) {
	a := e.client()
	a.renewIsLost(backends.Lease{Key: e.key, ID: backends.NewID(), Token: 1, Mode: backends.Exclusive, TTL: e.long})
	if line := a.status().Line; len(line) > 0 {
		e.Errorf("the renewal inserted %+v", line)
	}
}

func renewPlace(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.request())
	req := b.queue()
	b.held(req)
	lease.ID = req.ID
	b.renewIsLost(lease)
}

// A client that has asked the store for nothing yet extends a hold like any other.
func renewAnother(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.brief())
	time.Sleep(lease.TTL / 2)
	start := time.Now()
	renewal := b.renew(lease)
	if renewal.TTL != lease.TTL {
		e.Errorf("renewed for %v, want %v", renewal.TTL, lease.TTL)
	}
	_, at := c.untilGranted(c.request())
	e.notBefore(start, b.Traits().Trusted(renewal.TTL), at, "granted to another")
}
