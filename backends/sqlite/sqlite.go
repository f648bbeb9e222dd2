//go:build cgo && linux

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/mattn/go-sqlite3"

	"flockd/backends"
)

// Store is one client of a database file.
type Store struct {
	db        *sql.DB
	path      string // as the user named it, absolute
	prefix    string
	timeout   time.Duration // of one request
	clock     clock
	wall      func() int64 // the wall clock in µs: the floor of tokens, and for display
	files     identity     // what path was when it was opened
	bell      func() (*bell, error)
	lockFiles func() [len(lockRanges)]int
}

var _ interface {
	backends.Backend
	backends.Waiter
	backends.Watcher
	backends.Ledger
	backends.Register
} = (*Store)(nil)

// Open opens the database at u, and makes it where there is none.
func Open(ctx context.Context, u *backends.URL) (backends.Backend, error) {
	return opened(ctx, u, (*Store).open)
}

// opened is the store at u, which open has connected.
func opened(ctx context.Context, u *backends.URL, open func(s *Store, ctx context.Context, standard bool) error) (backends.Backend, error) {
	path, standard, err := locate(u)
	if err != nil {
		return nil, err
	}
	timeout, err := u.Timeout()
	if err != nil {
		return nil, err
	}
	clock, err := readClock()
	if err != nil {
		return nil, err
	}
	s := &Store{
		path: path, prefix: u.Prefix(), timeout: timeout, clock: clock,
		wall:      func() int64 { return time.Now().UnixMicro() },
		bell:      sync.OnceValues(func() (*bell, error) { return openBell(real(path)) }),
		lockFiles: sync.OnceValue(func() [len(lockRanges)]int { return lockFiles(real(path)) }),
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := open(s, ctx, standard); err != nil {
		return nil, s.classify(err)
	}
	return s, nil
}

// open prepares the file and connects.
func (s *Store) open(ctx context.Context, standard bool) error {
	if err := prepare(s.path, standard); err != nil {
		return err
	}
	before, err := inode(s.path)
	if err != nil {
		return err
	}
	s.connect("rw")
	err = s.migrate(ctx)
	if err == nil {
		err = s.know(before)
	}
	if err != nil {
		s.db.Close()
	}
	return err
}

// Traits: a claim is a row, which any client can work on and which stays.
func (s *Store) Traits() backends.Traits {
	return backends.Traits{Clock: backends.Monotonic, Portable: true, Outlives: true}
}

// Address is the store's URL in its absolute form.
func (s *Store) Address() string {
	u, _ := backends.ParseURL("sqlite://")
	u.Path = s.path
	if s.prefix != backends.DefaultPrefix {
		u.Query.Set("prefix", s.prefix)
	}
	return u.String()
}

// Close leaves the connection to the end of the process. To close the last one of
// a file is to carry the log over and to remove it, which waits for the disk four
// times at the end of each run; a process that just ends costs the next one a look
// through a short log.
func (s *Store) Close() error { return nil }

// A connection waits for no lock by itself (a step does that, in Go), doesn't
// make the file, and gives a commit to the log without waiting for the disk: a
// power cut ends every hold anyway, and tokens are cared for by their ceiling. The
// log is carried over into the file each 400 pages (of 1 KiB), so that the first to
// open it after a pause has little of it to read.
const onConnect = `PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 400`

// connections is how many a process has at most. Steps wait for each other anyway, and one
// that hangs in the file system mustn't hold up the others.
const connections = 8

// connect has connections made, when they are needed; see connector for the mode.
func (s *Store) connect(mode string) {
	s.db = sql.OpenDB(connector(s.path, mode))
	s.db.SetMaxOpenConns(connections)
	s.db.SetMaxIdleConns(connections)
}

// connector makes connections for reading and writing, rw, or for reading alone, ro.
func connector(path, mode string) *link {
	u, _ := backends.ParseURL("file:?_busy_timeout=0&mode=" + mode)
	u.Path = path
	return &link{dsn: u.String()}
}

// link makes connections for database/sql.
type link struct {
	driver sqlite3.SQLiteDriver
	dsn    string
}

// isBusy reports whether another connection has the lock that err is about.
func isBusy(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && (e.Code == sqlite3.ErrBusy || e.Code == sqlite3.ErrLocked)
}
