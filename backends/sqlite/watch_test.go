//go:build cgo && linux

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"flockd/backends"
)

// threads is how many this process has.
func threads(t *testing.T) (n int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	_, after, ok := strings.Cut(string(text), "Threads:")
	if _, scanErr := fmt.Sscan(after, &n); err != nil || !ok || scanErr != nil {
		t.Fatal(err, ok, scanErr)
	}
	return n
}

// A process that watches over many holds has one thread for it, and few connections. Only
// the one that is asked hears of it.
func TestManyWatchesTakeOneThread(t *testing.T) {
	s := open(t, t.TempDir()+"/a.db")
	before := threads(t)
	ctx, cancel := context.WithCancel(t.Context())
	heard := make(chan string)
	var all sync.WaitGroup
	for i := range 500 {
		lease := acquire(t, s, request(fmt.Sprint(i)))
		all.Go(func() {
			if err := s.Watch(ctx, lease); err == nil {
				heard <- lease.Key
			} else if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		if i == 300 {
			notice := backends.Notice{Kind: backends.Break}
			if err := s.Ask(t.Context(), lease.Key, lease.ID, notice); err != nil {
				t.Error(err)
			}
		}
	}
	if key := <-heard; key != "300" {
		t.Errorf("%s has heard", key)
	}
	if n := threads(t) - before; n > 50 {
		t.Errorf("%d more threads", n)
	}
	cancel()
	go func() { all.Wait(); close(heard) }()
	for key := range heard {
		t.Errorf("%s has heard", key)
	}
}

// A bell that is cut short while somebody listens ends nobody.
func TestWatchOnABellThatIsCutShort(t *testing.T) {
	path := t.TempDir() + "/a.db"
	s := open(t, path)
	lease := acquire(t, s, request("k"))
	if _, err := s.bell(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path+"-bell", 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Watch(t.Context(), lease); err == nil {
		t.Error("a broken bell was heard")
	}
	if _, err := s.Renew(t.Context(), lease); err != nil {
		t.Error(err)
	}
}
