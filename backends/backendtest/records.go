package backendtest

import "flockd/backends"

var recordProperties = []property{
	{name: "NewerRecordIsRefused", needs: newerRecords, test: newerRefused},
}

// A record that a later version wrote is never misread as free, or as lost.
func newerRefused(e *env) {
	a := e.client()
	e.h.Newer(e, e.key)
	a.acquireIs(backends.ErrRefused, a.request())
	_, err := a.Inspect(e.Context(), e.key)
	e.is(err, backends.ErrRefused, "Inspect")
}
