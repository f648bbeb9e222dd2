package mysql

import (
	"context"
	"database/sql"
	"sync/atomic"
	"time"

	"flockd/backends"
	"flockd/backends/stored"
)

// server implements stored.Server.
type server struct {
	*settings
	db *sql.DB

	// served is set once a step has been answered. From then on, what would otherwise
	// show that the URL names a wrong server is something that has happened to the right
	// one, and may pass: a failover behind the same address, for one.
	served atomic.Bool

	// finds is set where nothing is to be made: a store that nobody has used is left so.
	finds bool
}

// connections is how many one client may have at once. A run uses one, and a few more where
// some don't answer; the rest is for a process with many holds, whose steps take a millisecond
// each. MySQL itself takes 151 from all its clients, where nobody has set more.
const connections = 16

// Open reads the URL. The first request connects, and makes what isn't there.
func Open(_ context.Context, u *backends.URL) (backends.Backend, error) { return newStore(u, false) }

// Find reads the URL. Requests are answered by a *backends.UnusedError while there are no
// tables.
func Find(_ context.Context, u *backends.URL) (backends.Backend, error) { return newStore(u, true) }

func newStore(u *backends.URL, finds bool) (backends.Backend, error) {
	settings, err := read(u)
	if err != nil {
		return nil, err
	}
	to := connect(settings)
	to.finds = finds
	return stored.New(to, settings.timeout), nil
}

func connect(settings *settings) *server {
	s := &server{settings: settings}
	s.db = sql.OpenDB(&connector{to: s})
	s.db.SetMaxOpenConns(connections)
	s.db.SetMaxIdleConns(connections)
	return s
}

// Close implements stored.Server.
func (s *server) Close() error { return s.db.Close() }

// Do implements stored.Server. A step that the server has rolled back, for a deadlock or a lock
// that it waited for in vain, is tried again. Where the procedures aren't there, it makes them first.
func (s *server) Do(ctx context.Context, step stored.Step, args ...any) ([][]byte, error) {
	for began, made := time.Now(), false; ; {
		rows, err := s.query(ctx, s.call(ctx, step, args))
		switch {
		case err == nil:
			s.served.Store(true)
			return rows, nil
		case isMissing(err) && s.finds:
			return nil, stored.Unused(s.address(), step)
		case isMissing(err) && !made:
			made = true
			if err := s.make(ctx); err != nil {
				return nil, s.classify(err)
			}
		case !isRolledBack(err) || !stored.Pause(ctx, time.Since(began)):
			return nil, s.classify(err)
		}
	}
}

// query returns the rows of all results, of which each line is a row of the answer. The
// answer counts once all of it is there: an error may come behind the rows.
func (s *server) query(ctx context.Context, text string) (answer [][]byte, err error) {
	rows, err := s.db.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for more := true; more; more = rows.NextResultSet() {
		for rows.Next() {
			var row []byte
			if err := rows.Scan(&row); err != nil {
				return nil, err
			}
			answer = append(answer, lines(row)...)
		}
	}
	return answer, rows.Err()
}
