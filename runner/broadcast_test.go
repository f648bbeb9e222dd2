package runner

import (
	"slices"
	"syscall"
	"testing"
	"time"
)

func TestBroadcast(t *testing.T) {
	const ms = time.Millisecond
	type step struct {
		at    time.Duration
		guard bool // it comes to the guard, else to us
		sig   syscall.Signal
	}
	term, intr := syscall.SIGTERM, syscall.SIGINT
	for _, tc := range []struct {
		name  string
		steps []step
		want  []syscall.Signal // what is passed on, in the end
	}{
		{"to us alone", []step{{0, false, term}}, []syscall.Signal{term}},
		{"to all, us first", []step{{0, false, term}, {ms, true, term}}, nil},
		{"to all, the guard first", []step{{0, true, term}, {ms, false, term}}, nil},
		{"to the guard alone", []step{{0, true, term}}, nil},
		{"another to the guard", []step{{0, false, term}, {ms, true, intr}}, []syscall.Signal{term}},
		{"the guard too late", []step{{0, false, term}, {apart, true, term}}, []syscall.Signal{term}},
		{"the guard long before", []step{{0, true, term}, {apart, false, term}}, []syscall.Signal{term}},
		{"to all twice", []step{{0, false, term}, {ms, true, term}, {2 * ms, true, term}, {3 * ms, false, term}}, nil},
		{"to all, and to us", []step{{0, false, term}, {ms, true, term}, {2 * ms, false, term}}, []syscall.Signal{term}},
		{"two kinds to all", []step{{0, false, intr}, {0, false, term}, {ms, true, term}, {ms, true, intr}}, nil},
	} {
		var b broadcast
		var got []syscall.Signal
		for _, s := range tc.steps {
			got = append(got, b.due(s.at)...)
			if s.guard {
				b.toGuard(s.sig, s.at)
			} else {
				b.toUs(s.sig, s.at)
			}
		}
		if at := b.next(); (at == never) != (len(got)+len(b.ours) == len(got)) || at != never && at > time.Second {
			t.Errorf("%s: next at %v", tc.name, at)
		}
		got = append(got, b.due(time.Second)...)
		if !slices.Equal(got, tc.want) || len(b.ours)+len(b.guards) != 0 {
			t.Errorf("%s: passed on %v, want %v; left %v", tc.name, got, tc.want, b)
		}
	}
}
