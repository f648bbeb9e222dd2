//go:build linux

package torture

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// root is the folder of the module.
const root = "../.."

// patch changes one file of the program, in what is built for a test alone. The text
// that it replaces must be there exactly once, so that it can't miss.
type patch struct{ file, old, new string }

// traced has the program write down what it asks of its store. A guard and what it
// starts have no environment that could tell them where to.
var traced = []patch{
	{"runner/guard/start.go", `Env:   []string{"GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=32MiB"},`, `Env: append(os.Environ(), "GOMAXPROCS=1", "GOGC=off"),`},
	{"runner/guard/execute.go", `&syscall.ProcAttr{Files:`, `&syscall.ProcAttr{Env: syscall.Environ(), Files:`},
	{"backends/all/all.go", `return open(ctx, u)`, `return trace.Decorate(open(ctx, u))`},
	{"backends/all/all.go", `import (`, `import ("flockd/testscripts/torture/trace"` + "\n"},
}

// building keeps two builds from running beside each other: they'd take the
// processors from the holds of other tests.
var building sync.Mutex

// program builds flockd as users get it, but for the patches.
func program(t testing.TB, patches ...patch) (path string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "flockd")
	cmd := exec.CommandContext(t.Context(), "make", "-s", "-C", root, "build", "FLOCKD="+path)
	cmd.Env = append(os.Environ(), "GOFLAGS=-overlay="+overlay(t, dir, patches))
	building.Lock()
	defer building.Unlock()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// overlay writes what go build reads instead of the files that are patched.
func overlay(t testing.TB, dir string, patches []patch) (name string) {
	t.Helper()
	replace := map[string]string{}
	for _, p := range patches {
		file, err := filepath.Abs(filepath.Join(root, p.file))
		if err != nil {
			t.Fatal(err)
		}
		if replace[file] == "" {
			replace[file] = filepath.Join(dir, strings.ReplaceAll(p.file, "/", "_"))
			copyFile(t, replace[file], file)
		}
		p.apply(t, replace[file])
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	name = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func (p patch) apply(t testing.TB, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), p.old); n != 1 {
		t.Fatalf("%s has %d times what is to be patched, not once: %q", p.file, n, p.old)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), p.old, p.new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t testing.TB, to, from string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// shared builds something once for all tests. It lives in a folder that TestMain
// removes.
type shared struct {
	once sync.Once
	path string
}

func (s *shared) get(t testing.TB, build func() string) string {
	t.Helper()
	s.once.Do(func() {
		from := build()
		s.path = filepath.Join(sharedDir, filepath.Base(from))
		if err := os.Rename(from, s.path); err != nil {
			t.Fatal(err)
		}
	})
	if s.path == "" {
		t.Fatal("it wasn't built")
	}
	return s.path
}

var (
	sharedDir       string
	tracing, probes shared
)

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "100") // more than there are tests: those that wait for the storms keep no turn from them
	var err error
	if sharedDir, err = os.MkdirTemp("", "flockd-torture-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(sharedDir)
	os.Exit(code)
}

// flockd is the program with a tracer.
func flockd(t testing.TB) string {
	t.Helper()
	return tracing.get(t, func() string { return program(t, traced...) })
}

// probe is the command that flockd runs here.
func probe(t testing.TB) string {
	t.Helper()
	return probes.get(t, func() string {
		path := filepath.Join(t.TempDir(), "probe")
		out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./probe").CombinedOutput()
		if err != nil {
			t.Fatalf("build the probe: %v\n%s", err, out)
		}
		return path
	})
}
