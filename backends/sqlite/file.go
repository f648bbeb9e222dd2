//go:build cgo && linux

package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"flockd/backends"
	"flockd/backends/host"
)

// rootFile is the default database of root; other users have one in their state
// folder.
const rootFile = "/var/lib/flockd/flockd.db"

// locate is the absolute path of the database at u, and whether it is the default.
func locate(u *backends.URL) (path string, standard bool, err error) {
	if err := u.CheckOptions(); err != nil {
		return "", false, err
	}
	if u.Host != "" || u.User != "" {
		return "", false, backends.BadURL("sqlite: has no host: an absolute path takes three slashes, as in sqlite:///var/lib/flockd/flockd.db")
	}
	switch {
	case u.Path != "" && !filepath.IsAbs(u.Path):
		return "", false, backends.BadURL("sqlite: takes an absolute path, as in sqlite:///var/lib/flockd/flockd.db: in another folder %s would be another lock", u.Path)
	case unreplaced(u.Path):
		return "", false, backends.BadURL("the path %s has a variable or ~ that no shell has replaced", u.Path)
	case u.Path != "":
		path = filepath.Clean(u.Path)
		return path, path == rootFile, nil
	case os.Geteuid() == 0:
		return rootFile, true, nil
	}
	path, err = userFile()
	return path, true, err
}

// unreplaced reports whether a path has a variable, or a ~ alone, that a shell would
// have replaced.
func unreplaced(path string) bool {
	for i := range len(path) - 1 {
		next := path[i+1]
		if path[i] == '$' && (next == '{' || next == '_' || 'A' <= next && next <= 'Z' || 'a' <= next && next <= 'z') {
			return true
		}
	}
	return strings.HasPrefix(path, "/~/")
}

// userFile is the default database of other users than root.
func userFile() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", backends.BadURL("sqlite: finds no home for its file: set HOME, or name a file as in sqlite:///path/flockd.db")
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "flockd", "flockd.db"), nil
}

// elsewhere is the hint for a file that can't be.
const elsewhere = "name a file elsewhere with --backend sqlite:///…"

// prepare makes an empty file where there is none, private to the user, and
// refuses what could not be relied on. Only a standard file's folder is made as
// well: another one that isn't there is more likely a mistake, and would be
// another lock.
func prepare(path string, standard bool) error {
	path = real(path)
	dir := filepath.Dir(path)
	if standard {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return backends.Refuse(elsewhere, "the folder of the database can't be made: %w", err)
		}
	}
	if err := checkFileSystem(dir); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	switch {
	case err == nil:
		return f.Close()
	case errors.Is(err, fs.ErrExist):
		return checkFile(path)
	}
	return backends.Refuse(elsewhere, "the database can't be made: %w", err)
}

// checkFile refuses a file that isn't ours to trust, or to write.
func checkFile(path string) error {
	if err := checkKind(path); err != nil {
		return err
	}
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err == nil && int(st.Uid) != os.Geteuid() && st.Uid != 0 && st.Mode&0o020 == 0 {
		return notOurs(path, st.Uid)
	}
	return readWrite(path)
}

// checkKind refuses a file that nobody could trust. SQLite names the log after
// the path, so a second name of the file would have a second log.
func checkKind(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return backends.Refuse("", "%s is a symbolic link to a file that doesn't exist", path)
	}
	if err != nil {
		return backends.Refuse("", "the database can't be read: %w", err)
	}
	st := info.Sys().(*syscall.Stat_t)
	switch {
	case info.IsDir():
		return backends.Refuse("name the file in it, as in sqlite://"+filepath.Join(path, "flockd.db"), "%s is a folder", path)
	case !info.Mode().IsRegular():
		return backends.Refuse("", "%s is not a regular file", path)
	case host.Mounted(path):
		return backends.Refuse("mount its folder", "%s is mounted by itself, so that what SQLite keeps beside it is another lock elsewhere", path)
	case st.Nlink > 1:
		return backends.Refuse("", "%s has %d names (hard links), and each would be a lock of its own", path, st.Nlink)
	case info.Mode().Perm()&0o002 != 0:
		return backends.Refuse("chmod o-w "+path, "everybody may write %s, and so break its locks", path)
	}
	return nil
}

// readWrite refuses a file that we may not read and write, by name of its owner.
func readWrite(path string) error {
	const mayRead, mayWrite = 4, 2
	for _, file := range []string{path, path + "-wal", path + "-shm"} {
		err := syscall.Access(file, mayRead|mayWrite)
		switch {
		case file != path && errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, fs.ErrPermission) && ownerOf(file) != os.Geteuid():
			return notOurs(file, uint32(ownerOf(file)))
		case err != nil:
			return backends.Refuse("", "the database can't be read and written: %w", &fs.PathError{Op: "open", Path: file, Err: err})
		}
	}
	if err := syscall.Access(filepath.Dir(path), mayWrite); err != nil {
		return backends.Refuse("SQLite keeps its log beside the file", "the folder of the database can't be written: %w",
			&fs.PathError{Op: "open", Path: filepath.Dir(path), Err: err})
	}
	return nil
}

func notOurs(path string, owner uint32) error {
	return backends.Refuse("name a file of your own; for one that a group shares: mkdir -m 2770 and chgrp its folder, then chmod g+rw the database and what lies beside it",
		"%s belongs to %s alone", path, userName(owner))
}

// ownerOf is the user number of a file's owner; -1: it can't be told.
func ownerOf(path string) int {
	var st syscall.Stat_t
	if syscall.Stat(path, &st) != nil {
		return -1
	}
	return int(st.Uid)
}

func userName(uid uint32) string {
	id := strconv.Itoa(int(uid))
	if u, err := user.LookupId(id); err == nil {
		return u.Username + " (uid " + id + ")"
	}
	return "uid " + id
}

// id is what tells a file from another one.
type fileID struct{ dev, ino uint64 }

// identity is the database, its log and the log's index. A log that was removed
// while it was open takes everybody who opens it later to another lock.
type identity [3]fileID

func inode(path string) (fileID, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return fileID{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return fileID{uint64(st.Dev), st.Ino}, nil
}

// identify looks at the files that path leads to now. SQLite keeps the log beside
// the file itself, not beside a symbolic link to it.
func identify(path string) (id identity, err error) {
	path, err = filepath.EvalSymlinks(path)
	if err != nil {
		return id, err
	}
	for i, suffix := range []string{"", "-wal", "-shm"} {
		if id[i], err = inode(path + suffix); err != nil {
			return id, err
		}
	}
	return id, nil
}

// real is the file that path leads to, for what lies beside it.
func real(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	return path
}

// know remembers which files we have opened. before is the database's from before that.
func (s *Store) know(before fileID) (err error) {
	s.files, err = identify(s.path)
	if err == nil && s.files[0] != before {
		err = errReplaced
	}
	return err
}

// unmoved is errReplaced if the path leads to other files than those we opened. Any
// other error says that it couldn't be seen.
func (s *Store) unmoved() error {
	now, err := identify(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return errReplaced
	case err != nil:
		return err
	case now != s.files:
		return errReplaced
	}
	return nil
}
