package cmd

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"flockd/backends"
	"flockd/runner"
)

// The classes of a result file that no run ends with by itself.
const (
	classWaiting runner.Class = "waiting" // in line, or about to ask
	classRunning runner.Class = "running" // the command runs, or is just about to
	classKilled  runner.Class = "killed"  // flockd was, and then the command
)

// record is what a result file says. What isn't known yet is left out.
type record struct {
	Class      runner.Class     `json:"class"`
	Key        string           `json:"key"`
	ID         string           `json:"id"`
	Token      backends.Token   `json:"token,omitempty"`
	Backend    string           `json:"backend"` // without secrets
	Host       string           `json:"host"`
	User       string           `json:"user"`
	PID        int              `json:"pid"`     // flockd's
	Command    string           `json:"command"` // base name; never the arguments
	Note       string           `json:"note,omitempty"`
	Asked      time.Time        `json:"asked"`
	Started    time.Time        `json:"started,omitzero"`
	Ended      time.Time        `json:"ended,omitzero"`
	ExitCode   *int             `json:"exit_code,omitempty"` // the command's
	Signal     string           `json:"signal,omitempty"`    // that ended the command, or the wait
	Unlocked   bool             `json:"unlocked,omitempty"`
	Mode       backends.Mode    `json:"mode,omitempty"`       // as asked for
	Slots      int              `json:"slots,omitempty"`      // with mode slots
	Slot       *int             `json:"slot,omitempty"`       // once granted
	Run        string           `json:"run,omitempty"`        // with --once and --once-per: the run's ID
	Unrecorded bool             `json:"unrecorded,omitempty"` // its success is not recorded, so that it will be run again
	HeldBy     []backends.Claim `json:"held_by,omitempty"`
	Notice     *backends.Notice `json:"notice,omitempty"` // of whoever asked the run to stop, or to leave the line
	Error      string           `json:"error,omitempty"`
	Status     *int             `json:"flockd_exit_code,omitempty"` // unless a signal ends flockd, which shells show as 128+N
}

// resultFile keeps a record in a file. The zero resultFile keeps none.
type resultFile struct {
	record
	path     string
	appended *os.File // with +FILE
}

// openResultFile makes sure that the result can be written: name is
// --result-file. A file that isn't appended to says "waiting" from now on, and
// not how an earlier run ended.
func openResultFile(name string, r record) (*resultFile, error) {
	f := &resultFile{record: r}
	if name == "" {
		return f, nil
	}
	if err := f.open(name); err != nil {
		return nil, usage("", "--result-file %s: %w", shortened(name), err)
	}
	return f, nil
}

var errNotRegular = errors.New("not a regular file")

// leaveNoDoubt replaces the outcome that an earlier run has left in the result file,
// where the flags and settings of this one are wrong. Then the name may be wrong
// as well, so that nothing but such an outcome is touched.
func (a *app) leaveNoDoubt(name, key string, err error) {
	if !isRecord(name) {
		return
	}
	if f, openErr := openResultFile(name, record{Key: key, PID: os.Getpid(), Asked: time.Now()}); openErr == nil {
		res := resultOf(err)
		f.end(res, exitCode(res, nil), a.print.clean) // the error itself is reported
	}
}

// isRecord reports whether the file holds one record and no more.
func isRecord(name string) bool {
	const atMost = 1 << 20
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() || info.Size() > atMost {
		return false
	}
	text, err := os.ReadFile(name)
	var r record
	return err == nil && json.Unmarshal(text, &r) == nil && r.Class != "" && r.ID != ""
}

func (f *resultFile) open(name string) error {
	path, appending := strings.CutPrefix(name, "+")
	if path == "" {
		return errors.New("it has no name")
	}
	for _, aliases := range []string{"/dev/std", "/dev/fd/", "/proc/"} { // of files that others write to
		if strings.HasPrefix(filepath.Clean(path), aliases) {
			return errors.New("not a file of its own")
		}
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return errNotRegular
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	f.path = path
	if !appending {
		return f.write(classWaiting)
	}
	f.appended, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	return bare(err)
}

// write makes the record say class.
func (f *resultFile) write(class runner.Class) error {
	if f.path == "" || f.Class == class {
		return nil
	}
	f.Class = class
	line, err := json.Marshal(f.record)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if f.appended == nil {
		return bare(f.replace(line))
	}
	_, err = f.appended.Write(line)
	return bare(err)
}

// granted notes what a lease says; a zero one says nothing.
func (f *resultFile) granted(lease backends.Lease) {
	f.Token, f.Run = lease.Token, lease.Run
	if lease.Mode == backends.Slots {
		f.Slot = &lease.Slot
	}
}

// start notes that the command is about to start; without a lease: unlocked.
func (f *resultFile) start(lease backends.Lease) {
	f.granted(lease)
	f.Unlocked = lease.ID == ""
	if f.Started.IsZero() {
		f.Started = time.Now()
	}
}

// running says that the command is about to start.
func (f *resultFile) running(lease backends.Lease) error {
	f.start(lease)
	return f.write(classRunning)
}

// end writes how it came out.
func (f *resultFile) end(res runner.Result, status int, clean func(string) string) error {
	f.granted(res.Lease)
	f.Unlocked, f.Status, f.Unrecorded = res.Unlocked, &status, res.Unrecorded
	f.Ended = res.Exit.Ended
	if f.Ended.IsZero() {
		f.Started, f.Ended = time.Time{}, time.Now()
	} else {
		f.ExitCode = &res.Exit.Code
	}
	if sig := max(res.Exit.Signal, res.Signal); sig != 0 {
		f.Signal = signalName(sig)
	}
	if res.Held != nil {
		f.HeldBy = cleanClaims(res.Held.Holders)
	}
	var done *backends.DoneError
	if errors.As(res.Err, &done) {
		f.Run = done.Entry.Run
	}
	if n := noticeOf(res); n != (backends.Notice{}) {
		f.Notice = &n
	}
	if res.Err != nil {
		f.Error = clean(res.Err.Error())
	}
	switch res.Class {
	case runner.Nested, runner.BadGrace:
		return f.write(classUsage)
	}
	return f.write(res.Class)
}

// killed writes that flockd was killed.
func (f *resultFile) killed() error {
	f.Ended, f.Error = time.Now(), fmt.Sprintf("flockd (pid %d) was killed", f.PID)
	return f.write(classKilled)
}

// recorded writes what the store knows of a run whose flockd was killed after it.
func (f *resultFile) recorded(last *backends.Run) error {
	f.Ended, f.ExitCode = last.End, &last.Exit
	return f.write(runner.Class(last.Class))
}

// signalName is a signal's name without SIG, or its number.
func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return strings.TrimPrefix(name, "SIG")
	}
	return fmt.Sprint(int(sig))
}

// replace puts text in the place of the file, so that a reader finds the old one or
// the new one, whole.
func (f *resultFile) replace(text []byte) error {
	f.tidy()
	file, err := os.OpenFile(f.draft(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), f.path)
	}
	if err != nil {
		f.tidy()
	}
	return err
}

// draft is the name of a file that is being written.
func (f *resultFile) draft() string {
	return fmt.Sprintf("%s/.%s.%.10s", filepath.Dir(f.path), filepath.Base(f.path), cmp.Or(f.ID, fmt.Sprint(f.PID)))
}

// tidy removes the draft of a write that failed, or was killed.
func (f *resultFile) tidy() { os.Remove(f.draft()) }

// bare is an error of the system without the operation and the file.
func bare(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}
