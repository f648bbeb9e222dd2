//go:build cgo && linux

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
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
//
// The first word is for those who watch over holds: it is rung after the word of the
// hold, and wakes one thread of each process, which looks whose it was.
type bell struct {
	page unsafe.Pointer // nothing may touch it without survive

	mu      sync.Mutex
	watches map[*watch]bool // of this process
	hears   bool            // the thread for them is there
}

// A watch waits for the word of seq to be another than seen.
type watch struct {
	seq  int64
	seen uint32
	rung chan struct{}
}

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
	return &bell{page: unsafe.Pointer(&page[0]), watches: map[*watch]bool{}}, nil
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

// word is the word of seq.
func (b *bell) word(seq int64) *atomic.Uint32 { return b.at(1 + uint64(seq)%(bellWords-1)) }

// watchWord is the one that is rung for all watches.
func (b *bell) watchWord() *atomic.Uint32 { return b.at(0) }

func (b *bell) at(i uint64) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Add(b.page, 4*i)) }

// look reads the word of seq.
func (b *bell) look(seq int64) (uint32, error) { return read(b.word(seq)) }

func read(w *atomic.Uint32) (word uint32, err error) {
	defer survive(&err)()
	return w.Load(), nil
}

// ring wakes who waits at seq.
func (b *bell) ring(seq int64) error { return ring(b.word(seq)) }

// ringWatches has those who watch over holds look at their words.
func (b *bell) ringWatches() error { return ring(b.watchWord()) }

func ring(w *atomic.Uint32) (err error) {
	defer survive(&err)()
	w.Add(1)
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexWake, everybody, 0, 0, 0)
	return nil
}

// sleep returns when w is rung, if it is still as seen, and at times for nothing.
func sleep(w *atomic.Uint32, seen uint32) {
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexWait, uintptr(seen), 0, 0, 0)
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
		sleep(b.word(seq), seen)
	}
	return ctx.Err()
}

// watch is wait without a thread of its own, for a word whose ring is followed by ringWatches.
func (b *bell) watch(ctx context.Context, seq int64, seen uint32) error {
	w := &watch{seq, seen, make(chan struct{})}
	b.add(w)
	defer b.drop(w)
	if word, err := b.look(seq); err != nil || word != seen {
		return err // it was rung before the thread knew of w
	}
	select {
	case <-w.rung:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *bell) add(w *watch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watches[w] = true
	if !b.hears {
		b.hears = true
		go b.hear()
	}
}

func (b *bell) drop(w *watch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.watches, w)
}

// hear is the thread for all watches. It stays: a process that has had one may have
// another, and the page lasts as long as the process.
func (b *bell) hear() {
	for {
		word, err := read(b.watchWord())
		if err == nil {
			err = b.pass()
		}
		if err != nil {
			break
		}
		sleep(b.watchWord(), word)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hears = false
}

// pass wakes those whose words have changed.
func (b *bell) pass() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for w := range b.watches {
		word, err := b.look(w.seq)
		if err != nil {
			return err
		}
		if word != w.seen {
			close(w.rung)
			delete(b.watches, w)
		}
	}
	return nil
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
