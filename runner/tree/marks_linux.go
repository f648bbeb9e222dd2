package tree

import (
	"bytes"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Marks are above any limit that somebody sets, and leave up to 61 bits to chance.
const (
	markBase = 1 << 62
	markTop  = markBase + 1<<61
)

// besideMark is what the mark of a process beside the command has, and of what that starts, and
// the command's hasn't: see StartBeside.
const besideMark = 1

// rlimitLocks is RLIMIT_LOCKS, the same number on every architecture.
const rlimitLocks = 10

func isMark(limit uint64) bool { return markBase <= limit && limit < markTop }

// newLimit draws a mark, as a soft limit; 0: this process may not set one.
func newLimit() uint64 {
	var now unix.Rlimit
	var random [8]byte
	if unix.Getrlimit(rlimitLocks, &now) != nil {
		return 0
	}
	if n, err := unix.Getrandom(random[:], 0); err != nil || n != len(random) {
		return 0
	}
	room := min(hardLimit(now), markTop) - markBase
	const enough = 1 << 48
	if hardLimit(now) < markBase || room < enough {
		return 0
	}
	return (markBase + *(*uint64)(unsafe.Pointer(&random))%room) &^ besideMark
}

// hardLimit is what the command gets as its hard limit: the mark of the outermost hold
// that encloses ours, if one does. A process of the command that has only our mark, and
// no environment, is then yet known to be of the outermost's tree.
func hardLimit(now unix.Rlimit) uint64 {
	if isMark(now.Cur) && !isMark(now.Max) {
		return now.Cur
	}
	return now.Max
}

// limited runs f, which starts a process, with limit as the mark that it inherits.
// 0 is for a process that belongs to no tree: it inherits no mark, as far as we may undo
// that.
func limited(limit uint64, f func() error) error {
	var before unix.Rlimit
	if unix.Getrlimit(rlimitLocks, &before) != nil {
		return f()
	}
	during := unix.Rlimit{Cur: before.Max, Max: before.Max}
	if limit != 0 {
		during = unix.Rlimit{Cur: limit, Max: hardLimit(before)}
	}
	if unix.Setrlimit(rlimitLocks, &during) == nil {
		defer func() {
			if unix.Setrlimit(rlimitLocks, &before) != nil { // only root may raise a hard limit again
				unix.Setrlimit(rlimitLocks, &unix.Rlimit{Cur: before.Cur, Max: during.Max})
			}
		}()
	}
	return f()
}

// unmark takes a mark from a process that is let go: for what it starts, it would stand
// for a hold that encloses that.
func unmark(pid int, limit uint64) {
	var now unix.Rlimit
	if limit != 0 && unix.Prlimit(pid, rlimitLocks, nil, &now) == nil && now.Cur&^besideMark == limit {
		unix.Prlimit(pid, rlimitLocks, &unix.Rlimit{Cur: now.Max, Max: now.Max}, nil)
	}
}

// marked reports whether a process bears a mark of the tree.
func (i Identity) marked(pid int) bool {
	if soft, hard := limitsOf(pid); i.bears(soft) || i.bears(hard) {
		return true
	}
	return i.ID != "" && holds(pid, i.ID)
}

// bears reports whether a limit is a mark of the tree. Those beside the command bear it too.
func (i Identity) bears(limit uint64) bool {
	return i.Limit != 0 && (limit == i.Limit || limit&^besideMark == i.Limit)
}

// limitsOf are the RLIMIT_LOCKS of a process, of a zombie too; 0: unlimited, or it
// can't be read.
func limitsOf(pid int) (soft, hard uint64) {
	var buf [2048]byte
	_, line, ok := bytes.Cut(read(of(pid, "limits"), buf[:]), []byte("\nMax file locks"))
	if !ok {
		return 0, 0
	}
	soft, line = leadingLimit(line)
	hard, _ = leadingLimit(line)
	return soft, hard
}

func leadingLimit(line []byte) (limit uint64, rest []byte) {
	word, rest, _ := bytes.Cut(bytes.TrimLeft(line, " "), []byte(" "))
	limit, err := strconv.ParseUint(string(word), 10, 64)
	if err != nil {
		return 0, rest
	}
	return limit, rest
}

// holds reports whether a process had the ID in its FLOCKD_HELD when it started.
func holds(pid int, id string) bool {
	fd, err := open(of(pid, "environ"), unix.O_RDONLY)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var buf, value [4096]byte
	const name = "FLOCKD_HELD="
	at, length := 0, 0 // in the variable; of its value
	for {
		text := drain(fd, buf[:])
		for _, c := range text {
			switch {
			case c == 0:
				if at >= len(name) && bytes.Contains(value[:length], []byte(id)) {
					return true
				}
				at, length = 0, 0
				continue
			case at >= len(name) && length < len(value):
				value[length] = c
				length++
			case at >= 0 && at < len(name):
				if name[at] != c {
					at = -1 // another variable
					continue
				}
				at++
			}
		}
		if len(text) < len(buf) {
			return at >= len(name) && bytes.Contains(value[:length], []byte(id))
		}
	}
}
