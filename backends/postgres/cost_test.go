package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"flockd/backends"
	"flockd/backends/backendtest"
	"flockd/backends/backendtest/servers"
	"flockd/backends/stored"
)

// TestCost has a server to itself, which nobody else changes anything on.
func TestCost(t *testing.T) {
	t.Parallel()
	p := servers.Postgres(t, "fsync=off", "autovacuum=off", "log_statement=all")
	t.Run("StepIsOneTrip", func(t *testing.T) { stepIsOneTrip(t, p) })
	t.Run("HandOverInALongLine", func(t *testing.T) { handOverInALongLine(t, p) })
	t.Run("RenewalNeedsNoIndex", func(t *testing.T) { renewalNeedsNoIndex(t, p) })
}

// stepIsOneTrip: each step is one query. What is answered by reading alone writes nothing.
func stepIsOneTrip(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	s := open(t, url)
	release(t, s, acquire(t, s, request("a"))) // a key that is made is a reason to sweep
	lease := acquire(t, s, request("a"))
	waiter := queue("a")
	for _, step := range []struct {
		what   string
		writes bool
		do     func()
	}{
		{"skip", false, func() { held(t, s, request("a")) }},
		{"wait", true, func() { held(t, s, waiter) }},
		{"renew", true, func() { renew(t, s, lease) }},
		{"ask", true, func() { s.Ask(t.Context(), "a", lease.ID, backends.Notice{Kind: backends.Resign}) }},
		{"look at a hold", false, func() { s.Watch(t.Context(), lease) }},
		{"inspect", false, func() { s.Inspect(t.Context(), "a") }},
		{"look a run up", false, func() { s.Completed(t.Context(), "a", "run") }},
		{"release", true, func() { release(t, s, lease) }},
		{"admit", true, func() { backendtest.Admit(t, s, "a", 7) }},
		{"admit a larger one", true, func() { backendtest.Admit(t, s, "a", 8) }},
		{"admit a stale one", false, func() { backendtest.WantStale(t, s.Admit(t.Context(), "a", 7), 8) }},
		{"look a token up", false, func() { backendtest.WantHighest(t, s, "a", 8) }},
		{"set it down", true, func() { s.Reset(t.Context(), "a", 1, true) }},
	} {
		asked, wrote := queries(t, p, url), transactions(t, url)
		step.do()
		if n := queries(t, p, url) - asked; n != 1 {
			t.Errorf("%s: %d queries", step.what, n)
		}
		if n := transactions(t, url) - wrote; n > 1 || n == 1 != step.writes {
			t.Errorf("%s: %d transactions that write", step.what, n)
		}
	}
}

// queries is how many of the driver's the server has been sent, by its log, which comes a
// moment later than the answer.
func queries(t *testing.T, p *servers.Process, url string) int {
	t.Helper()
	mark := backends.NewID()
	run(t, url, "SELECT '"+mark+"'")
	await(t, "the server's log", func() (string, bool) { return "", strings.Contains(p.Log(), mark) })
	return strings.Count(p.Log(), "statement: SET TRANSACTION ISOLATION")
}

// transactions is how many have written something on the whole server so far.
func transactions(t *testing.T, url string) int {
	t.Helper()
	n, _ := strconv.Atoi(string(run(t, url, "SELECT pg_snapshot_xmax(pg_current_snapshot())")[0][0]))
	return n
}

// handOverInALongLine: a hand-over costs the same whatever the number of those who wait.
func handOverInALongLine(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	backendtest.HandOverCosts(t, open(t, url), 1.5, func(handOver func(backends.Backend)) map[string]float64 {
		counted := counts(t, url)
		handOver(counted.store)
		return map[string]float64{"read": counted.read, "written": counted.written}
	})
}

// counting does steps as the driver does, and counts the rows that they take.
type counting struct {
	*server
	session stranger
	store   *stored.Store

	read, written float64
}

func counts(t *testing.T, url string) *counting {
	t.Helper()
	u, err := backends.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	settings, err := read(u)
	if err != nil {
		t.Fatal(err)
	}
	c := &counting{server: &server{settings: settings}, session: session(t, url)}
	c.store = stored.New(c, settings.timeout)
	return c
}

func (c *counting) Do(ctx context.Context, step stored.Step, args ...any) (rows [][]byte, err error) {
	const figures = `SELECT sum(seq_tup_read + idx_tup_fetch), sum(n_tup_ins + n_tup_upd + n_tup_del)
		FROM pg_stat_xact_user_tables WHERE schemaname = 'flockd'; `
	query := c.query(ctx, step, args)
	i := strings.Index(query, "SELECT pg_backend_pid()")
	results, err := c.session.Exec(ctx, "BEGIN; "+query[:i]+figures+query[i:]+"; "+figures+"COMMIT").ReadAll()
	if err != nil {
		return nil, err
	}
	n := len(results)
	read, written := figuresIn(results[n-4])
	c.read, c.written = c.read-read, c.written-written
	read, written = figuresIn(results[n-2])
	c.read, c.written = c.read+read, c.written+written
	for _, row := range results[n-3].Rows {
		rows = append(rows, row[1])
	}
	return rows, nil
}

func figuresIn(result *pgconn.Result) (read, written float64) {
	fmt.Sscan(string(result.Rows[0][0]), &read)
	fmt.Sscan(string(result.Rows[0][1]), &written)
	return read, written
}

// renewalNeedsNoIndex: of many renewals nearly all stay on their page, and need no new entry in
// any index.
func renewalNeedsNoIndex(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	s := open(t, url)
	req := request("a")
	req.Owner.Note = strings.Repeat("a note of some length ", 10)
	lease := acquire(t, s, req)
	const n = 300
	for range n {
		renew(t, s, lease)
	}
	s.Close() // the session's figures come with its end
	await(t, "the figures", func() (string, bool) {
		row := run(t, url, "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = 'flockd' AND relname = 'claims'")[0]
		all, _ := strconv.Atoi(string(row[0]))
		hot, _ := strconv.Atoi(string(row[1]))
		if all >= n && hot < all*9/10 {
			t.Errorf("%d of %d renewals", hot, all)
		}
		return fmt.Sprint(all), all >= n
	})
}
