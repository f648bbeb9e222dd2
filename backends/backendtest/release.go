package backendtest

import "flockd/backends"

var releaseProperties = []property{
	{name: "ReleaseByAnotherIsLost", test: releaseByAnother},
	{name: "ReleaseAfterTheEndIsLost", test: releaseAfterEnd},
	{name: "SecondReleaseIsLost", test: secondRelease},
	{name: "ReleasedIDIsForbidden", test: releasedID},
	{name: "IDReleasedBeforeItCameIsForbidden", test: unknownID},
	{name: "PlaceGivenUpIsForbidden", test: placeGivenUp},
}

func releaseByAnother(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.request())
	b.releaseIsLost(e.key, backends.NewID())
	if b.inLine(lease.ID) == nil {
		e.Error("the holder is gone")
	}
}

func releaseAfterEnd(e *env) {
	a, b, _ := e.trio()
	old := a.grant(a.brief())
	lease, _ := b.untilGranted(b.request())
	a.releaseIsLost(e.key, old.ID)
	b.renew(lease)
}

func secondRelease(e *env) {
	a := e.client()
	lease := a.grant(a.request())
	a.release(lease)
	a.releaseIsLost(e.key, lease.ID)
}

func releasedID(e *env) {
	a := e.client()
	req := a.request()
	a.release(a.grant(req))
	a.acquireIs(backends.ErrLost, req)
}

// An acquire that its own release has overtaken can't come back as a ghost.
func unknownID(e *env) {
	a := e.client()
	req := a.request()
	a.releaseIsLost(e.key, req.ID)
	a.acquireIs(backends.ErrLost, req)
}

func placeGivenUp(e *env) {
	a, b, _ := e.trio()
	a.grant(a.request())
	req := b.queue()
	b.held(req)
	b.giveUp(req)
	b.acquireIs(backends.ErrLost, req)
}
