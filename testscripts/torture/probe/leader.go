//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"flockd/testscripts/torture/trace"
)

// lead is what a leader does beside its work, until USR1 ends it. It is called with the lock
// in hand, so the lines of terms are in the order in which the terms began.
func lead(folder, writer string) {
	session, err := unix.Getsid(0)
	check(err)
	enough := make(chan os.Signal, 1)
	signal.Notify(enough, syscall.SIGUSR1)
	go func() { <-enough; os.Exit(0) }()
	appendLine(folder, "terms", trace.Now(), os.Getenv("FLOCKD_TOKEN"), os.Getenv("FLOCKD_ID"), session, os.Getpid())
	go write(folder, writer)
}

// thought is how long a writer thinks about what it has read. It does little else, so one
// that is frozen is frozen with an old text in its hands.
const thought = 400 * time.Millisecond

// write adds lines to the book: it reads all of it, thinks, and puts it back with one more.
// Those that are in it for certain are in written.
func write(folder, writer string) {
	book := filepath.Join(folder, "book")
	if writer != trace.Unfenced && !fenced(folder, writer, book, nil, "--raise") {
		return
	}
	for n := 0; ; n++ {
		text, err := os.ReadFile(book)
		if !errors.Is(err, fs.ErrNotExist) {
			check(err)
		}
		time.Sleep(thought)
		line := fmt.Sprint(os.Getenv("FLOCKD_TOKEN"), " ", n)
		text = append(text, line+"\n"...)
		if writer == trace.Unfenced {
			replace(book, text)
		} else if !fenced(folder, writer, book, text) {
			return
		}
		appendLine(folder, "written", line)
	}
}

// fenced puts a text in the place of the book by flockd fence file, and reports whether that
// was admitted.
func fenced(folder, flockd, book string, text []byte, flags ...string) bool {
	cmd := exec.Command(flockd, append([]string{"fence", "file", book}, flags...)...)
	cmd.Stdin = bytes.NewReader(text)
	said, err := cmd.CombinedOutput()
	if err != nil {
		appendLine(folder, "refused", os.Getenv("FLOCKD_TOKEN"), cmd.ProcessState.ExitCode(), string(bytes.TrimSpace(said)))
	}
	return err == nil
}

// replace does so by itself.
func replace(book string, text []byte) {
	draft := fmt.Sprint(book, ".", os.Getenv("FLOCKD_TOKEN"))
	check(os.WriteFile(draft, text, 0o600))
	check(os.Rename(draft, book))
}

// appendLine appends one line in one call, so that those of several processes don't mix.
func appendLine(folder, name string, values ...any) {
	f, err := os.OpenFile(filepath.Join(folder, name), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	check(err)
	defer f.Close()
	_, err = fmt.Fprintln(f, values...)
	check(err)
}
