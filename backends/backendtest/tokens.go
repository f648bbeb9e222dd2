package backendtest

import "flockd/backends"

var tokenProperties = []property{
	{name: "TokensFitJSON", test: tokensFit},
	{name: "TokensGrowAcrossRelease", test: grows(client.release)},
	{name: "TokensGrowAcrossTheEndOfALease", test: growsAcrossEnd},
	{name: "TokensGrowAcrossRemoval", test: grows(client.removes)},
	{name: "TokensGrowAcrossReopening", test: growsAcrossReopening},
}

func tokensFit(e *env) {
	a := e.client()
	if lease := a.grant(a.request()); lease.Token <= 0 || lease.Token >= 1<<53 {
		e.Errorf("token %d is not between 0 and 2^53", lease.Token)
	}
}

// removes ends a hold by force.
func (c client) removes(lease backends.Lease) {
	c.ask(lease.ID, backends.Notice{Kind: backends.Break, Force: true})
}

// grows tests the tokens of three holds that end in the same way.
func grows(end func(client, backends.Lease)) func(e *env) {
	return func(e *env) {
		a := e.client()
		var last backends.Token
		for range 3 {
			lease := a.grant(a.request())
			e.above(lease.Token, last)
			last = lease.Token
			end(a, lease)
		}
	}
}

func growsAcrossEnd(e *env) {
	a, b, _ := e.trio()
	first := a.grant(a.brief())
	second, _ := b.untilGranted(b.request())
	e.above(second.Token, first.Token)
}

// The counter is the store's, not the client's.
func growsAcrossReopening(e *env) {
	a := e.client()
	first := a.grant(a.request())
	a.release(first)
	if err := a.Close(); err != nil {
		e.Errorf("Close = %v", err)
	}
	b := e.client()
	e.above(b.grant(b.request()).Token, first.Token)
}

func (e *env) above(token, last backends.Token) {
	e.Helper()
	if token <= last {
		e.Errorf("token %d after %d", token, last)
	}
}
