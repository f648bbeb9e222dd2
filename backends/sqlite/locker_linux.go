//go:build cgo && linux

package sqlite

import (
	"strconv"

	"golang.org/x/sys/unix"

	"flockd/backends/host"
)

// lockRange is where SQLite's locks are in one of a database's files.
type lockRange struct {
	suffix     string
	start, len int64
}

// lockRanges are those of the log's index, of which the first byte is the writer's, and
// of the database, whose pending, reserved and shared bytes they are.
var lockRanges = [...]lockRange{{"-shm", 120, 8}, {"", 0x40000000, 512}}

// lockFiles are the files of the database at path, opened to ask who has them locked.
// They stay open: to close one of them would drop SQLite's own locks on it.
func lockFiles(path string) (fds [len(lockRanges)]int) {
	for i, r := range lockRanges {
		fd, err := unix.Open(path+r.suffix, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			fd = -1
		}
		fds[i] = fd
	}
	return fds
}

// locker names the process that has the database locked for writing, as far as the kernel
// tells. It doesn't read /proc/locks: that stops all locking on the host for a moment,
// which hundreds who wait for the lock make a standstill of.
func (s *Store) locker() string {
	for i, fd := range s.lockFiles() {
		lock := unix.Flock_t{Type: unix.F_RDLCK, Whence: unix.SEEK_SET, Start: lockRanges[i].start, Len: lockRanges[i].len}
		err := unix.FcntlFlock(uintptr(fd), unix.F_GETLK, &lock)
		if err == nil && lock.Type != unix.F_UNLCK && lock.Pid > 0 {
			return host.Process(strconv.Itoa(int(lock.Pid)))
		}
	}
	return "another process"
}
