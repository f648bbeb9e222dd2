package main

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pkg is what go list tells of a package.
type pkg struct {
	ImportPath string
	Dir        string
	Standard   bool
	GoFiles    []string
	CgoFiles   []string
	Imports    []string
	Deps       []string
	Module     *struct{ Main bool }
}

// list is go list for the patterns and all that they depend on, tests left out.
func list(t *testing.T, patterns ...string) map[string]pkg {
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps", "-json"}, patterns...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	pkgs := map[string]pkg{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		pkgs[p.ImportPath] = p
	}
}

const (
	contract = "flockd/backends"
	allOf    = "flockd/backends/all"
	runner   = "flockd/runner"
	guardOf  = "flockd/runner/guard"
	treeOf   = "flockd/runner/tree"
	ttyOf    = "flockd/runner/tty"
	signalOf = "flockd/runner/signals"
	proofOf  = "flockd/runner/proof"
	cmdOf    = "flockd/cmd"
	certs    = "flockd/backends/certs"  // for drivers
	stored   = "flockd/backends/stored" // likewise
	hostOf   = "flockd/backends/host"   // likewise, and for fence
	fenceOf  = "flockd/fence"
	election = "flockd/election"
	drillOf  = "flockd/drill"
)

// parts are the runner's.
var parts = []string{guardOf, treeOf, ttyOf, signalOf, proofOf}

// helpers are for tests: no driver, and in no program that is shipped.
var helpers = []string{"flockd/backends/mem", "flockd/backends/backendtest", "flockd/backends/backendtest/servers"}

// shared are for drivers, and know none.
var shared = []string{certs, stored, hostOf}

func isDriver(path string) bool {
	return strings.HasPrefix(path, contract+"/") && path != allOf && !slices.Contains(shared, path) && !slices.Contains(helpers, path)
}

// rules say, for a package, which dependency it may not have; "" when all is well.
var rules = []struct {
	name    string
	applies func(path string) bool
	bad     func(dep pkg) bool
	direct  bool // only what it imports itself
}{
	{"backends imports the standard library alone", is(contract), func(dep pkg) bool { return !dep.Standard }, false},
	{"a driver imports backends and what drivers share, and nothing else of ours", isDriver, func(dep pkg) bool {
		return ours(dep) && dep.ImportPath != contract && !slices.Contains(shared, dep.ImportPath)
	}, false},
	{"what drivers share imports backends, and nothing else of ours", func(path string) bool { return slices.Contains(shared, path) },
		func(dep pkg) bool { return ours(dep) && dep.ImportPath != contract }, false},
	{"a test helper knows no driver", func(path string) bool { return slices.Contains(helpers, path) },
		func(dep pkg) bool { return ours(dep) && dep.ImportPath != contract }, false},
	{"all imports drivers, what they need, and backends", is(allOf), func(dep pkg) bool {
		return ours(dep) && dep.ImportPath != contract && !slices.Contains(shared, dep.ImportPath) && !isDriver(dep.ImportPath)
	}, false},
	{"runner knows its own parts, and no driver", is(runner), func(dep pkg) bool {
		return ours(dep) && dep.ImportPath != contract && !slices.Contains(parts, dep.ImportPath)
	}, false},
	{"drill knows elections, runs and fenced files, and no driver", is(drillOf), func(dep pkg) bool {
		known := slices.Contains([]string{contract, election, runner, fenceOf, hostOf}, dep.ImportPath)
		return ours(dep) && !known && !slices.Contains(parts, dep.ImportPath)
	}, false},
	{"election knows the runner, and no driver", is(election), func(dep pkg) bool {
		return ours(dep) && dep.ImportPath != contract && dep.ImportPath != runner && !slices.Contains(parts, dep.ImportPath)
	}, false},
	{"the guard, which is to be early, knows its tree and terminal alone", is(guardOf), func(dep pkg) bool {
		return ours(dep) && dep.ImportPath != treeOf && dep.ImportPath != ttyOf
	}, false},
	{"signals, which is to be early, knows nothing of ours", is(signalOf), ours, false},
	{"proof knows nothing of ours", is(proofOf), ours, false},
	{"tty knows processes alone", is(ttyOf), func(dep pkg) bool { return ours(dep) && dep.ImportPath != treeOf }, false},
	{"tree knows nothing of ours", is(treeOf), ours, false},
	{"runner and election know no flags", func(path string) bool { return path == runner || path == election }, func(dep pkg) bool { return strings.HasPrefix(dep.ImportPath, "github.com/spf13/") }, false},
	{"fence knows no store", is(fenceOf), func(dep pkg) bool {
		return ours(dep) && dep.ImportPath != contract && dep.ImportPath != hostOf
	}, false},
	{"cmd names no driver", is(cmdOf), func(dep pkg) bool { return isDriver(dep.ImportPath) }, true},
	{"main imports cmd alone", is("flockd"), func(dep pkg) bool { return ours(dep) && dep.ImportPath != cmdOf }, true},
	{"no test helper is shipped", is("flockd"), func(dep pkg) bool { return slices.Contains(helpers, dep.ImportPath) || dep.ImportPath == "testing" }, false},
}

func is(want string) func(string) bool { return func(path string) bool { return path == want } }

func ours(p pkg) bool { return p.Module != nil && p.Module.Main }

// TestImports holds the packages to their one direction:
// main → cmd → election → runner → backends ← drivers ← backends/all ← cmd, and beside
// that cmd → runner, runner → guard → tty → tree, and cmd → drill → election and fence, and cmd → fence,
// and cmd and runner → proof.
func TestImports(t *testing.T) {
	pkgs := list(t, ".", "./election", "./backends/...")
	for _, rule := range rules {
		applied := false
		for path, p := range pkgs {
			if !rule.applies(path) {
				continue
			}
			applied = true
			deps := p.Deps
			if rule.direct {
				deps = p.Imports
			}
			for _, dep := range deps {
				if d, ok := pkgs[dep]; ok && rule.bad(d) {
					t.Errorf("%s, but %s depends on %s", rule.name, path, dep)
				}
			}
		}
		if !applied {
			t.Errorf("%s: there is no such package", rule.name)
		}
	}
}

// TestRunnerLeavesTheProcessAlone: the runner ends by returning, and prints nothing. Nor does an
// election.
func TestRunnerLeavesTheProcessAlone(t *testing.T) {
	pkgs := list(t, "./election")
	for _, p := range []pkg{pkgs[runner], pkgs[election]} {
		leavesTheProcessAlone(t, p)
	}
}

func leavesTheProcessAlone(t *testing.T, p pkg) {
	for _, file := range append(p.GoFiles, p.CgoFiles...) {
		for _, use := range uses(t, filepath.Join(p.Dir, file)) {
			switch use {
			case "os.Exit", "os.Stdin", "os.Stdout", "os.Stderr", "syscall.Exit", "fmt.Print", "fmt.Printf", "fmt.Println",
				"log.Fatal", "log.Fatalf", "log.Fatalln", "log.Print", "log.Printf", "log.Println":
				t.Errorf("%s uses %s", file, use)
			}
		}
	}
}

// uses lists what a file refers to in the packages that it imports, by the path
// of the package.
func uses(t *testing.T, file string) (names []string) {
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{}
	for _, spec := range tree.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		name := path[strings.LastIndexByte(path, '/')+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		paths[name] = path
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && paths[x.Name] != "" {
				names = append(names, paths[x.Name]+"."+sel.Sel.Name)
			}
		}
		return true
	})
	return names
}
