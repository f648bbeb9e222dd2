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

// tool is a server that is built from a module of its own below tools.
type tool struct {
	name   string // of the module's folder
	module string // whose version it is
	pkg    string // its main package
	once   func() (path string, err error)
}

var (
	etcdTool = newTool("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3")
	s3Tool   = newTool("s3", "github.com/versity/versitygw", ".")
)

func newTool(name, module, pkg string) *tool {
	t := &tool{name: name, module: module, pkg: pkg}
	t.once = sync.OnceValues(t.build)
	return t
}

// BuildEtcd builds the current etcd, for tests that can't when they want it: without a network.
func BuildEtcd() error {
	_, err := etcdTool.once()
	return err
}

// built is the tool's program. The first test that asks builds it, which takes a
// minute, into the user's cache; others wait for it.
func (tool *tool) built(t testing.TB) string {
	t.Helper()
	path, err := tool.once()
	if err != nil {
		t.Fatalf("build %s: %v", tool.name, err)
	}
	return path
}

func (tool *tool) build() (string, error) {
	root, err := output("go", "list", "-m", "-f", "{{.Dir}}", "flockd")
	if err != nil {
		return "", err
	}
	folder := filepath.Join(root, "tools", tool.name)
	name, err := tool.nameIn(folder)
	if err != nil {
		return "", err
	}
	return cached(name, func(path string) error {
		_, err := output("go", "build", "-C", folder, "-trimpath", "-o", path, tool.pkg)
		return err
	})
}

// nameIn is different for whatever would make another program of the folder.
func (tool *tool) nameIn(folder string) (string, error) {
	version, err := output("go", "list", "-C", folder, "-m", "-f", "{{.Version}}", tool.module)
	if err != nil {
		return "", err
	}
	golang, err := output("go", "env", "-C", folder, "GOVERSION")
	if err != nil {
		return "", err
	}
	sources, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, file := range append(sources, filepath.Join(folder, "go.mod")) {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		sum.Write(text)
	}
	return fmt.Sprintf("%s-%s-%s-%s", tool.name, version, golang, hex.EncodeToString(sum.Sum(nil)[:4])), nil
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
