package fence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"flockd/backends"
)

// PathError says why there can be no fenced file at a path. It is the user's mistake.
type PathError struct {
	text string
	Hint string // may be empty
}

func (e *PathError) Error() string { return e.text }

func badPath(hint, format string, args ...any) error {
	return &PathError{fmt.Sprintf(format, args...), hint}
}

// longest is how long a name may be, in bytes, on file systems that take 255, as nearly
// all do: that of a draft is longer.
const longest = 255 - len(".") - len(".fence") - len(".") - draftDigits

func (f *file) tooLong() error {
	return badPath("", "the name of %s has %d bytes, too many for what is kept beside it: %d at most", f.path, len(f.name), longest)
}

// explained is an error of the system as the caller is told it.
func (f *file) explained(err error) error {
	var bad *PathError
	switch {
	case errors.Is(err, syscall.ENAMETOOLONG):
		return f.tooLong()
	case errors.As(err, &bad):
		return err
	}
	return fmt.Errorf("%s is not replaced: %w", f.path, err)
}

// unmade is why nothing can be made in the folder. The name of what was to be made is nobody's
// concern.
func unmade(err error) error {
	var at *fs.PathError
	refused := errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrNotExist)
	if !refused || !errors.As(err, &at) {
		return err
	}
	return backends.Refuse("the folder must be writable: the new file is made in it, and what keeps the token", "no file can be made in its folder: %w", at.Err)
}

// unmoved is why a file can't take the place of another one in a folder in which it could
// be made.
func unmoved(err error) error {
	var from *os.LinkError
	if !errors.Is(err, fs.ErrPermission) || !errors.As(err, &from) {
		return err
	}
	return backends.Refuse("in a sticky folder, as /tmp is, a file is replaced by its owner or the folder's alone", "%s can't be replaced: %w", from.New, from.Err)
}

// unread is why the sidecar can't be opened.
func (f *file) unread(err error) error {
	var at *fs.PathError
	if !errors.Is(err, fs.ErrPermission) || !errors.As(err, &at) {
		return err
	}
	return backends.Refuse("it is for those who could write the folder when it was made: if that has changed since, chmod or chown it likewise",
		"%s, which keeps the largest token, can't be read: %w", f.sidecar(), at.Err)
}
