//go:build cgo && linux

package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"flockd/backends"
)

// Find opens the database at u if somebody has used it, and makes nothing: a
// *backends.UnusedError says that nobody has. Who may only read it can use Inspect, List, Entries
// and Highest.
func Find(ctx context.Context, u *backends.URL) (backends.Backend, error) {
	return opened(ctx, u, (*Store).find)
}

func (s *Store) find(ctx context.Context, standard bool) error {
	if err := s.used(standard); err != nil {
		return err
	}
	before, err := inode(s.path)
	if err != nil {
		return err
	}
	mode := "rw"
	if readWrite(real(s.path)) != nil {
		mode = "ro"
	}
	s.connect(mode)
	err = s.findTables(ctx)
	if err == nil {
		err = s.know(before)
	}
	if err != nil {
		s.db.Close()
	}
	return err
}

// used refuses what can't be read or trusted, and a folder that isn't there, unless
// a run would make it.
func (s *Store) used(standard bool) error {
	const mayRead = 4
	path := real(s.path)
	_, err := os.Lstat(path)
	missing := errors.Is(err, fs.ErrNotExist)
	if missing && standard {
		return s.unused("no such file")
	}
	if err := checkFileSystem(filepath.Dir(path)); err != nil {
		return err
	}
	if missing {
		return s.unused("no such file")
	}
	if err := checkKind(path); err != nil {
		return err
	}
	if err := syscall.Access(path, mayRead); err != nil {
		return backends.Refuse("", "the database can't be read: %w", &fs.PathError{Op: "open", Path: path, Err: err})
	}
	return nil
}

func (s *Store) findTables(ctx context.Context) error {
	var made, empty bool
	err := s.read(ctx, func(t *tx) (err error) {
		if made, err = t.made(); made || err != nil {
			return err
		}
		empty, err = t.empty()
		return err
	})
	switch {
	case made || err != nil:
		return err
	case empty:
		return s.unused("the file is empty")
	}
	return s.migrate(ctx)
}

func (s *Store) unused(why string) error {
	return &backends.UnusedError{Address: s.Address(), Why: why}
}
