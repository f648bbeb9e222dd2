package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"flockd/backends"
	"flockd/runner"
)

// giveBack carries out the legacy in stdin, after its flockd was killed and when
// nothing of the command is left. It says nothing, and returns 0 if the key isn't
// held by that run any more, 1 if it may be, and 64 if it has done nothing, for stdin
// is no legacy.
func giveBack(stdin io.Reader) (code int) {
	keepToItself()
	l, err := readLegacy(stdin)
	if err != nil {
		return exitCode(runner.Result{Class: classUsage}, nil)
	}
	last, err := l.release()
	if err != nil {
		code = 1
	}
	l.complete(last) // nobody is there to be told
	return code
}

// release gives the key back, or finds the record of the run if that had been done
// before flockd was killed.
func (l *legacy) release() (last *backends.Run, err error) {
	if l.Store == "" {
		return nil, nil
	}
	ctx := context.Background()
	store, err := l.open()
	if err != nil {
		return nil, err
	}
	lease := backends.Lease{Key: l.Record.Key, ID: l.Record.ID, Token: l.Record.Token}
	err = runner.GiveBack(ctx, store, lease, backends.Outcome{Class: string(classKilled)})
	if !errors.Is(err, backends.ErrLost) {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, inspectAtMost)
	defer cancel()
	status, err := store.Inspect(ctx, lease.Key)
	last = status.Last
	if err != nil || last == nil || last.Token != lease.Token || slices.Contains(unknownEnds, last.Class) {
		return nil, nil
	}
	return last, nil
}

// unknownEnds are the classes of runs of which the store doesn't know how they ended.
var unknownEnds = []string{string(classKilled), backends.Broken}

// keepToItself makes a process deaf to people, and has it leave no core: that would hold the
// store's secrets.
func keepToItself() {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}

// inspectAtMost is how long the result file waits for the store's word.
const inspectAtMost = 5 * time.Second

// complete makes the result file say that the run was killed, or what the store has
// recorded of it, unless it says already how the run came out, or speaks of another
// one.
func (l *legacy) complete(last *backends.Run) error {
	f := &resultFile{record: l.Record, path: string(l.Path)}
	if f.path == "" {
		return nil
	}
	f.tidy()
	class, err := classIn(f.path, l.Record.ID)
	ours := class == classWaiting || class == classRunning
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err == nil && !ours && (class != "" || !l.Appended):
		return nil
	}
	if l.Appended {
		if err := f.open("+" + f.path); err != nil {
			return err
		}
	}
	if last != nil {
		return f.recorded(last)
	}
	return f.killed()
}

// classIn is the latest class that the result file has for the hold id; empty: none.
func classIn(path, id string) (class runner.Class, err error) {
	const tail = 1 << 20
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errNotRegular
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-tail), tail))
	for line := range bytes.Lines(text) {
		var r record
		if json.Unmarshal(line, &r) == nil && r.ID == id {
			class = r.Class
		}
	}
	return class, err
}
