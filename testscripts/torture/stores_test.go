package torture

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"
)

func TestSQLite(t *testing.T) {
	t.Parallel()
	torture(t, sqlite(t))
}

// torture is a storm over a store, and what must hold during and after it.
func torture(t *testing.T, s *store) {
	a := newArena(t, s, flockd(t), seedOf(t))
	t.Logf("%s: FLOCKD_TORTURE_SEED=%d", s.name, a.seed)
	ctx, cancel := context.WithTimeout(t.Context(), lastsFor(t))
	defer cancel()
	a.storm(ctx)
	if err := a.history.catchUp(); err != nil {
		t.Error(err)
	}
	a.serve(t.Context())
	a.check()
}

func sqlite(t *testing.T) *store {
	file := filepath.Join(t.TempDir(), "flockd.db")
	url := "sqlite://" + file
	return &store{name: "sqlite", ways: []string{url}, direct: url, faults: []fault{
		{"lock the file", func(ctx context.Context, r *rand.Rand) bool {
			return lockFile(ctx, file, between(r, 50*time.Millisecond, 5*time.Second)) == nil
		}},
	}}
}

// lockFile keeps everybody from writing to a database for a while.
func lockFile(ctx context.Context, file string, d time.Duration) error {
	db, err := sql.Open("sqlite3", "file:"+file+"?mode=rw&_busy_timeout=5000")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	lasts(ctx, d)
	_, err = db.Exec("ROLLBACK")
	return err
}
