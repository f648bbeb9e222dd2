package fence

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"flockd/backends/host"
)

// looks are what a file takes over from the one in whose place it is put. The zero
// looks are those of no file.
type looks struct {
	there    bool
	mode     os.FileMode // permissions alone
	uid, gid int
}

// looks are those of the file as it is now. What can't be replaced is refused.
func (f *file) looks() (looks, error) {
	info, err := f.root.Lstat(f.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return looks{}, nil
	case err != nil:
		return looks{}, f.explained(err)
	case info.Mode()&fs.ModeSymlink != 0:
		return looks{}, badPath("name the file that it leads to", "%s is a symbolic link", f.path)
	case info.IsDir():
		return looks{}, badPath("", "%s is a folder", f.path)
	case !info.Mode().IsRegular():
		return looks{}, badPath("", "%s is not a regular file", f.path)
	case host.Mounted(filepath.Join(f.root.Name(), f.name)):
		return looks{}, badPath("mount its folder", "%s is mounted by itself, so that no other file can take its place", f.path)
	}
	return looksOf(info), nil
}

func looksOf(info fs.FileInfo) looks {
	st := info.Sys().(*syscall.Stat_t)
	return looks{true, info.Mode().Perm(), int(st.Uid), int(st.Gid)}
}

// draftMode is the mode that a draft is made with. A new file has what the umask and the
// folder leave it; the content of another one is nobody's business until it has the mode.
func (l looks) draftMode() os.FileMode {
	if l.there {
		return 0o600
	}
	return 0o666
}

// dress gives a draft these looks, as far as we may, and writes all of it to the disk.
func (d *draft) dress(l looks) error {
	if l.there {
		has, err := d.own(l)
		if err != nil {
			return err
		}
		mode := l.mode
		if has.gid != l.gid {
			mode &^= 0o070 &^ (mode << 3) // those whom the old group kept out may be in the new one
		}
		if err := d.Chmod(mode); err != nil {
			return err
		}
	}
	return d.Sync()
}

// own gives a draft the owner and group, or the group, or neither, as we may. It returns
// what came of it.
func (d *draft) own(l looks) (looks, error) {
	has, err := d.looks()
	if err != nil || has.uid == l.uid && has.gid == l.gid {
		return has, err
	}
	if d.Chown(l.uid, l.gid) != nil {
		d.Chown(-1, l.gid)
	}
	return d.looks()
}

func (d *draft) looks() (looks, error) {
	info, err := d.Stat()
	if err != nil {
		return looks{}, err
	}
	return looksOf(info), nil
}
