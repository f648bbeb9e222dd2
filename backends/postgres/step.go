package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"flockd/backends/stored"
)

// Do implements stored.Server.
func (s *server) Do(ctx context.Context, step stored.Step, args ...any) ([][]byte, error) {
	for began, made := time.Now(), false; ; {
		rows, err := s.try(ctx, step, args)
		switch f := fate(err); {
		case err == nil:
			s.served.Store(true)
			return rows, nil
		case f == missing && !made:
			if err := s.make(ctx, step); err != nil {
				return nil, err
			}
			made = true
		case f != again || !stored.Pause(ctx, time.Since(began)):
			return nil, s.classify(err)
		}
	}
}

func (s *server) try(ctx context.Context, step stored.Step, args []any) ([][]byte, error) {
	if l, ok := ctx.Value(ours{}).(*link); ok {
		return s.run(ctx, l, step, args)
	}
	l, err := s.pool.take(ctx)
	if err != nil {
		return nil, err
	}
	defer s.pool.give(l)
	return s.run(ctx, l, step, args)
}

// ours is the key of a context's connection, which its steps are done on.
type ours struct{}

// forsaken is the server's routine that warns when a commit was told not to wait for standbys
// any more, by pg_cancel_backend for one. The text is in the server's language.
const forsaken = "SyncRepWaitForLSN"

// errAlone says that a step was done, and may not outlast a failover.
var errAlone = errors.New("no standby has confirmed it")

// run does a step. What it says of itself in an error was done as little as any other that
// failed.
func (s *server) run(ctx context.Context, l *link, step stored.Step, args []any) (rows [][]byte, err error) {
	l.alone = false
	results, err := l.Exec(ctx, s.query(ctx, step, args)).ReadAll()
	var said *pgconn.PgError
	switch {
	case errors.As(err, &said) && said.Code == ownAnswer:
		return [][]byte{[]byte(said.Detail)}, nil
	case err != nil:
		if fate(err) == displaced {
			l.drop()
			s.pool.forget()
		}
		return nil, err
	case l.alone:
		return nil, s.fault(errAlone, "its wait for a standby was broken off, and a failover may forget the step %s", step)
	case len(results) == 0:
		return nil, fmt.Errorf("%s: the step %s had no result", s.name, step)
	}
	for _, row := range results[len(results)-1].Rows {
		pid, _ := strconv.ParseUint(string(row[0]), 10, 32)
		l.tried, l.pooled = true, uint32(pid) != l.PID()
		rows = append(rows, row[1])
	}
	return rows, nil
}

// plans makes the server use the indexes, whatever it believes to know of the tables, and plan
// each statement of a function once.
const plans = "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off; " +
	"SET LOCAL jit = off; SET LOCAL plan_cache_mode = force_generic_plan; "

// query is the text of a step. A query of several statements is one transaction, which ends with
// it, by an error too.
func (s *server) query(ctx context.Context, step stored.Step, args []any) string {
	var b strings.Builder
	b.WriteString(s.begin(ctx))
	fmt.Fprintf(&b, `SET LOCAL search_path = "%s", pg_temp; `, s.prefix)
	b.WriteString(plans)
	fmt.Fprintf(&b, `SELECT pg_backend_pid(), a FROM "%s".%s_1(`, s.prefix, step)
	for i, arg := range args {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(literal(arg))
	}
	b.WriteString(") AS a")
	return b.String()
}

// begin says what a transaction of ours needs, and how long it may last: as long as the client
// waits for it, and half as long for a lock, to be told of it.
func (s *server) begin(ctx context.Context) string {
	left := s.timeout
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	ms := max(left.Milliseconds(), 1)
	return fmt.Sprintf("SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE; SET LOCAL client_min_messages = warning; SET LOCAL statement_timeout = %d; SET LOCAL lock_timeout = %d; ",
		ms, max(ms/2, 1))
}

// literal is an argument as it is written in a query, whatever standard_conforming_strings is.
func literal(arg any) string {
	switch a := arg.(type) {
	case int64:
		return strconv.FormatInt(a, 10)
	case bool:
		return strconv.FormatBool(a)
	case []byte:
		return "decode('" + hex.EncodeToString(a) + "', 'hex')"
	case string:
		return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `''`, "\x00", "").Replace(a) + "'"
	}
	panic(fmt.Sprintf("postgres: an argument of type %T", arg))
}
