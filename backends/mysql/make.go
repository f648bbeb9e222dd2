package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strconv"
	"strings"

	"flockd/backends"
)

// make makes the tables and procedures. Any number of clients may do it at once; all but one
// of them find it done.
func (s *server) make(ctx context.Context) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer conn.Raw(func(any) error { return driver.ErrBadConn }) // not used again: its mode was set, and it has a lock
	if err := fit(ctx, conn, s.name); err != nil {
		return err
	}
	// One at a time, for a database: else it takes longer, no more. So nobody waits all of its
	// time for one that stands still.
	var alone sql.NullInt64
	if err := row(ctx, conn, &alone, "SELECT GET_LOCK(SHA1(CONCAT(DATABASE(), '."+string(s.prefix)+"')), "+strconv.Itoa(patience(ctx)/2)+")"); err != nil {
		return err
	}
	if done, err := s.isMade(ctx, conn); done || err != nil {
		return err
	}
	if err := s.free(ctx, conn); err != nil {
		return err
	}
	statements := s.prefix.statements()
	_, err = conn.ExecContext(ctx, strings.Join(statements, ";\n")) // some fifty trips would take longer than a first request may
	if numberOf(err) == exists {
		return each(ctx, conn, statements)
	}
	return err
}

// each makes what is missing of the procedures, where MySQL knows no IF NOT EXISTS for them.
func each(ctx context.Context, conn *sql.Conn, statements []string) error {
	for _, statement := range statements {
		if _, err := conn.ExecContext(ctx, statement); err != nil && numberOf(err) != exists {
			return err
		}
	}
	return nil
}

// exists is the number of the error that a procedure is there.
const exists = 1304

func row(ctx context.Context, conn *sql.Conn, value any, query string) error {
	return conn.QueryRowContext(ctx, query).Scan(value)
}

// fit refuses a server that is too old.
func fit(ctx context.Context, conn *sql.Conn, name string) error {
	var version string
	if err := row(ctx, conn, &version, "SELECT VERSION()"); err != nil {
		return err
	}
	least := "5.7"
	if strings.Contains(strings.ToLower(version), "mariadb") {
		least = "10.5"
	}
	if older(version, least) {
		return backends.Refuse("", "%s is %s, and flockd needs MySQL 5.7 or MariaDB 10.5", name, version)
	}
	return nil
}

// older reports whether a version is before another, by their first two numbers. One that
// can't be read isn't.
func older(version, than string) bool {
	var a, b, c, d int
	if n, _ := fmt.Sscanf(version, "%d.%d", &a, &b); n < 2 {
		return false
	}
	fmt.Sscanf(than, "%d.%d", &c, &d)
	return a < c || a == c && b < d
}

// isMade reports whether all is there. It is asked by one at a time, so it opens no table.
func (s *server) isMade(ctx context.Context, conn *sql.Conn) (bool, error) {
	tables, procedures := s.prefix.tables(), s.prefix.procedures()
	var n int
	err := row(ctx, conn, &n, "SELECT"+
		" (SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN "+list(tables)+") +"+
		" (SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE() AND ROUTINE_NAME IN "+list(procedures)+")")
	return n == len(tables)+len(procedures), err
}

func list(names []string) string { return "('" + strings.Join(names, "', '") + "')" }

// free refuses tables of others and of a later flockd.
func (s *server) free(ctx context.Context, conn *sql.Conn) error {
	rows, err := conn.QueryContext(ctx, "SELECT TABLE_NAME, TABLE_COMMENT FROM information_schema.TABLES"+
		" WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN "+list(s.prefix.tables()))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var table, comment string
		if err := rows.Scan(&table, &comment); err != nil {
			return err
		}
		if err := s.ours(table, comment); err != nil {
			return err
		}
	}
	return rows.Err()
}

// ours judges a table by its comment.
func (s *server) ours(table, comment string) error {
	number, ok := strings.CutPrefix(comment, "flockd schema ")
	switch n, err := strconv.Atoi(number); {
	case !ok || err != nil:
		return backends.Refuse("?prefix= chooses other names", "%s: the table %s is none of flockd's", s.name, table)
	case strconv.Itoa(n) != version:
		return backends.Refuse("use the newer flockd here as well", "%s: the table %s is of a newer flockd", s.name, table)
	}
	return nil
}
