package backendtest

import (
	"context"
	"slices"
	"time"

	"flockd/backends"
)

var listProperties = []property{
	{name: "ListIsByPrefixAndInOrder", test: listInOrder},
	{name: "ListShowsWhatInspectShows", test: listShows},
	{name: "ListShowsKeysWithALastRun", test: listLastRun},
	{name: "ListStopsWhenToldTo", test: listStops},
	{name: "ListHoldsUpNobody", test: listHoldsUp},
	{name: "ListEndsAfterItsFirstError", test: listError},
}

// listed are the keys that List finds, less the prefix.
func (c client) listed(prefix string) (keys []string) {
	c.e.Helper()
	for status, err := range c.List(c.e.Context(), prefix) {
		if err != nil {
			c.e.Fatalf("List = %v", err)
		}
		keys = append(keys, status.Key[min(len(prefix), len(status.Key)):])
	}
	return keys
}

// hold takes the test's key with something appended.
func (c client) hold(suffix string) backends.Lease {
	req := c.request()
	req.Key += suffix
	return c.grant(req)
}

// The prefix is no pattern, no path, and no other case of itself.
func listInOrder(e *env) {
	a := e.client()
	suffixes := []string{"", "%", "%2Fb", "*", "/", "/b", "A", "_", "a", "b", "업무"}
	for _, i := range []int{3, 0, 9, 1, 10, 8, 2, 7, 4, 6, 5} {
		a.hold(suffixes[i])
	}
	if got := a.listed(e.key); !slices.Equal(got, suffixes) {
		e.Errorf("List finds %q, want %q", got, suffixes)
	}
	for prefix, want := range map[string][]string{"%": {"", "2Fb"}, "*": {""}, "/": {"", "b"}, "A": {""}, "_": {""}, "a": {""}, "none": nil} {
		if got := a.listed(e.key + prefix); !slices.Equal(got, want) {
			e.Errorf("List of …%s finds %q, want %q", prefix, got, want)
		}
	}
}

func listShows(e *env) {
	a, b, _ := e.trio()
	a.grant(a.request())
	b.held(b.queue())
	want := a.status().Line
	for status := range a.List(e.Context(), e.key) {
		if len(status.Line) != len(want) || undated(status.Line[0]) != undated(want[0]) || undated(status.Line[1]) != undated(want[1]) {
			e.Errorf("line %+v, want %+v", status.Line, want)
		}
	}
}

func listLastRun(e *env) {
	c, _ := e.run(succeeded)
	lease := c.hold("/nothing-ran")
	if err := c.Release(e.Context(), lease.Key, lease.ID, backends.Outcome{}); err != nil {
		e.Errorf("Release = %v", err)
	}
	if got := c.listed(e.key); !slices.Equal(got, []string{""}) {
		e.Errorf("List finds %q, want only the key that has a last run", got)
	}
}

func listStops(e *env) {
	a := e.client()
	a.hold("")
	a.hold("/b")
	n := 0
	for range a.List(e.Context(), e.key) {
		n++
		break
	}
	if n != 1 {
		e.Errorf("%d keys before the first was read", n)
	}
}

// A client that reads slowly, or is stopped while it does, holds up no renewal.
func listHoldsUp(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.request())
	for _, err := range b.List(e.Context(), e.key) {
		if err != nil {
			e.Fatalf("List = %v", err)
		}
		ctx, cancel := context.WithTimeout(e.Context(), 5*time.Second)
		defer cancel()
		if _, err := a.Renew(ctx, lease); err != nil {
			e.Errorf("Renew while a list is read = %v", err)
		}
	}
}

func listError(e *env) {
	a := e.client()
	a.hold("")
	a.hold("/b")
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	var errs []error
	for _, err := range a.List(ctx, e.key) {
		errs = append(errs, err)
	}
	if len(errs) != 1 || errs[0] == nil {
		e.Errorf("errors %v, want one after the context had ended", errs)
	}
}
