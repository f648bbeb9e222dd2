//go:build cgo && linux

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A bell wakes waiting processes of this host: a page of futex words, mapped by
// everybody who uses the database, in a file beside it. Each place in line has the
// word of its number modulo their count. Ringing a word changes it and wakes
// whoever sleeps on it, so a ring between a look at the word and the sleep isn't
// missed, nothing is left behind by a process that dies, and it works between
// containers that share the folder. Two places on one word wake each other for
// nothing, which a hint may do.
type bell struct{ words *[bellWords]atomic.Uint32 }

const (
	bellWords = 1024
	bellSize  = bellWords * 4

	futexWait = 0         // FUTEX_WAIT of futex(2), shared between processes
	futexWake = 1         // FUTEX_WAKE
	everybody = 1<<31 - 1 // as many as sleep
)

// openBell opens the bell of a database, for everybody who may write that.
func openBell(database string) (*bell, error) {
	path := database + "-bell"
	var st unix.Stat_t
	if err := unix.Stat(database, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: database, Err: err}
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, st.Mode&0o666)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	// As SQLite does with its own: whatever our umask and group are. Who can't
	// needn't, for somebody else has made it.
	unix.Fchmod(fd, st.Mode&0o666)
	unix.Fchown(fd, int(st.Uid), int(st.Gid))
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if err := allocate(fd, st.Size); err != nil {
		return nil, &os.PathError{Op: "allocate", Path: path, Err: err}
	}
	page, err := unix.Mmap(fd, 0, bellSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return &bell{(*[bellWords]atomic.Uint32)(unsafe.Pointer(&page[0]))}, nil
}

// allocate gives the page its block before it is touched: a full disk would end us
// otherwise. Some file systems, ZFS among them, have to be written to.
func allocate(fd int, size int64) error {
	err := unix.Fallocate(fd, 0, 0, bellSize)
	switch {
	case !errors.Is(err, unix.EOPNOTSUPP):
		return err
	case size >= bellSize:
		return nil
	}
	_, err = unix.Pwrite(fd, make([]byte, bellSize-size), size)
	return err
}

func (b *bell) word(seq int64) *atomic.Uint32 { return &b.words[uint64(seq)%bellWords] }

// look reads the word of seq.
func (b *bell) look(seq int64) (word uint32, err error) {
	defer survive(&err)()
	return b.word(seq).Load(), nil
}

// ring wakes who waits at seq.
func (b *bell) ring(seq int64) (err error) {
	defer survive(&err)()
	w := b.word(seq)
	w.Add(1)
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexWake, everybody, 0, 0, 0)
	return nil
}

// wait returns once the word of seq isn't seen any more, or ctx ended. The sleep
// holds a thread; ctx ends it by ringing.
func (b *bell) wait(ctx context.Context, seq int64, seen uint32) error {
	defer context.AfterFunc(ctx, func() { b.ring(seq) })()
	for ctx.Err() == nil {
		word, err := b.look(seq)
		if err != nil || word != seen {
			return err
		}
		unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(b.word(seq))), futexWait, uintptr(seen), 0, 0, 0)
	}
	return ctx.Err()
}

// survive turns a fault into an error: the page is gone when somebody has cut the
// file short.
func survive(err *error) (end func()) {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		if fault := recover(); fault != nil {
			*err = fmt.Errorf("the bell is broken: %v", fault)
		}
	}
}
