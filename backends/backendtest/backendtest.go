// Package backendtest holds the tests that every driver passes: the rules of
// package backends, one property a test. A test is told from the others by what
// it sees fail: this package's own test runs the suite against broken stores,
// each of which fails in one way and one way only.
package backendtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"flockd/backends"
)

// Harness tells the suite how to reach one kind of store. The suite measures
// what the store does by time.Now and lets time pass by time.Sleep, so a store
// with a clock of its own must keep pace with them.
type Harness struct {
	// Open connects one more client to the same store, which t.Cleanup closes.
	Open func(t testing.TB) backends.Backend

	// TTL is the shortest that the store keeps exactly. The tests that see
	// something expire take two or three of it.
	TTL time.Duration

	// Granularity is how much later than promised a claim may end.
	Granularity time.Duration

	// Has lists what the store can do. What it does though it isn't listed is a
	// fault as well, so that no ability is left untested.
	Has Ability

	// Bubble is synctest.Test where the store works in one; nil: tests run in
	// real time, in parallel.
	Bubble func(t *testing.T, f func(t *testing.T))

	// Newer makes the store hold a record of key whose version is
	// backends.RecordVersion + 1. Nil: the store can't hold one.
	Newer func(t testing.TB, key string)
}

// Ability is a set of things that a store may be able to do.
type Ability uint

const (
	Waits       Ability = 1 << iota // backends.Waiter
	Registers                       // backends.Register
	Ledgers                         // backends.Ledger and Request.Once
	SharedHolds                     // Mode Shared
	SlotHolds                       // Mode Slots
	MinHolds                        // Request.MinHold
	Dates                           // claims and runs carry the store's times
	Watches                         // backends.Watcher

	newerRecords // Harness.Newer
	portable     // Traits.Portable
)

// All is every ability of a store.
const All = Waits | Registers | Ledgers | SharedHolds | SlotHolds | MinHolds | Dates | Watches

// A property is one test of the suite.
type property struct {
	name  string
	needs Ability // not run unless the store has all of them
	test  func(e *env)
}

// properties is the suite, one list a subject.
var properties = slices.Concat(
	exclusiveProperties, renewProperties, releaseProperties, tokenProperties,
	lineProperties, hintProperties, turnProperties, watchProperties,
	modeProperties, sharedProperties, slotProperties, minHoldProperties,
	noticeProperties, resignProperties, removalProperties, toldProperties, statusProperties, listProperties,
	ledgerProperties, entryProperties, flightProperties, periodProperties, registerProperties,
	keyProperties, recordProperties, raceProperties, abilityProperties,
)

// Run runs the suite. What the store lacks is listed in the log as not run.
func Run(t *testing.T, h Harness) {
	can := h.Has
	if h.Newer != nil {
		can |= newerRecords
	}
	if h.Open(t).Traits().Portable {
		can |= portable
	}
	var notRun []string
	for _, p := range properties {
		if p.needs&^can != 0 {
			notRun = append(notRun, p.name)
			continue
		}
		t.Run(p.name, func(t *testing.T) { h.run(t, p) })
	}
	if notRun != nil {
		t.Logf("not run, for this store can't do it: %s", strings.Join(notRun, ", "))
	}
}

func (h Harness) run(t *testing.T, p property) {
	if h.Bubble == nil {
		t.Parallel()
		p.test(newEnv(t, h))
		return
	}
	h.Bubble(t, func(t *testing.T) { p.test(newEnv(t, h)) })
}
