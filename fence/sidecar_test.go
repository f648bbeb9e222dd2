//go:build linux

package fence

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"flockd/backends"
)

func sidecarOf(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".fence")
}

func TestDamagedSidecars(t *testing.T) {
	for text, want := range map[string]string{
		"":                                           `damaged: it says ""`,
		"41\n":                                       "damaged",
		`{"v":1,"token":5}`:                          "damaged",
		"{\"v\":1,\"token\":0}\n":                    "damaged",
		"{\"v\":1,\"token\":-7}\n":                   "damaged",
		"{\"v\":0,\"token\":7}\n":                    "damaged",
		"{\"v\":1,\"token\":1e3}\n":                  "damaged",
		"{\"v\":1,\"token\":9007199254740992}\n":     "damaged",
		"{\"v\":1,\"token\":5}\n{\"v\":1}\n":         "damaged",
		"{\"v\":1,\"token\":5,\"token\":3}\n":        "damaged",
		"\x00\x00\x00\x00":                           "damaged",
		strings.Repeat(" ", 1<<20):                   "damaged",
		"{\"v\":2,\"token\":5,\"more\":\"of it\"}\n": "a newer flockd",
	} {
		path := fenced(t)
		if err := os.WriteFile(sidecarOf(path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := Replace(t.Context(), path, 7, strings.NewReader("content"))
		if !errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
		holds(t, path, 5)
	}
}

func TestSidecarThatIsNoFile(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"link":   func(path string) error { return os.Symlink("other", path) },
		"fifo":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		path := fenced(t)
		if err := errors.Join(os.Remove(sidecarOf(path)), make(sidecarOf(path))); err != nil {
			t.Fatal(err)
		}
		err := Replace(t.Context(), path, 7, strings.NewReader("content"))
		if !errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
		holds(t, path, 5)
	}
}

// TestSidecarIsForWhoMayWrite: who may read it can hold up the writers.
func TestSidecarIsForWhoMayWrite(t *testing.T) {
	for folder, want := range map[os.FileMode]os.FileMode{0o755: 0o600, 0o775: 0o640, 0o777: 0o644, 0o700: 0o600, 0o702: 0o604} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.Chmod(filepath.Dir(path), folder); err != nil {
			t.Fatal(err)
		}
		for _, token := range []backends.Token{5, 6} {
			replace(t, path, token, nil)
			if info, err := os.Stat(sidecarOf(path)); err != nil || info.Mode() != want {
				t.Errorf("folder %v: %v, want %v: %v", folder, info.Mode(), want, err)
			}
		}
	}
}

func TestRaise(t *testing.T) {
	for _, path := range []string{fenced(t), filepath.Join(t.TempDir(), "file")} {
		before, _ := os.ReadFile(path)
		if err := Raise(t.Context(), path, 7); err != nil {
			t.Fatal(err)
		}
		if err := Raise(t.Context(), path, 6); !errors.Is(err, backends.ErrStale) {
			t.Error(err)
		}
		replace(t, path, 6, backends.ErrStale)
		if now, _ := os.ReadFile(path); string(now) != string(before) {
			t.Errorf("%.30q", now)
		}
		replace(t, path, 7, nil)
		holds(t, path, 7)
	}
}
