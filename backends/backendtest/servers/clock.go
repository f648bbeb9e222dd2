package servers

import (
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// WallClock is the wall clock of the servers that are started with its environment.
// Only programs that ask the C library for the time go by it: not etcd, as Go programs
// ask the kernel themselves.
type WallClock struct {
	Env []string

	t    testing.TB
	mu   sync.Mutex
	file *os.File // eight bytes: the offset in nanoseconds
	off  time.Duration
}

// Clock makes a clock that is right until it is stepped.
func Clock(t testing.TB) *WallClock {
	t.Helper()
	shim, err := buildShim()
	if err != nil {
		t.Fatalf("build the clock's library: %v", err)
	}
	path := filepath.Join(t.TempDir(), "clock")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	c := &WallClock{Env: []string{"LD_PRELOAD=" + shim, "FLOCKD_TEST_CLOCK=" + path}, t: t, file: file}
	c.Step(0)
	return c
}

// Step moves the clock by d, backwards if negative.
func (c *WallClock) Step(d time.Duration) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
	// Eight aligned bytes, which a reader sees as they were or as they are.
	if _, err := c.file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(c.off)), 0); err != nil {
		c.t.Errorf("step the clock: %v", err)
	}
}

// Redis is a Redis that goes by the clock.
func (c *WallClock) Redis(t testing.TB, args ...string) *Process {
	t.Helper()
	return redis(t, Host{}, c.Env, args...)
}

// MariaDB is a MariaDB that goes by the clock.
func (c *WallClock) MariaDB(t testing.TB, args ...string) *Process {
	t.Helper()
	return mariaDB(t, Host{}, c.Env, args...)
}

// Postgres is a PostgreSQL that goes by the clock. It runs as another user, who has to
// reach the clock.
func (c *WallClock) Postgres(t testing.TB, settings ...string) *Process {
	t.Helper()
	shim, err := buildShim()
	if err != nil {
		t.Fatalf("build the clock's library: %v", err)
	}
	p := newPostgres(t, Host{}, settings...)
	own := filepath.Join(p.Dir, "clock.so")
	if _, err := output("cp", shim, own); err != nil {
		t.Fatal(err)
	}
	if err := enterable(filepath.Dir(c.file.Name())); err != nil {
		t.Fatal(err)
	}
	p.env = append(slices.Clone(c.Env), "LD_PRELOAD="+own)
	return p.serve()
}

//go:embed shim/clock.c
var shimSource []byte

var buildShim = sync.OnceValues(func() (string, error) {
	sum := sha256.Sum256(shimSource)
	return cached("clock-"+hex.EncodeToString(sum[:8])+".so", func(path string) error {
		source := path + ".c"
		defer os.Remove(source)
		if err := os.WriteFile(source, shimSource, 0o644); err != nil {
			return err
		}
		_, err := output("cc", "-O2", "-Wall", "-shared", "-fPIC", "-o", path, source)
		return err
	})
})
