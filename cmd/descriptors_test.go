//go:build cgo && linux && !no_sqlite

package cmd

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestDescriptorsPassThrough: the command has the descriptors that it would have
// without flockd, and in the same state.
func TestDescriptorsPassThrough(t *testing.T) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	nonblocking := os.NewFile(uintptr(ends[1]), "")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	file, folder := tempFile(t), open(t, t.TempDir())
	for _, extra := range [][]*os.File{
		nil,
		{read},
		{nil, nil, nonblocking, file},
		append(append([]*os.File{write, folder}, make([]*os.File, 195)...), file, read, os.Stdin), // up to 202
	} {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		probe := []string{"env", "-u", "FLOCKD_TEST_AS_FLOCKD", "FLOCKD_TEST_AS_PROBE=1", self}
		seen := func(args []string) string {
			cmd := flockd(t)
			cmd.Path, cmd.Args, cmd.ExtraFiles = args[0], args, extra
			if args[0] == "env" {
				cmd.Path = "/usr/bin/env"
			}
			var out bytes.Buffer
			cmd.Stderr = &out
			cmd.Stdin, cmd.Stdout = file, file
			if err := cmd.Run(); err != nil {
				t.Fatal(err, out.String())
			}
			return out.String()
		}
		without := seen(probe)
		with := seen(append([]string{self, "run", "-k", "k", "--"}, probe...))
		if with != without {
			t.Errorf("with flockd:\n%swithout:\n%s", with, without)
		}
	}
}

func open(t *testing.T, path string) *os.File {
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

// TestDescriptorsAreLeft: flockd holds none of them while the command runs.
func TestDescriptorsAreLeft(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := flockd(t, "run", "-k", "k", "-c", `echo x >&4; exec 4>&-; read line <"`+fifo+`"`)
	cmd.ExtraFiles = []*os.File{nil, write}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	read.SetReadDeadline(time.Now().Add(30 * time.Second))
	if text, err := io.ReadAll(read); string(text) != "x\n" || err != nil { // EOF while it still runs
		t.Errorf("%q, %v", text, err)
	}
	os.WriteFile(fifo, []byte("\n"), 0)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// BenchmarkInheritedDescriptors is what it costs where there are none.
func BenchmarkInheritedDescriptors(b *testing.B) {
	for b.Loop() {
		inheritedDescriptors()
	}
}
