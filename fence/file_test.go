//go:build linux

package fence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"flockd/backends"
	"flockd/backends/host"
)

// fenced is a file that has seen 5.
func fenced(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	replace(t, path, 5, nil)
	return path
}

func TestTokens(t *testing.T) {
	path := fenced(t)
	replace(t, path, 4, backends.ErrStale)
	replace(t, path, 5, nil)
	replace(t, path, 8, nil)
	replace(t, path, 7, backends.ErrStale)
	if err := Replace(t.Context(), path, backends.MaxToken, strings.NewReader("the last")); err != nil {
		t.Error(err)
	}
	replace(t, path, 8, backends.ErrStale)
}

func TestRefusedPaths(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{
		os.WriteFile(dir+"/plain", nil, 0o600), os.Mkdir(dir+"/folder", 0o700), os.Symlink("plain", dir+"/link"),
		os.Symlink("nowhere", dir+"/dangling"), syscall.Mkfifo(dir+"/fifo", 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"":                            "is empty",
		"/":                           "is the name of a folder",
		dir + "/new/":                 "is the name of a folder",
		dir + "/folder/.":             "is the name of a folder",
		dir + "/folder/..":            "is the name of a folder",
		dir + "/folder":               "is a folder",
		dir + "/nosuch/file":          "nosuch doesn't exist",
		dir + "/plain/file":           "plain is not a folder",
		dir + "/fifo/file":            "fifo is not a folder",
		dir + "/link":                 "is a symbolic link",
		dir + "/dangling":             "is a symbolic link",
		dir + "/fifo":                 "is not a regular file",
		os.DevNull:                    "is not a regular file",
		dir + "/.file.fence":          "is the name of what is kept",
		dir + "/.file.fence.0123abc":  "",
		dir + "/.file.fence.0123abcd": "is the name of what is kept",
		dir + "/" + strings.Repeat("n", longest+1):       fmt.Sprintf("has %d bytes, too many for what is kept beside it: %d at most", longest+1, longest),
		dir + "/" + strings.Repeat("n", longest):         "",
		dir + "/" + strings.Repeat("n", 256) + "/file":   "is too long",
		dir + "/" + strings.Repeat("n/", 3000) + "/file": "is too long",
		dir + "/not\xffUTF-8\x01":                        "",
	} {
		content := strings.NewReader("content")
		err := Replace(t.Context(), path, 7, content)
		var bad *PathError
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", path, err)
		case want != "" && (!errors.As(err, &bad) || !strings.Contains(bad.Error(), want)):
			t.Errorf("%q: %v, want %s", path, err, want)
		case want != "" && content.Len() == 0:
			t.Errorf("%q: the content was read", path)
		}
	}
}

func TestSharedFileSystemsAreRefused(t *testing.T) {
	var st syscall.Statfs_t
	path := filepath.Join(t.TempDir(), "file")
	if err := syscall.Statfs(filepath.Dir(path), &st); err != nil {
		t.Fatal(err)
	}
	defer host.Pretend(uint32(st.Type), "a test")()
	err := Replace(t.Context(), path, 7, strings.NewReader("content"))
	if !errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), "network or shared file system (a test)") {
		t.Error(err)
	}
}

func TestModes(t *testing.T) {
	path := fenced(t)
	for _, mode := range []os.FileMode{0o600, 0o444, 0o751, 0o777} {
		if err := os.Chmod(path, mode|os.ModeSetuid); err != nil {
			t.Fatal(err)
		}
		replace(t, path, 7, nil)
		info, err := os.Stat(path)
		if err != nil || info.Mode() != mode {
			t.Errorf("mode %v, want %v: %v", info.Mode(), mode, err)
		}
	}
}

// TestNewFiles have what the umask leaves.
func TestNewFiles(t *testing.T) {
	old := syscall.Umask(0o027)
	path := fenced(t)
	syscall.Umask(old)
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o640 {
		t.Errorf("mode %v: %v", info.Mode(), err)
	}
}

// TestModeOfAnotherWriter: what a file is like counts when it is replaced.
func TestModeOfAnotherWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Replace(t.Context(), path, 7, read) }()
	io.WriteString(write, "content") // by now it has looked
	replace(t, path, 5, nil)
	if err := os.Chmod(path, 0o604); err != nil {
		t.Fatal(err)
	}
	write.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o604 {
		t.Errorf("mode %v: %v", info.Mode(), err)
	}
	replace(t, path, 6, backends.ErrStale)
}

