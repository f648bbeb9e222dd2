package fence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"flockd/backends/host"
)

const (
	// patience is for how long a sidecar may be locked while the file stays as it is: with
	// each write it begins anew, so that many writers may wait for their turn.
	patience = 5 * time.Second

	pauseMin = time.Millisecond
	pauseMax = 50 * time.Millisecond
)

// tryLock locks a file for as long as it is open. False with nil: somebody else has it
// locked.
func tryLock(file *os.File) (bool, error) {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, os.NewSyscallError("flock", err)
}

// await waits until we have the sidecar locked.
func (s *sidecar) await(ctx context.Context) error {
	limit, was := time.NewTimer(patience), s.of.version()
	defer limit.Stop()
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		locked, err := tryLock(s.held)
		if locked {
			return nil
		}
		if err != nil {
			return s.of.explained(err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit.C:
			if now := s.of.version(); now != was {
				was = now
				limit.Reset(patience)
				continue
			}
			if locked, err := tryLock(s.held); locked || err != nil { // we may have been frozen ourselves
				return err
			}
			return fmt.Errorf("%s is not replaced: it has been locked for %v by %s", s.of.path, patience, locker(s.held))
		}
	}
}

// version tells one content of a file from the next.
type version struct {
	inode uint64
	time  int64 // of its last change, since inodes are used again
}

func (f *file) version() version {
	info, err := f.root.Lstat(f.name)
	if err != nil {
		return version{}
	}
	return version{info.Sys().(*syscall.Stat_t).Ino, info.ModTime().UnixNano()}
}

// locker names the process that has a file locked, as far as /proc tells us.
func locker(file *os.File) string {
	descriptors, _ := filepath.Glob("/proc/[0-9]*/fd/[0-9]*")
	for _, descriptor := range descriptors {
		if !leadsTo(descriptor, file) {
			continue
		}
		said, _ := os.ReadFile(strings.Replace(descriptor, "/fd/", "/fdinfo/", 1))
		if strings.Contains(string(said), "FLOCK") {
			return host.Process(strings.Split(descriptor, "/")[2])
		}
	}
	return "another process"
}

// leadsTo reports whether a descriptor of some process is of a file. One that has another name
// isn't touched: it may be on a file system that hangs.
func leadsTo(descriptor string, file *os.File) bool {
	path, err := os.Readlink(descriptor)
	if err != nil || !strings.HasPrefix(filepath.Base(path), filepath.Base(file.Name())) {
		return false
	}
	there, err := os.Stat(descriptor)
	if err != nil {
		return false
	}
	ours, err := file.Stat()
	return err == nil && os.SameFile(there, ours)
}
