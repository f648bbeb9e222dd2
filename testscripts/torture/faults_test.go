//go:build linux

package torture

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"time"

	_ "github.com/mattn/go-sqlite3"

	"flockd/backends/backendtest/servers"
)

// fileFaults harm a database file.
func fileFaults(file string) []fault {
	return []fault{{"lock the file", func(ctx context.Context, r *rand.Rand) bool {
		return lockFile(ctx, file, between(r, 50*time.Millisecond, 4*time.Second)) == nil
	}}}
}

// lockFile keeps everybody from writing to a database for a while.
func lockFile(ctx context.Context, file string, d time.Duration) error {
	unlock, err := lockNow(ctx, file)
	if err != nil {
		return err
	}
	lasts(ctx, d)
	return unlock()
}

// lockNow keeps everybody from writing to a database until it is unlocked.
func lockNow(ctx context.Context, file string) (unlock func() error, _ error) {
	db, err := sql.Open("sqlite3", "file:"+file+"?mode=rw&_busy_timeout=5000")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		db.Close()
		return nil, err
	}
	return func() error {
		defer db.Close()
		_, err := db.Exec("ROLLBACK")
		return err
	}, nil
}

// sessionFaults are other sessions of a PostgreSQL that have tables or rows of ours locked
// for a while, with nothing else to do.
func sessionFaults(addr string) []fault {
	locking := func(lock string) func(context.Context, *rand.Rand) bool {
		return func(ctx context.Context, r *rand.Rand) bool {
			idle := fmt.Sprintf("BEGIN; %s; SELECT pg_sleep(%f)", lock, between(r, 50*time.Millisecond, 4*time.Second).Seconds())
			return exec.CommandContext(ctx, "psql", "-Xq", "-c", idle, "postgres://postgres@"+addr+"/"+servers.PostgresDatabase).Run() == nil
		}
	}
	return []fault{
		{"lock tables", locking("LOCK TABLE flockd.claims")},
		{"lock keys", locking("SELECT FROM flockd.keys FOR UPDATE")},
		{"lock claims", locking("SELECT FROM flockd.claims FOR UPDATE")},
	}
}

// tableFaults are other sessions of a MariaDB that do so.
func tableFaults(addr string) []fault {
	locking := func(lock string) func(context.Context, *rand.Rand) bool {
		return func(ctx context.Context, r *rand.Rand) bool {
			host, port, _ := net.SplitHostPort(addr)
			idle := fmt.Sprintf("%s; DO SLEEP(%f)", lock, between(r, 50*time.Millisecond, 4*time.Second).Seconds())
			return exec.CommandContext(ctx, "mariadb", "--no-defaults", "--user=root", "--host="+host, "--port="+port,
				"--execute="+idle, servers.MariaDBDatabase).Run() == nil
		}
	}
	return []fault{
		{"lock tables", locking("LOCK TABLES flockd_claims WRITE")},
		{"lock keys", locking("BEGIN; SELECT k FROM flockd_keys FOR UPDATE")},
		{"lock claims", locking("BEGIN; SELECT k FROM flockd_claims FOR UPDATE")},
		{"lock server", locking("FLUSH TABLES WITH READ LOCK")},
	}
}

// serverFaults harm one server at a time, drawn from members. A server keeps what it
// acknowledged over a restart, or else what it grants afterwards is no lock.
func serverFaults(members []*servers.Process) []fault {
	on := func(apply func(ctx context.Context, r *rand.Rand, p *servers.Process)) func(context.Context, *rand.Rand) bool {
		return func(ctx context.Context, r *rand.Rand) bool {
			apply(ctx, r, members[r.IntN(len(members))])
			return true
		}
	}
	return []fault{
		{"freeze server", on(func(ctx context.Context, r *rand.Rand, p *servers.Process) {
			p.Freeze()
			lasts(ctx, between(r, 50*time.Millisecond, 5*time.Second))
			p.Thaw()
		})},
		{"kill server", on(func(ctx context.Context, r *rand.Rand, p *servers.Process) {
			p.Kill()
			lasts(ctx, between(r, 10*time.Millisecond, 3*time.Second))
			p.Start()
		})},
	}
}

// netFaults harm the connections through one proxy at a time, drawn from proxies.
// Every request of flockd has match in it.
func netFaults(proxies []*servers.TCPProxy, match []byte) []fault {
	on := func(apply func(context.Context, *rand.Rand, *servers.TCPProxy)) func(context.Context, *rand.Rand) bool {
		return func(ctx context.Context, r *rand.Rand) bool {
			apply(ctx, r, proxies[r.IntN(len(proxies))])
			return true
		}
	}
	return []fault{
		{"delay", on(func(ctx context.Context, r *rand.Rand, x *servers.TCPProxy) {
			dir := direction(r)
			x.Delay(dir, between(r, 20*time.Millisecond, 2*time.Second))
			lasts(ctx, between(r, time.Second, 4*time.Second))
			x.Pass(dir)
		})},
		{"stall", on(func(ctx context.Context, r *rand.Rand, x *servers.TCPProxy) {
			dir := direction(r)
			x.Stall(dir)
			lasts(ctx, between(r, 50*time.Millisecond, 5*time.Second))
			x.Pass(dir)
		})},
		{"silence", on(func(_ context.Context, _ *rand.Rand, x *servers.TCPProxy) { x.Silence() })},
		{"cut", on(func(_ context.Context, _ *rand.Rand, x *servers.TCPProxy) { x.Cut() })},
		{"refuse", on(func(ctx context.Context, r *rand.Rand, x *servers.TCPProxy) {
			x.Refuse(true)
			x.Cut()
			lasts(ctx, between(r, 50*time.Millisecond, 4*time.Second))
			x.Refuse(false)
		})},
		{"lose a reply", func(ctx context.Context, r *rand.Rand) bool {
			select {
			case <-proxies[r.IntN(len(proxies))].LoseReply(match):
				return true
			case <-ctx.Done():
			case <-time.After(8 * time.Second): // nobody asks by this way, yet
			}
			return false
		}},
	}
}

func direction(r *rand.Rand) servers.Direction {
	return []servers.Direction{servers.Requests, servers.Replies}[r.IntN(2)]
}