// TestStaleMeanwhile: a larger token comes while the content is read.
func TestStaleMeanwhile(t *testing.T) {
	path := fenced(t)
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Replace(t.Context(), path, 7, read) }()
	io.WriteString(write, "content")
	replace(t, path, 8, nil)
	write.Close()
	var stale *backends.StaleError
	if err := <-done; !errors.As(err, &stale) || *stale != (backends.StaleError{Resource: path, Token: 7, Highest: 8}) {
		t.Error(err)
	}
	holds(t, path, 8)
}

// holds wants the content of a token, and nothing else in the folder.
func holds(t *testing.T, path string, token backends.Token) {
	t.Helper()
	if text, err := os.ReadFile(path); err != nil || string(text) != contentOf(token) {
		t.Errorf("%.30q, want the content of %d: %v", text, token, err)
	}
	alone(t, path)
}

func TestContentThatFails(t *testing.T) {
	path := fenced(t)
	fault := errors.New("a fault")
	err := Replace(t.Context(), path, 7, io.MultiReader(strings.NewReader("half"), failing{fault}))
	if !errors.Is(err, fault) {
		t.Error(err)
	}
	holds(t, path, 5)
	replace(t, path, 6, nil) // 7 was never admitted
}

type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }

// TestCancelled: a reader that hangs is left alone. A content that has come to its end isn't
// written either.
func TestCancelled(t *testing.T) {
	cause := errors.New("a cause")
	for _, ends := range []bool{false, true} {
		path := fenced(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		read, write := io.Pipe()
		done := make(chan error, 1)
		go func() { done <- Replace(ctx, path, 7, read) }()
		io.WriteString(write, "half")
		cancel(cause)
		if ends {
			write.Close()
		}
		if err := <-done; !errors.Is(err, cause) {
			t.Errorf("ends %v: %v", ends, err)
		}
		write.Close()
		holds(t, path, 5)
		replace(t, path, 6, nil)
	}
}

func TestHardLinksKeepTheOldContent(t *testing.T) {
	path := fenced(t)
	other := filepath.Join(t.TempDir(), "other")
	if err := os.Link(path, other); err != nil {
		t.Fatal(err)
	}
	replace(t, path, 7, nil)
	if text, err := os.ReadFile(other); err != nil || string(text) != contentOf(5) {
		t.Errorf("%.30q: %v", text, err)
	}
}

// TestDraftsOfTheLiving are left alone, as are files of like names.
func TestDraftsOfTheLiving(t *testing.T) {
	path := fenced(t)
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Replace(t.Context(), path, 8, read) }()
	io.WriteString(write, "content")
	others := []string{".file.fence.0123abcg", ".file.fence.0123abcde", ".file2.fence.0123abcd", "file.fence.0123abcd"}
	folder, link := ".file.fence.0123abcd", ".file.fence.4567abcd"
	if err := errors.Join(os.Mkdir(filepath.Join(filepath.Dir(path), folder), 0o700), os.Symlink("file", filepath.Join(filepath.Dir(path), link))); err != nil {
		t.Fatal(err)
	}
	for _, name := range others {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace(t, path, 7, nil)
	write.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, name := range append(others, folder, link) {
		if err := os.Remove(filepath.Join(filepath.Dir(path), name)); err != nil {
			t.Error(err)
		}
	}
	alone(t, path)
}

// TestFolderMeanwhile: a folder that the path leads to no more is left as it is.
func TestFolderMeanwhile(t *testing.T) {
	path := fenced(t)
	dir := filepath.Dir(path)
	moved := dir + ".moved"
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Replace(t.Context(), path, 7, read) }()
	io.WriteString(write, "content")
	if err := errors.Join(os.Rename(dir, moved), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	write.Close()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "its folder has been moved") {
		t.Error(err)
	}
	holds(t, filepath.Join(moved, "file"), 5)
	if there, err := os.ReadDir(dir); err != nil || len(there) > 0 {
		t.Errorf("%v in the new folder: %v", there, err)
	}
}
