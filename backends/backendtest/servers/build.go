package servers

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// built is the program of the etcd that tools/etcd names. The first test that asks
// builds it, which takes a minute, into the user's cache; others wait for it.
func built(t testing.TB) string {
	t.Helper()
	path, err := buildOnce()
	if err != nil {
		t.Fatalf("build etcd: %v", err)
	}
	return path
}

var buildOnce = sync.OnceValues(func() (string, error) {
	root, err := output("go", "list", "-m", "-f", "{{.Dir}}", "flockd")
	if err != nil {
		return "", err
	}
	module := filepath.Join(root, "tools", "etcd")
	name, err := nameOf(module)
	if err != nil {
		return "", err
	}
	return cached(name, func(path string) error {
		_, err := output("go", "build", "-C", module, "-trimpath", "-o", path, server)
		return err
	})
})

// server is etcd's main package.
const server = "go.etcd.io/etcd/server/v3"

// nameOf is different for whatever would make another program of the module.
func nameOf(module string) (string, error) {
	version, err := output("go", "list", "-C", module, "-m", "-f", "{{.Version}}", server)
	if err != nil {
		return "", err
	}
	golang, err := output("go", "env", "-C", module, "GOVERSION")
	if err != nil {
		return "", err
	}
	sums, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(sums)
	return fmt.Sprintf("etcd-%s-%s-%s", version, golang, hex.EncodeToString(sum[:4])), nil
}

// cached is the path of a file of the user's cache, made if it isn't there. Of several
// processes that want it, one makes it.
func cached(name string, create func(path string) error) (string, error) {
	home, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(home, "flockd-test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	unlock, err := lock(path + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if err := create(path + ".new"); err != nil {
		return "", err
	}
	return path, os.Rename(path+".new", path)
}

func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

// output is what a command prints, without the line's end.
func output(name string, args ...string) (string, error) {
	var stderr strings.Builder
	cmd := exec.Command(name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", cmd, err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}
