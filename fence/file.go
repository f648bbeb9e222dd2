package fence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"flockd/backends"
	"flockd/backends/host"
)

// Replace puts content, which it reads to its end, in the place of the file at path, or
// makes that file. With nil the file has it, and will have it after a power cut.
//
// A *backends.StaleError says that a larger token came before, a *PathError that there can
// be no such file; ctx's cause that it ended before the point of no return. After any error
// but one the file is what it was: where the folder can't be written to the disk in the
// end, the error says that the content is the new one.
func Replace(ctx context.Context, path string, token backends.Token, content io.Reader) error {
	f, was, err := begin(path, token)
	if err != nil {
		return err
	}
	defer f.close()
	f.sweep()
	d, err := f.newDraft(was.draftMode())
	if err != nil {
		return f.explained(err)
	}
	defer d.discard()
	if err := d.fill(ctx, content, was); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return f.explained(err)
	}
	return f.commit(ctx, token, d, was)
}

// Raise admits a token for the file at path, which is left as it is, or isn't made: smaller
// ones are refused from now on, also after a power cut. Whoever raises the token before it reads
// the file knows that nobody with a smaller one changes it meanwhile. Errors: as of Replace.
func Raise(ctx context.Context, path string, token backends.Token) error {
	f, _, err := begin(path, token)
	if err != nil {
		return err
	}
	defer f.close()
	if err := f.raise(ctx, token); err != nil {
		return err
	}
	if err := f.dir.Sync(); err != nil {
		return f.explained(err)
	}
	return nil
}

// raise has the sidecar say the token. One that says it already needn't be locked: it is on
// the disk, and no smaller token is under way.
func (f *file) raise(ctx context.Context, token backends.Token) error {
	if s, err := f.openSidecar(); err == nil {
		s.close()
		if s.highest == token {
			return nil
		}
	}
	s, err := f.lock(ctx, token)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.admits(token); err != nil {
		return err
	}
	if err := s.record(token); err != nil {
		return f.explained(err)
	}
	return nil
}

// begin opens a file that may be replaced, and refuses a token that is stale already.
func begin(path string, token backends.Token) (*file, looks, error) {
	f, err := open(path)
	if err != nil {
		return nil, looks{}, err
	}
	is, err := f.looks()
	if err == nil {
		err = f.mayBegin(token)
	}
	if err != nil {
		f.close()
		return nil, looks{}, err
	}
	return f, is, nil
}

// file is a file that may be replaced, or made.
type file struct {
	path string // as it was given, for messages
	name string
	root *os.Root // the folder
	dir  *os.File // the same
}

// ours are the names of what is kept beside a file.
var ours = regexp.MustCompile(`(?s)^\..+\.fence(\.[0-9a-f]{8})?$`)

// open opens the folder of the file at path, which it makes sure is one for fenced files.
func open(path string) (*file, error) {
	dir, name := filepath.Split(path)
	switch f := (&file{path: path, name: name}); {
	case path == "":
		return nil, badPath("", "the file's name is empty")
	case name == "" || name == "." || name == "..":
		return nil, badPath("", "%s is the name of a folder", path)
	case ours.MatchString(name):
		return nil, badPath("", "%s is the name of what is kept beside a fenced file", path)
	case len(name) > longest:
		return nil, f.tooLong()
	}
	if dir == "" {
		dir = "."
	} else if len(dir) > 1 {
		dir = strings.TrimSuffix(dir, "/") // Clean would take link/.. for nothing
	}
	if err := checkFolder(dir, path); err != nil {
		return nil, err
	}
	return openIn(dir, name, path)
}

func openIn(dir, name, path string) (*file, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("the folder of %s can't be opened: %w", path, err)
	}
	f := &file{path: path, name: name, root: root}
	if f.dir, err = root.Open("."); err != nil {
		root.Close()
		return nil, f.explained(err)
	}
	return f, nil
}

func (f *file) close() {
	f.dir.Close()
	f.root.Close()
}

// checkFolder refuses what is no folder, and one on whose file system locks can't be
// relied on.
func checkFolder(dir, path string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return badPath("", "the folder %s doesn't exist", dir)
	case errors.Is(err, syscall.ENOTDIR), err == nil && !info.IsDir():
		return badPath("", "%s is not a folder", dir)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return badPath("", "the name of the folder of %s is too long", path)
	case err != nil:
		return fmt.Errorf("the folder of %s can't be seen: %w", path, err)
	}
	name, err := host.Shared(dir)
	if err != nil {
		return fmt.Errorf("the file system of %s can't be told: %w", path, err)
	}
	if name != "" {
		return backends.Refuse(`on the host that has the disk: … | ssh HOST flockd fence file --token "$FLOCKD_TOKEN" FILE`,
			"%s is on a network or shared file system (%s), where its lock can't be relied on", path, name)
	}
	return nil
}

// inPlace refuses a folder that the path doesn't lead to any more: the content may have
// taken long to come, and a release have been switched meanwhile.
func (f *file) inPlace() error {
	ours, err := f.dir.Stat()
	if err != nil {
		return f.explained(err)
	}
	if there, err := os.Stat(f.root.Name()); err != nil || !os.SameFile(ours, there) {
		return f.explained(errors.New("its folder has been moved, removed or replaced meanwhile"))
	}
	return nil
}

// mayBegin refuses a token that is stale already, so that nothing is read in vain.
func (f *file) mayBegin(token backends.Token) error {
	s, err := f.openSidecar()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return f.explained(err)
	}
	defer s.close()
	return s.admits(token)
}

// commit puts a draft that is whole in the place of the file, which looked like that before.
func (f *file) commit(ctx context.Context, token backends.Token, d *draft, was looks) error {
	s, err := f.lock(ctx, token)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.admits(token); err != nil {
		return err
	}
	if err := f.inPlace(); err != nil {
		return err
	}
	now, err := f.looks()
	if err != nil {
		return err
	}
	if now != was {
		if err := d.dress(now); err != nil {
			return f.explained(err)
		}
	}
	return f.swap(ctx, s, token, d)
}

// swap is commit under the lock. It looks whether ctx has ended: what ends the writer of the
// content as well, Ctrl-C for example, may have been taken for the end of the content.
func (f *file) swap(ctx context.Context, s *sidecar, token backends.Token, d *draft) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.record(token); err != nil {
		return f.explained(err)
	}
	if err := f.dir.Sync(); err != nil {
		return f.explained(err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := d.place(f.name); err != nil {
		return f.explained(err)
	}
	d.Close() // the lock on it is no business of its readers
	if err := f.dir.Sync(); err != nil {
		return fmt.Errorf("%s has the new content, but perhaps not after a power cut: %w", f.path, err)
	}
	return nil
}
