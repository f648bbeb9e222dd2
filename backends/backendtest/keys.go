package backendtest

import (
	"context"
	"strings"

	"flockd/backends"
)

var keyProperties = []property{
	{name: "KeysStayApart", test: keysApart},
}

// awkward are keys that a store might mix up: by escaping, by a path, by a
// pattern, by a collation, or by cutting them off.
var awkward = []string{
	"a", "A", "a ", "a/", "a/b", "a//b", "a%2Fb", "a%", "a_", "a*", "á", "a\u0301",
	"*", "-x", ".", "..", "{a}", "{a}b", "a}", `'"; --`, `a\`, "$1", "ключ", "业务:订单-42", "🔒",
	strings.Repeat("k", backends.MaxKey), strings.Repeat("k", backends.MaxKey-1), strings.Repeat("业", backends.MaxKey/3) + "ab",
}

// All of them are held at the same time, and none by the one of another.
func keysApart(e *env) {
	a := e.client()
	leases := map[string]backends.Lease{}
	for _, key := range awkward {
		req := a.request()
		req.Key = key
		leases[key] = a.grant(req)
		e.Cleanup(func() { a.Release(context.Background(), key, req.ID, backends.Outcome{}) })
	}
	for key, lease := range leases {
		status, err := a.Inspect(e.Context(), key)
		if err != nil || status.Key != key || len(status.Line) != 1 || status.Line[0].ID != lease.ID {
			e.Errorf("%q: %+v, %v", key, status, err)
		}
		if again := a.renew(lease); again.TTL != lease.TTL {
			e.Errorf("%q: renewed for %v", key, again.TTL)
		}
		a.release(lease)
	}
}
