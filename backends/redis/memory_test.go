package redis

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

// A full Redis costs a running job nothing, nor anybody in line; who comes new hears
// why not.
func TestFullRedis(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	lease, first, second := acquire(t, s, request("a")), queue("a"), queue("a")
	held(t, s, first)
	held(t, s, second)
	cools := request("b")
	cools.MinHold = time.Minute
	cooling := acquire(t, s, cools)
	runs := acquire(t, s, once("c", "v42"))
	hears := once("c", "v42")
	held(t, s, hears)
	slots := queue("d")
	slots.Mode, slots.Slots = backends.Slots, 1
	slot, nextSlot := acquire(t, s, slots), slots
	nextSlot.ID = backends.NewID()
	held(t, s, nextSlot)
	do(t, s, "CONFIG", "SET", "maxmemory", "1")
	for _, key := range []string{"a", "new"} { // to stand in line, and to hold
		_, err := s.Acquire(t.Context(), queue(key))
		wantTrouble(t, err, "is out of memory")
	}
	renew(t, s, lease)
	acquire(t, s, backends.Request{Key: "a", ID: lease.ID, Mode: backends.Exclusive, TTL: time.Minute})
	held(t, s, first)
	if err := s.Ask(t.Context(), "a", lease.ID, backends.Notice{Kind: backends.Break}); err != nil {
		t.Errorf("Ask = %v", err)
	}
	if err := s.Release(t.Context(), "a", lease.ID, backends.Outcome{Class: "finished", Success: true}); err != nil {
		t.Errorf("Release = %v", err)
	}
	if inspect(t, s, "a").LastSuccess == nil {
		t.Error("the run was not recorded")
	}
	renew(t, s, acquire(t, s, first))
	if err := s.Ask(t.Context(), "a", first.ID, backends.Notice{Force: true}); err != nil {
		t.Errorf("Ask by force = %v", err)
	}
	release(t, s, acquire(t, s, second))
	release(t, s, cooling)
	complete(t, s, runs)
	if _, err := s.Acquire(t.Context(), hears); !errors.Is(err, backends.ErrDone) {
		t.Errorf("Acquire = %v, want that it is done", err)
	}
	release(t, s, slot)
	acquire(t, s, nextSlot)
	do(t, s, "CONFIG", "SET", "maxmemory", "0")
	grows(t, s, lease)
}

// A Redis that can't save, or lacks replicas, takes no writes until that has passed.
func TestRedisThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	s := open(t, "redis://"+server.Addr)
	lease := acquire(t, s, request("a"))
	do(t, s, "CONFIG", "SET", "min-replicas-to-write", "1")
	_, err := s.Renew(t.Context(), lease)
	wantTrouble(t, err, "too few replicas")
	_, err = s.Acquire(t.Context(), request("b"))
	wantTrouble(t, err, "too few replicas")
	do(t, s, "CONFIG", "SET", "min-replicas-to-write", "0")
	renew(t, s, lease)

	do(t, s, "CONFIG", "SET", "save", "3600 1")
	if err := os.RemoveAll(server.Dir); err != nil {
		t.Fatal(err)
	}
	do(t, s, "BGSAVE")
	awaitInfo(t, s, "persistence", "rdb_last_bgsave_status:err")
	_, err = s.Renew(t.Context(), lease)
	wantTrouble(t, err, "can't save its data")
	do(t, s, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
	renew(t, s, lease)
}

// A Redis that has much to load says so until it has.
func TestLoadingRedis(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, "--key-load-delay", "5000", "--loading-process-events-interval-bytes", "1024")
	s := open(t, "redis://"+server.Addr)
	lease := acquire(t, s, request("a"))
	for range 200 {
		do(t, s, "SET", backends.NewID(), "a value of some length, for Redis looks up from its loading every 1024 bytes of it")
	}
	do(t, s, "SAVE")
	server.Kill()
	server.Launch()
	loading := false
	await(t, "a renewal after the loading", func() (string, bool) {
		_, err := s.Renew(t.Context(), lease)
		if err == nil {
			return "", true
		}
		if strings.Contains(err.Error(), "loading") {
			loading = true
			wantTrouble(t, err, server.Addr+" is loading its data")
		}
		return err.Error(), false
	})
	server.Await()
	if !loading {
		t.Error("it was never loading")
	}
}
