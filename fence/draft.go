package fence

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"syscall"

	"flockd/backends"
)

// draft is a file that is to take the place of another one. Its writer has it locked, by
// which it is known to be alive.
type draft struct {
	*os.File
	of     *file
	name   string
	placed bool
}

const draftDigits = 8

var draftEnd = regexp.MustCompile(`^[0-9a-f]{8}$`)

func (f *file) draftPrefix() string { return f.sidecar() + "." }

// newDraft makes one that is locked.
func (f *file) newDraft(mode os.FileMode) (*draft, error) {
	for {
		name := f.draftPrefix() + backends.NewID()[:draftDigits]
		made, err := f.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, unmade(err)
		}
		d := &draft{File: made, of: f, name: name}
		kept, err := d.keep()
		if kept {
			return d, nil
		}
		d.discard()
		if err != nil {
			return nil, err
		}
	}
}

// keep locks a draft. It is false where somebody sweeps it, who took it for a dead writer's.
func (d *draft) keep() (bool, error) {
	locked, err := tryLock(d.File)
	if !locked {
		return false, err
	}
	info, err := d.Stat()
	return err == nil && info.Sys().(*syscall.Stat_t).Nlink > 0, err
}

// discard removes a draft, unless it has found its place, and closes it.
func (d *draft) discard() {
	if !d.placed {
		d.of.root.Remove(d.name)
	}
	d.Close()
}

// place puts a draft in the place of a file, and leaves it locked.
func (d *draft) place(name string) error {
	err := d.of.root.Rename(d.name, name)
	d.placed = err == nil
	return unmoved(err)
}

// fill writes the content to the disk, with these looks. A reader that hangs is left when
// ctx ends.
func (d *draft) fill(ctx context.Context, content io.Reader, l looks) error {
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(d, content)
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	return d.dress(l)
}

// sweep removes what writers have left that were killed, as far as we may.
func (f *file) sweep() {
	const atOnce = 1000
	for {
		names, err := f.dir.Readdirnames(atOnce)
		for _, name := range names {
			if end, ok := strings.CutPrefix(name, f.draftPrefix()); ok && draftEnd.MatchString(end) {
				f.sweepOne(name)
			}
		}
		if err != nil {
			return
		}
	}
}

// sweepOne removes a draft, unless its writer is alive. No two drafts have the same name, so
// that the name is of no other one by now.
func (f *file) sweepOne(name string) {
	if info, err := f.root.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return // nobody's draft
	}
	left, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer left.Close()
	if dead, _ := tryLock(left); dead {
		f.root.Remove(name)
	}
}
