package fence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"flockd/backends"
)

// sidecar is the one of a file, open.
type sidecar struct {
	of      *file
	held    *os.File
	highest backends.Token
}

func (f *file) sidecar() string { return "." + f.name + ".fence" }

func (s *sidecar) close() { s.held.Close() }

// admits is a *backends.StaleError if the token is smaller than the sidecar's.
func (s *sidecar) admits(token backends.Token) error {
	if token < s.highest {
		return &backends.StaleError{Resource: s.of.path, Token: token, Highest: s.highest}
	}
	return nil
}

// openSidecar opens and reads the sidecar. fs.ErrNotExist: there is none yet.
func (f *file) openSidecar() (*sidecar, error) {
	info, err := f.root.Lstat(f.sidecar())
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, f.damaged("it is not a regular file")
	}
	held, err := f.root.OpenFile(f.sidecar(), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, f.unread(err)
	}
	s := &sidecar{of: f, held: held}
	if s.highest, err = f.read(held); err != nil {
		held.Close()
		return nil, err
	}
	return s, nil
}

// record is what a sidecar says.
type record struct {
	Version int            `json:"v"`
	Token   backends.Token `json:"token"`
}

func (f *file) read(from io.Reader) (backends.Token, error) {
	const longest = 1 << 10
	text, err := io.ReadAll(io.LimitReader(from, longest))
	if err != nil {
		return 0, err
	}
	var r record
	switch err := json.Unmarshal(text, &r); {
	case err == nil && r.Version > backends.RecordVersion:
		return 0, backends.Refuse("upgrade flockd here", "%s has been fenced by a newer flockd", f.path)
	case err != nil, r.Version != backends.RecordVersion, !bytes.Equal(text, r.text()), r.Token < 1, r.Token > backends.MaxToken:
		return 0, f.damaged(fmt.Sprintf("it says %.40q", text))
	}
	return r.Token, nil
}

func (r record) text() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // two numbers
	}
	return append(text, '\n')
}

func (f *file) damaged(why string) error {
	return backends.Refuse("find out the largest token that has been used, and write it: echo '"+
		string(bytes.TrimSpace(record{backends.RecordVersion, 41}.text()))+"'; without the file any token is admitted",
		"%s, which keeps the largest token for %s, is damaged: %s", f.sidecar(), f.path, why)
}

// lock locks the sidecar and reads it, in this order; the first one is made, with the token.
func (f *file) lock(ctx context.Context, token backends.Token) (*sidecar, error) {
	for {
		s, err := f.openSidecar()
		if errors.Is(err, fs.ErrNotExist) {
			s, err = f.firstSidecar(token)
			if err == nil || !errors.Is(err, fs.ErrExist) {
				return s, f.explainedOr(err)
			}
			continue
		}
		if err != nil {
			return nil, f.explained(err)
		}
		if err := s.await(ctx); err != nil {
			s.close()
			return nil, err
		}
		there, err := s.inPlace()
		if err == nil && there {
			err = s.readAgain()
		}
		if err == nil && there {
			return s, nil
		}
		s.close()
		if err != nil {
			return nil, f.explained(err)
		}
	}
}

func (f *file) explainedOr(err error) error {
	if err == nil {
		return nil
	}
	return f.explained(err)
}

// readAgain reads a sidecar that is locked: somebody may have edited it while we waited.
func (s *sidecar) readAgain() error {
	_, err := s.held.Seek(0, io.SeekStart)
	if err == nil {
		s.highest, err = s.of.read(s.held)
	}
	return err
}

// inPlace reports whether the sidecar is the one that its name leads to.
func (s *sidecar) inPlace() (bool, error) {
	ours, err := s.held.Stat()
	if err != nil {
		return false, err
	}
	there, err := s.of.root.Lstat(s.of.sidecar())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(ours, there), err
}

// record makes a sidecar that is locked say the token.
func (s *sidecar) record(token backends.Token) error {
	if token == s.highest {
		return nil
	}
	d, err := s.of.draftSidecar(token)
	if err != nil {
		return err
	}
	if err := d.place(s.of.sidecar()); err != nil {
		d.discard()
		return err
	}
	s.held.Close()
	s.held, s.highest = d.File, token
	return nil
}

// firstSidecar makes the sidecar. fs.ErrExist: somebody else has.
func (f *file) firstSidecar(token backends.Token) (*sidecar, error) {
	d, err := f.draftSidecar(token)
	if err != nil {
		return nil, err
	}
	err = f.root.Link(d.name, f.sidecar())
	if err != nil {
		d.discard()
		return nil, err
	}
	f.root.Remove(d.name)
	return &sidecar{f, d.File, token}, nil
}

// draftSidecar makes one that is on the disk, and locked.
func (f *file) draftSidecar(token backends.Token) (*draft, error) {
	d, err := f.newDraft(0o600)
	if err != nil {
		return nil, err
	}
	err = d.share()
	if err == nil {
		_, err = d.Write(record{backends.RecordVersion, token}.text())
	}
	if err == nil {
		err = d.Sync()
	}
	if err != nil {
		d.discard()
		return nil, err
	}
	return d, nil
}

// share lets those read a sidecar, and so lock it, who may write the folder.
func (d *draft) share() error {
	info, err := d.of.root.Stat(".")
	if err != nil {
		return err
	}
	folder := looksOf(info)
	if _, err := d.own(folder); err != nil {
		return err
	}
	const groupWrites, othersWrite = 0o020, 0o002
	return d.Chmod(0o600 | (folder.mode&(groupWrites|othersWrite))<<1)
}
