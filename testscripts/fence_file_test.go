//go:build linux

package testscripts

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"flockd/backends/backendtest/servers"
)

// TestFenceFileSignals: a signal that comes while the content is read, be it to the end of the
// pipe at the same time, leaves the old content and no draft, but where flockd is killed.
func TestFenceFileSignals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sig  syscall.Signal
		ends bool // the pipe as well, as with Ctrl-C
	}{
		{syscall.SIGHUP, false}, {syscall.SIGINT, false}, {syscall.SIGINT, true}, {syscall.SIGQUIT, false}, {syscall.SIGTERM, true},
		{syscall.SIGKILL, false},
	} {
		t.Run(c.sig.String(), func(t *testing.T) {
			t.Parallel()
			r := newFolder(t)
			r.fenceFile("41", "old\n")
			j, content := r.fenceFrom("42")
			io.WriteString(content, "half a con")
			until(r, "a draft with content", func() bool { return strings.Join(r.drafts(), "") == "half a con" })
			must(t, j.cmd.Process.Signal(c.sig))
			if c.ends {
				content.Close()
			}
			j.ends(128 + int(c.sig))
			r.contains("dest", "old\n")
			if n := len(r.drafts()); (n > 0) != (c.sig == syscall.SIGKILL) {
				t.Errorf("%d drafts are left", n)
			}
			r.fenceFile("41", "again\n")
			r.contains("dest", "again\n")
			r.noFile("dest", ".dest.fence")
		})
	}
}

// TestFenceFileSender: a sender that is killed midway ends the content as one that is done. With
// --size that is seen, and without it is not.
func TestFenceFileSender(t *testing.T) {
	t.Parallel()
	const whole = "the whole content\n"
	for name, c := range map[string]struct {
		flags  []string
		status int
		leaves string
	}{
		"size":    {[]string{"--size", fmt.Sprint(len(whole))}, 69, "old\n"},
		"no size": {nil, 0, "the who"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFolder(t)
			r.fenceFile("41", "old\n")
			j, content := r.fenceFrom("57", c.flags...)
			read, write, err := os.Pipe()
			must(t, err)
			defer write.Close()
			sender := exec.Command("cat")
			sender.Stdin, sender.Stdout = read, content
			must(t, servers.StartToDieWithUs(sender))
			read.Close()
			content.Close()
			io.WriteString(write, whole[:7])
			until(r, "a draft with content", func() bool { return strings.Join(r.drafts(), "") == whole[:7] })
			must(t, sender.Process.Kill())
			sender.Wait()
			j.ends(c.status)
			r.contains("dest", c.leaves)
			if c.status != 0 {
				r.fenceFile("42", "later\n") // 57 isn't admitted
			}
			r.noDrafts()
		})
	}
}

// fenceFrom starts a flockd fence file whose content comes as it is written.
func (r *rig) fenceFrom(token string, flags ...string) (*job, *os.File) {
	r.Helper()
	read, write, err := os.Pipe()
	must(r, err)
	defer read.Close()
	r.Cleanup(func() { write.Close() })
	cmd := exec.Command(filepath.Join(bin, "flockd"), append([]string{"fence", "file", "dest", "--token", token}, flags...)...)
	cmd.Stdin = read
	return r.launch(cmd), write
}

func (r *rig) fenceFile(token, content string) {
	r.Helper()
	j, stdin := r.fenceFrom(token)
	io.WriteString(stdin, content)
	stdin.Close()
	j.ends(0)
}

// drafts are the contents of those that are there.
func (r *rig) drafts() (contents []string) {
	names, _ := filepath.Glob(filepath.Join(r.dir, ".dest.fence.*"))
	for _, name := range names {
		text, _ := os.ReadFile(name)
		contents = append(contents, string(text))
	}
	return contents
}

func (r *rig) noDrafts() {
	r.Helper()
	if n := len(r.drafts()); n > 0 {
		r.Errorf("%d drafts are left", n)
	}
}

// contains wants a file to have a content.
func (r *rig) contains(name, want string) {
	r.Helper()
	if text, err := os.ReadFile(filepath.Join(r.dir, name)); err != nil || string(text) != want {
		r.Errorf("%s: %q, want %q: %v", name, text, want, err)
	}
}
