//go:build linux

package oracle_test

import (
	"path/filepath"
	"strings"
	"testing"

	"flockd/testscripts/oracle"
)

func TestTake(t *testing.T) {
	for _, tt := range []struct {
		first, then string // mode and slot
		ok          bool
	}{
		{"", "", false},
		{"", "shared", false},
		{"shared", "", false},
		{"", "slots=2 0", false},
		{"slots=2 1", "", false},
		{"shared", "shared", true},
		{"shared", "slots=2 1", false},
		{"slots=2 0", "shared", false},
		{"slots=2 0", "slots=2 1", true},
		{"slots=2 1", "slots=2 1", false},
		{"slots=2 0", "slots=3 1", false},
		{"slots=3 1", "slots=2 0", false},
	} {
		name := filepath.Join(t.TempDir(), "k")
		take := func(how string) error {
			mode, slot, _ := strings.Cut(how, " ")
			f, err := oracle.Take(name, mode, slot)
			t.Cleanup(func() { f.Close() })
			return err
		}
		if err := take(tt.first); err != nil {
			t.Errorf("%q alone: %v", tt.first, err)
		}
		if err := take(tt.then); (err == nil) != tt.ok {
			t.Errorf("%q beside %q: %v", tt.then, tt.first, err)
		}
	}
	for _, how := range [][2]string{{"slots=2", "2"}, {"slots=2", ""}, {"slots=2", "-1"}} {
		if _, err := oracle.Take(filepath.Join(t.TempDir(), "k"), how[0], how[1]); err == nil {
			t.Errorf("%v is no slot", how)
		}
	}
}

// TestFree: a lock is seen by who hasn't it, for as long as it lasts.
func TestFree(t *testing.T) {
	name := filepath.Join(t.TempDir(), "k")
	want := func(free bool) {
		t.Helper()
		if got, err := oracle.Free(name); err != nil || got != free {
			t.Errorf("free: %v, %v", got, err)
		}
	}
	want(true)
	f, err := oracle.Take(name, "", "")
	if err != nil {
		t.Fatal(err)
	}
	want(false)
	f.Close()
	want(true)
}
