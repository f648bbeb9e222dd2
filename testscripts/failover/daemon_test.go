//go:build linux

package failover

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"flockd/testscripts/oracle"
	"flockd/testscripts/torture/trace"
)

// What is in the folder that the hosts share, beside the lock and the latest beats.
const (
	historyFile  = "history"  // events, a line each
	fencedFile   = "fenced"   // what the last one has written that the fence admitted
	unfencedFile = "unfenced" // what the last one has written
)

// beatEvery is how exactly the time of a daemon's end is known.
const beatEvery = 5 * time.Millisecond

// worker is what a leader runs: daemon DIR. It works as long as it lives, and writes at its
// start and when it is told USR1.
type worker struct {
	dir, host, token string
	lock             *os.File // nil: somebody else has it, who mustn't
	beats            *os.File
}

func daemon(dir string) {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGUSR1)
	host, err := os.Hostname()
	fatal(err)
	w := &worker{dir: dir, host: host, token: os.Getenv("FLOCKD_TOKEN")}
	w.beats, err = os.Create(filepath.Join(dir, beatsOf(w.token)))
	fatal(err)
	w.take()
	w.notes("start")
	if w.lock == nil {
		w.notes("overlap")
	}
	w.beat()
	w.writes()
	for tick := time.Tick(beatEvery); ; {
		select {
		case <-tick:
			w.beat()
		case <-told:
			w.writes()
		}
	}
}

// beatsOf is the file with the time at which a term's daemon was last alive.
func beatsOf(token string) string { return "beat." + token }

func (w *worker) beat() {
	_, err := w.beats.WriteAt(fmt.Appendf(nil, "%20d\n", trace.Now()), 0)
	fatal(err)
	if w.lock == nil { // the next one shall find it taken
		w.take()
	}
}

func (w *worker) take() {
	f, err := oracle.Take(filepath.Join(w.dir, "oracle"), "", "")
	if err == nil {
		w.lock = f
		return
	}
	f.Close()
}

// notes appends one line in one call.
func (w *worker) notes(what string) {
	f, err := os.OpenFile(filepath.Join(w.dir, historyFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	fatal(err)
	defer f.Close()
	_, err = fmt.Fprintln(f, trace.Now(), what, w.host, w.token)
	fatal(err)
}

// writes puts the term into both files.
func (w *worker) writes() {
	text := []byte(w.token + "\n")
	fatal(os.WriteFile(filepath.Join(w.dir, unfencedFile), text, 0o600))
	w.notes("wrote")
	switch code := fence(w.dir, w.token, text); code {
	case 0:
		w.notes("admitted")
	case stale:
		w.notes("refused")
	default:
		w.notes(fmt.Sprint("fence:", code))
	}
}

// stale is the exit code of flockd fence for a token that is too small.
const stale = 80

// fence writes under a token, and is the exit code.
func fence(dir, token string, text []byte) int {
	cmd := exec.Command("flockd", "fence", "file", "--token", token, filepath.Join(dir, fencedFile))
	cmd.Stdin = bytes.NewReader(text)
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		return -1
	}
	return cmd.ProcessState.ExitCode()
}
